"""Bundle archive, a bundle as one file: a tar of its folder, compressed with zstd; the same folder
gives the same bytes.

It is read in memory and never unpacked to disk, so that no member can lead elsewhere. Manifest and
signature come first, and nothing else is unpacked before the signature is verified.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from forecaster.core import artifact
from forecaster.errors import BundleError

SUFFIX = ".tar.zst"
MAX_BYTES = 1 << 30  # bytes, unpacked: far above any bundle, far below what fills a machine
MAX_HEAD = 1 << 24  # bytes, unpacked, before the signature is verified: far above any manifest
MAX_MEMBERS = 16  # files in an archive


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, nbytes: int, /) -> bytes: ...


def pack(folder: Path) -> Path:
    """Write a bundle's folder as one file next to it, atomically."""
    import pyarrow as pa  # imported here, because reading a folder does not need it

    target = folder.with_name(folder.name + SUFFIX)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(folder.iterdir()):
            # without metadata such as date and owner
            member = tarfile.TarInfo(f"{folder.name}/{file.name}")
            member.size, member.mode = file.stat().st_size, 0o644
            with file.open("rb") as content:
                tar.addfile(member, content)
    packed = pa.Codec("zstd").compress(out.getvalue(), asbytes=True)
    artifact.write(target, packed, durable=True)
    return target


class _Bounded:
    """A decompressed stream that raises BundleError after `most` bytes."""

    def __init__(self, stream: Readable, file: Path, most: int) -> None:
        self._stream, self._file, self.most, self._read = stream, file, most, 0

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._read += len(content)
        if self._read > self.most:
            raise BundleError(
                f"bundle {self._file}: found more than {self.most:,} bytes when unpacked, wanted a bundle"
            )
        return content


def unpack(
    file: Path, head: tuple[str, ...], verify: Callable[[str, Mapping[str, bytes]], object]
) -> tuple[str, dict[str, bytes]]:
    """Return the name of the packed folder and the content of its files by name, in memory.

    The members of `head` come first, within `MAX_HEAD` bytes, and `verify` is called with folder
    and content before any other is unpacked. Raises BundleError for a file that is no such archive,
    is larger than any bundle, or has a member that is no plain file of one folder, and whatever
    `verify` raises.
    """
    import pyarrow as pa  # as in `pack`

    content: dict[str, bytes] = {}
    name = ""
    try:
        with pa.CompressedInputStream(pa.OSFile(str(file)), "zstd") as stream:
            bounded = _Bounded(stream, file, MAX_HEAD)
            with tarfile.open(fileobj=bounded, mode="r|") as tar:  # type: ignore[call-overload]
                for member in tar:
                    folder, part = _place(file, member)
                    if fault := _fault(folder, part, name, content, head):
                        raise BundleError(f"bundle {file}: {fault}")
                    if member.size > bounded.most:
                        raise BundleError(f"bundle {file}: {part} has {member.size:,} bytes, wanted {bounded.most:,}")
                    member_file = tar.extractfile(member)
                    assert member_file is not None  # because it is a plain file
                    name, content[part] = folder, member_file.read()
                    if len(content) == len(head):
                        verify(name, content)
                        bounded.most = MAX_BYTES
    except (OSError, tarfile.TarError, pa.ArrowException) as error:
        raise BundleError(f"bundle {file}: found no {SUFFIX} file that can be unpacked: {error}") from error
    if len(content) < len(head):
        raise BundleError(f"bundle {file}: found {len(content)} files, wanted {' and '.join(head)} before all else")
    return name, content


def _fault(folder: str, part: str, name: str, content: Mapping[str, bytes], head: tuple[str, ...]) -> str | None:
    """Return the fault of a member that follows those of `content` in the folder `name`; None if
    there is none."""
    if part in content or len(content) == MAX_MEMBERS:
        return f"found {part!r} twice, or more than {MAX_MEMBERS} members"
    if content and folder != name:
        return f"found files of {name!r} and {folder!r}, wanted one folder"
    if (part in head) != (len(content) < len(head)):
        return f"found {part!r}, wanted {' and '.join(head)} before all else"
    return None


def _place(file: Path, member: tarfile.TarInfo) -> tuple[str, str]:
    """Return folder and name of a member. Raises BundleError if it leads elsewhere or is no plain
    file."""
    folder, _, name = member.name.rpartition("/")
    is_plain = folder not in ("", ".", "..") and "/" not in folder and name not in ("", ".", "..")
    if not member.isreg() or not is_plain or "\\" in member.name or "\0" in member.name:
        raise BundleError(f"bundle {file}: member {member.name!r} leaves the bundle's folder or is no plain file")
    return folder, name
