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
def test_names_a_file_with_a_changed_byte(folder: Path, name: str) -> None:
    digests.verify(str(folder))
    flip(folder / name)
    with pytest.raises(OSError, match=f"{name} is damaged: it has sha256"):
        digests.verify(str(folder))
    digests.keep(str(folder))  # trusts the list, not the files
    with pytest.raises(OSError, match="is damaged"):
        digests.verify(str(folder))


def test_deleted_or_unlisted_files_are_no_damage(folder: Path) -> None:
    (folder / "part.parquet").unlink()
    (folder / "other.parquet").write_bytes(b"more rows")
    digests.verify(str(folder))
    digests.keep(str(folder))
    assert sorted(json.loads((folder / digests.LIST).read_text("utf-8"))["files"]) == [
        "_delta_log/0.json",
        "other.parquet",
    ]


def test_rewritten_files_are_listed_anew_when_requested(folder: Path) -> None:
    (folder / "part.parquet").write_bytes(b"the same rows, packed otherwise")
    digests.keep(str(folder), again=".parquet")
    digests.verify(str(folder))


def test_damaged_list_counts_as_missing_and_is_rebuilt(folder: Path) -> None:
    flip(folder / digests.LIST)
    digests.verify(str(folder))
    digests.keep(str(folder))
    flip(folder / "part.parquet")
    with pytest.raises(OSError, match="is damaged"):
        digests.verify(str(folder))


def test_url_is_left_to_its_store() -> None:
    digests.keep("s3://fleet/lake")
    digests.verify("s3://fleet/lake")
