"""A bundle as one file: the same bytes each time, and no member that leads elsewhere."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from forecaster.errors import BundleError
from forecaster.serving import bundle, bundle_archive
from tests.graphs import signer, small


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    about = {"encoding": {"covariates": [], "statics": []}, "levels": [0.5], "lookback": 3}
    return bundle.write(tmp_path / "bundles", small(), {"bias": np.ones(3, np.float32)}, about, signer())


def packed(file: Path, *members: tarfile.TarInfo, content: bytes = b"x") -> Path:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for member in members:
            member.size = len(content) if member.isreg() or member.type == tarfile.XHDTYPE else 0
            tar.addfile(member, io.BytesIO(content))
    file.write_bytes(pa.Codec("zstd").compress(out.getvalue(), asbytes=True))
    return file


HEAD = ("manifest.json", "manifest.sig")


def unpack(file: Path) -> tuple[str, dict[str, bytes]]:
    """Unpack a file without verifying its head."""
    return bundle_archive.unpack(file, HEAD, lambda name, content: None)


def signed_head(folder: str = "b") -> tuple[tarfile.TarInfo, ...]:
    return tuple(member(f"{folder}/{name}") for name in HEAD)


def member(name: str, kind: bytes = tarfile.REGTYPE, leads_to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, leads_to
    return info


def test_the_file_has_the_folders_bundle_under_any_name(folder: Path) -> None:
    file = bundle_archive.pack(folder)
    assert file.name == f"{folder.name}.tar.zst"
    trusted = (signer().public,)
    assert bundle.read(file, trusted) == bundle.read(folder, trusted)
    assert bundle.read(file.rename(file.with_name("tonight.tar.zst")), trusted).name == folder.name


def test_the_same_bundle_gives_the_same_file(folder: Path, tmp_path: Path) -> None:
    first = bundle_archive.pack(folder).read_bytes()
    for file in folder.iterdir():
        file.touch()
        file.chmod(0o600)
    assert bundle_archive.pack(folder).read_bytes() == first
    assert not [path for path in folder.parent.iterdir() if path.name.startswith(".")]


def test_other_tools_can_unpack_it(folder: Path) -> None:
    with pa.CompressedInputStream(pa.OSFile(str(bundle_archive.pack(folder))), "zstd") as stream:
        unpacked = io.BytesIO(stream.read())
    with tarfile.open(fileobj=unpacked) as tar:
        names = tar.getnames()
    assert names == [f"{folder.name}/{name}" for name in sorted(bundle.FILES)]


def test_a_changed_byte_of_the_file_is_rejected(folder: Path) -> None:
    file = bundle_archive.pack(folder)
    whole, trusted, accepted = file.read_bytes(), (signer().public,), 0
    good = bundle.read(file, trusted)
    for place in range(0, len(whole), max(len(whole) // 60, 1)):
        content = bytearray(whole)
        content[place] ^= 0xFF
        file.write_bytes(content)
        # A byte of the compression may not affect the content; the bundle is then the same.
        with contextlib.suppress(BundleError):
            assert bundle.read(file, trusted) == good, place
            accepted += 1
    assert accepted < 5


@pytest.mark.parametrize(
    "odd",
    [
        member("../outside"),
        member("/etc/outside"),
        member("b/../outside"),
        member("b/../../outside"),
        member("outside"),
        member("./outside"),
        member("b/c/outside"),
        member("b/.."),
        member("b\\..\\outside"),
        member("b/link", tarfile.SYMTYPE, "/etc/passwd"),
        member("b/link", tarfile.LNKTYPE, "/etc/passwd"),
        member("b/pipe", tarfile.FIFOTYPE),
        member("b/device", tarfile.CHRTYPE),
        member("b/folder", tarfile.DIRTYPE),
    ],
    ids=lambda info: f"{info.name}-{info.type!r}",
)
def test_members_outside_the_folder_or_not_plain_files_are_rejected(odd: tarfile.TarInfo, tmp_path: Path) -> None:
    file = packed(tmp_path / "bad.tar.zst", odd)
    with pytest.raises(BundleError, match=r"bad\.tar\.zst: member .* leaves the bundle's folder or is no plain file"):
        unpack(file)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tar.zst"]


def test_duplicate_members_and_members_of_two_folders_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"found 'a' twice"):
        unpack(packed(tmp_path / "one.tar.zst", *signed_head(), member("b/a"), member("b/a")))
    with pytest.raises(BundleError, match=r"found files of 'b' and 'c', wanted one folder"):
        unpack(packed(tmp_path / "two.tar.zst", *signed_head(), member("c/d")))
    with pytest.raises(BundleError, match=r"found 0 files"):
        unpack(packed(tmp_path / "none.tar.zst"))


def test_a_decompression_bomb_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_archive, "MAX_BYTES", 1 << 22)
    content = b"\0" * (1 << 21)
    file = packed(tmp_path / "bomb.tar.zst", *signed_head(), member("b/a"), content=content)
    assert file.stat().st_size < 10_000
    with pytest.raises(BundleError, match="more than 4,194,304 bytes when unpacked"):
        unpack(file)


@pytest.mark.parametrize("first", ["b/model.onnx", "b/manifest.json"])
def test_an_untrusted_archive_is_rejected_before_anything_else_is_unpacked(tmp_path: Path, first: str) -> None:
    """A pax header counts as well: tarfile reads it whole before it returns the first member."""
    large = b"\0" * (1 << 28)
    for file in (
        packed(tmp_path / "large.tar.zst", member(first), content=large),
        packed(tmp_path / "pax.tar.zst", member(first, tarfile.XHDTYPE), content=large),
    ):
        tracemalloc.start()
        with pytest.raises(BundleError, match=r"large\.tar\.zst|pax\.tar\.zst"):
            bundle.read(file, (signer().public,))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 * bundle_archive.MAX_HEAD
    read: list[str] = []
    file = packed(tmp_path / "unsigned.tar.zst", *signed_head(), member("b/model.onnx"), content=b"{}")
    with pytest.raises(BundleError, match=r"manifest\.json has digest"):
        bundle.read(file, (signer().public,))
    with pytest.raises(BundleError, match="stop"):
        bundle_archive.unpack(file, HEAD, lambda name, content: _stop(read, content))
    assert read == list(HEAD)


def _stop(read: list[str], content: Mapping[str, bytes]) -> None:
    read.extend(content)
    raise BundleError("stop")


@pytest.mark.parametrize("content", [b"", b"not zstd", pa.Codec("zstd").compress(b"not a tar" * 99, asbytes=True)])
def test_a_file_that_is_not_a_packed_bundle_is_rejected(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "odd.tar.zst"
    file.write_bytes(content)
    with pytest.raises(BundleError, match=r"odd\.tar\.zst"):
        unpack(file)
