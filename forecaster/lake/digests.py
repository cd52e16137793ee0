"""Digests of a folder's files, which reveal flipped bytes that Parquet and JSON would read as other
numbers.

`_digests.json` lies next to the files and holds the SHA-256 of each, and of itself. Files are
written once and never changed, so listed files are compared; unlisted ones (written by an earlier
version, or just now) are trusted until they are listed. A damaged list counts as missing and is
rebuilt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from forecaster.core import artifact

LIST = "_digests.json"
_REWRITTEN = "_last_checkpoint"  # an optional hint of Delta's
# file → size and modification time of files already verified by this process
_equal: dict[str, tuple[int, int]] = {}


def keep(folder: str, *, again: str = "") -> None:
    """List the existing files; listed ones keep their digests, except names that end with `again`.

    Does nothing for a URL, whose store verifies by itself, and postpones the work if the disk is
    full. Raises OSError for a file that cannot be read.
    """
    if "://" in folder:
        return
    listed = _read(Path(folder))
    digests = {}
    for file in sorted(Path(folder).rglob("*")):
        name = file.relative_to(folder).as_posix()
        if not file.is_file() or file.name.startswith((LIST, _REWRITTEN, ".")) or file.suffix == ".tmp":
            continue
        digest = None if again and name.endswith(again) else listed.get(name)
        digests[name] = digest or artifact.file_digest(file)
    if digests != listed:
        _write(Path(folder), digests)


def verify(folder: str) -> None:
    """Raise OSError naming the first file that differs from its digest; a deleted file is no
    damage."""
    for name, digest in {} if "://" in folder else _read(Path(folder)).items():
        file = Path(folder) / name
        try:
            status = file.stat()
            stamp = status.st_size, status.st_mtime_ns
            if _equal.get(str(file)) == stamp:
                continue
            actual = artifact.file_digest(file)
        except FileNotFoundError:
            continue
        if actual != digest:
            raise OSError(f"{file} is damaged: it has sha256 {actual[:16]}…, and was written with {digest[:16]}…")
        _equal[str(file)] = stamp


def _read(folder: Path) -> Mapping[str, str]:
    try:
        content = json.loads((folder / LIST).read_bytes())
        files: dict[str, str] = content["files"]
        return files if content["sha256"] == _of_list(files) else {}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _write(folder: Path, files: Mapping[str, str]) -> None:
    content = json.dumps({"sha256": _of_list(files), "files": files}, indent=0, sort_keys=True)
    with suppress(OSError):  # a full disk: the next append lists the rest
        artifact.write(folder / LIST, content.encode())


def _of_list(files: Mapping[str, str]) -> str:
    return artifact.digest(json.dumps(files, sort_keys=True).encode())
