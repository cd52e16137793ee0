"""Bundle archive, a bundle as one file: a tar of its folder, packed with zstd; the same folder gives the same bytes.

It is read in memory and never unpacked onto a disk, so that no member can lead anywhere.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path

from forecaster.errors import BundleError

SUFFIX = ".tar.zst"
MAX_BYTES = 1 << 30  # bytes, unpacked: far above any bundle, far below what fills a machine
MAX_MEMBERS = 16  # members


def pack(folder: Path) -> Path:
    """Write a bundle's folder as one file beside it, whole or not at all."""
    import pyarrow as pa  # which those who read folders do without

    target = folder.with_name(folder.name + SUFFIX)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(folder.iterdir()):
            member = tarfile.TarInfo(f"{folder.name}/{file.name}")  # without date, owner and the like
            member.size, member.mode = file.stat().st_size, 0o644
            with file.open("rb") as content:
                tar.addfile(member, content)
    packed = pa.Codec("zstd").compress(out.getvalue(), asbytes=True)
    handle, beside = tempfile.mkstemp(prefix=".bundle-", dir=folder.parent)
    try:
        with os.fdopen(handle, "wb") as file_:
            file_.write(packed)
            file_.flush()
            os.fsync(file_.fileno())
        Path(beside).chmod(0o644)
        Path(beside).rename(target)
    finally:
        Path(beside).unlink(missing_ok=True)
    return target


def unpack(file: Path) -> tuple[str, dict[str, bytes]]:
    """The name of the folder that was packed, and the content of its files by name, in memory.

    Raises BundleError for what is no such file, is larger than any bundle, or has a member that is no plain file of
    one folder.
    """
    import pyarrow as pa  # likewise

    content: dict[str, bytes] = {}
    folders = set()
    try:
        with pa.CompressedInputStream(pa.OSFile(str(file)), "zstd") as stream:
            plain = stream.read(MAX_BYTES + 1)
        if len(plain) > MAX_BYTES:
            raise BundleError(f"bundle {file}: found more than {MAX_BYTES:,} bytes when unpacked, wanted a bundle")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
            for member in tar:
                folder, _, name = member.name.rpartition("/")
                plain_name = folder not in ("", ".", "..") and "/" not in folder and name not in ("", ".", "..")
                if not member.isreg() or not plain_name or "\\" in member.name or "\0" in member.name:
                    raise BundleError(
                        f"bundle {file}: member {member.name!r} leaves the bundle's folder or is no plain file"
                    )
                if name in content or len(content) == MAX_MEMBERS:
                    raise BundleError(f"bundle {file}: found {name!r} twice, or more than {MAX_MEMBERS} members")
                member_file = tar.extractfile(member)
                assert member_file is not None  # as it is a plain file
                content[name] = member_file.read()
                folders.add(folder)
    except (OSError, tarfile.TarError, pa.ArrowException) as error:
        raise BundleError(f"bundle {file}: found no {SUFFIX} file that can be unpacked: {error}") from error
    if len(folders) != 1:
        raise BundleError(f"bundle {file}: found files of {len(folders)} folders, wanted those of one")
    return folders.pop(), content
