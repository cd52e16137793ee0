"""Digests of a folder's files, by which a flipped byte is found that Parquet and JSON would pass on
as another number.

`_digests.json` lies among the files and holds the SHA-256 of each, and of itself. Files are written
once and never changed, so that what is listed is compared, and what is not (written by an earlier
version, or just now) is believed until it is listed. A list that is itself damaged is as good as
none, and made anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from forecaster.core import artifact

LIST = "_digests.json"
_REWRITTEN = "_last_checkpoint"  # a hint of Delta's, which it does without
# file → size and time of change of what this process has compared
_equal: dict[str, tuple[int, int]] = {}


def keep(folder: str, *, again: str = "") -> None:
    """List the files that are there; those that are listed stay so, but for names that end with
    `again`.

    Does nothing for an address, whose store compares by itself, and leaves it to the next time
    where the disk is full. Raises OSError for a file that cannot be read.
    """
    if "://" in folder:
        return
    listed = _read(Path(folder))
    digests = {}
    for file in sorted(Path(folder).rglob("*")):
        name = file.relative_to(folder).as_posix()
        if not file.is_file() or file.name.startswith((LIST, _REWRITTEN, ".")) or file.suffix == ".tmp":
            continue
        kept = None if again and name.endswith(again) else listed.get(name)
        digests[name] = kept or artifact.file_digest(file)
    if digests != listed:
        _write(Path(folder), digests)


def verify(folder: str) -> None:
    """Raises OSError that names the first file which is not what was listed; one that is gone is no
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
