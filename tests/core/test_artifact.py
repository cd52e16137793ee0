"""Files and folders are written atomically."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from forecaster.core import artifact


def test_a_file_is_written_whole_and_readable_by_others(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a.json"
    for content in (b"one", b"two"):
        artifact.write(target, content, durable=True)
        assert target.read_bytes() == content
    assert target.stat().st_mode & 0o777 == 0o644
    assert artifact.file_digest(target) == artifact.digest(b"two")
    assert [path.name for path in target.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize("writing", [artifact.writing, artifact.writing_folder])
def test_a_failed_write_leaves_nothing(tmp_path: Path, writing: Callable[[Path], AbstractContextManager[Path]]) -> None:
    with pytest.raises(OSError, match="full"), writing(tmp_path / "target"):
        raise OSError("full")
    assert not list(tmp_path.iterdir())


def test_a_folder_replaces_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with artifact.writing_folder(tmp_path / "target") as new:
        (new / "a").write_text("one", "utf-8")
    assert (tmp_path / "target" / "a").read_text("utf-8") == "one"
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o755


def test_changed_missing_and_new_files_are_differences() -> None:
    actual, expected = {"a": "1", "b": "2", "d": "4"}, {"a": "1", "b": "3", "c": "5"}
    assert list(artifact.differences(actual, expected)) == [("b", "2", "3"), ("c", None, "5"), ("d", "4", None)]
