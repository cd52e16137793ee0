"""Flipped bytes in a folder of files are detected, and unlisted files are trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forecaster.lake import digests


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(bytes(content))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "0.json").write_text("{}", "utf-8")
    (tmp_path / "part.parquet").write_bytes(b"rows of a table")
    digests.keep(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["part.parquet", "_delta_log/0.json"])
def test_another_byte_than_was_written_is_named(folder: Path, name: str) -> None:
    digests.verify(str(folder))
    flip(folder / name)
    with pytest.raises(OSError, match=f"{name} is damaged: it has sha256"):
        digests.verify(str(folder))
    digests.keep(str(folder))  # trusts the list, not the files
    with pytest.raises(OSError, match="is damaged"):
        digests.verify(str(folder))


def test_what_is_gone_or_not_listed_is_no_damage(folder: Path) -> None:
    (folder / "part.parquet").unlink()
    (folder / "other.parquet").write_bytes(b"more rows")
    digests.verify(str(folder))
    digests.keep(str(folder))
    assert sorted(json.loads((folder / digests.LIST).read_text("utf-8"))["files"]) == [
        "_delta_log/0.json",
        "other.parquet",
    ]


def test_what_is_written_again_under_its_name_is_listed_anew_when_that_is_said(folder: Path) -> None:
    (folder / "part.parquet").write_bytes(b"the same rows, packed otherwise")
    digests.keep(str(folder), again=".parquet")
    digests.verify(str(folder))


def test_a_damaged_list_is_as_good_as_none_and_made_anew(folder: Path) -> None:
    flip(folder / digests.LIST)
    digests.verify(str(folder))
    digests.keep(str(folder))
    flip(folder / "part.parquet")
    with pytest.raises(OSError, match="is damaged"):
        digests.verify(str(folder))


def test_an_address_is_left_to_its_store() -> None:
    digests.keep("s3://fleet/lake")
    digests.verify("s3://fleet/lake")
