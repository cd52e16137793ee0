"""A bundle as one file: the same bytes each time, and nothing in it that leads elsewhere."""

from __future__ import annotations

import contextlib
import io
import tarfile
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
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    file.write_bytes(pa.Codec("zstd").compress(out.getvalue(), asbytes=True))
    return file


def member(name: str, kind: bytes = tarfile.REGTYPE, leads_to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, leads_to
    return info


def test_the_file_holds_the_bundle_of_the_folder_under_any_name(folder: Path) -> None:
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


def test_a_changed_byte_of_the_file_is_refused(folder: Path) -> None:
    file = bundle_archive.pack(folder)
    whole, trusted, accepted = file.read_bytes(), (signer().public,), 0
    good = bundle.read(file, trusted)
    for place in range(0, len(whole), max(len(whole) // 60, 1)):
        content = bytearray(whole)
        content[place] ^= 0xFF
        file.write_bytes(content)
        # A byte of the packing may say nothing of what is packed; then the bundle is the same.
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
def test_a_member_that_leaves_the_folder_or_is_no_plain_file_is_refused(odd: tarfile.TarInfo, tmp_path: Path) -> None:
    file = packed(tmp_path / "bad.tar.zst", odd)
    with pytest.raises(BundleError, match=r"bad\.tar\.zst: member .* leaves the bundle's folder or is no plain file"):
        bundle_archive.unpack(file)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tar.zst"]


def test_members_twice_and_members_of_two_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"found 'a' twice"):
        bundle_archive.unpack(packed(tmp_path / "one.tar.zst", member("b/a"), member("b/a")))
    with pytest.raises(BundleError, match=r"files of 2 folders"):
        bundle_archive.unpack(packed(tmp_path / "two.tar.zst", member("b/a"), member("c/d")))
    with pytest.raises(BundleError, match=r"files of 0 folders"):
        bundle_archive.unpack(packed(tmp_path / "none.tar.zst"))


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_archive, "MAX_BYTES", 1 << 20)
    file = packed(tmp_path / "bomb.tar.zst", member("b/a"), content=b"\0" * (1 << 22))
    assert file.stat().st_size < 10_000
    with pytest.raises(BundleError, match="more than 1,048,576 bytes when unpacked"):
        bundle_archive.unpack(file)


@pytest.mark.parametrize("content", [b"", b"not zstd", pa.Codec("zstd").compress(b"not a tar" * 99, asbytes=True)])
def test_what_is_no_packed_bundle_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "odd.tar.zst"
    file.write_bytes(content)
    with pytest.raises(BundleError, match=r"odd\.tar\.zst"):
        bundle_archive.unpack(file)
