"""A bundle comes back as it was written, or is refused by the name of what is wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.errors import BundleError
from forecaster.serving import bundle
from forecaster.serving.bundle import MANIFEST, MODEL, WEIGHTS
from forecaster.values import Encoding

WORDS = Encoding(("promo",), {"size": ("large", "small"), "city": ("Bonn", "Ulm")})


def weights(**more: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "members.out.bias": np.array([[1.5, -2.5]], np.float32),
        "constants.mean": np.array(3.25, np.float32),
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        **more,
    }


def about(**more: Any) -> dict[str, Any]:
    return {"encoding": WORDS.to_json(), "levels": [0.1, 0.5, 0.9], "lookback": 406, "horizon": 7, **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return bundle.write(tmp_path / "bundles", b"onnx", weights(), about())


def test_a_bundle_comes_back_as_it_was_written(folder: Path) -> None:
    found = bundle.read(folder)
    assert found.model == b"onnx"
    assert found.digest == hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    assert folder.name == found.digest[:16]
    assert found.levels == (0.1, 0.5, 0.9)
    assert found.lookback == 406
    assert found.manifest["format"] == 1
    assert {path.name for path in folder.iterdir()} == {MODEL, WEIGHTS, MANIFEST}
    with np.load(folder / WEIGHTS, allow_pickle=False) as arrays:
        assert set(arrays) == set(weights())
        for name, wanted in weights().items():
            np.testing.assert_array_equal(arrays[name], wanted, strict=True)


def test_the_order_of_the_static_attributes_survives(folder: Path) -> None:
    """It is the order of the columns that the graph reads."""
    found = bundle.read(folder).encoding
    assert found == WORDS
    assert list(found.statics) == ["size", "city"]


@pytest.mark.parametrize("encoding", [None, {}, {"covariates": [], "statics": {"city": ["Bonn"]}}])
def test_an_encoding_of_another_version_is_refused(tmp_path: Path, encoding: Any) -> None:
    found = bundle.read(bundle.write(tmp_path, b"onnx", weights(), about(encoding=encoding)))
    with pytest.raises(BundleError, match=f"bundle {found.digest[:16]}: the encoding cannot be read"):
        _ = found.encoding


def test_the_same_content_gives_the_same_bytes(tmp_path: Path, folder: Path) -> None:
    shuffled = dict(reversed(weights().items()))
    shuffled["turned"] = np.ascontiguousarray(shuffled["turned"])
    again = bundle.write(tmp_path / "elsewhere", b"onnx", shuffled, dict(reversed(about().items())))
    assert again.name == folder.name
    for name in (MODEL, WEIGHTS, MANIFEST):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_other_content_gives_another_digest(folder: Path) -> None:
    others = [
        bundle.write(folder.parent, b"other", weights(), about()),
        bundle.write(folder.parent, b"onnx", weights(more=np.zeros(1, np.float32)), about()),
        bundle.write(folder.parent, b"onnx", weights(), about(cutoff="2024-01-01")),
    ]
    assert len({folder.name, *(other.name for other in others)}) == 4


def test_writing_twice_is_writing_once(folder: Path) -> None:
    before = (folder / MANIFEST).stat().st_mtime_ns
    assert bundle.write(folder.parent, b"onnx", weights(), about()) == folder
    assert (folder / MANIFEST).stat().st_mtime_ns == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize(("name", "named"), [(MODEL, MODEL), (WEIGHTS, WEIGHTS), (MANIFEST, MANIFEST)])
@pytest.mark.parametrize("place", [0, -1])
def test_a_flipped_byte_is_refused_by_the_name_of_its_file(folder: Path, name: str, named: str, place: int) -> None:
    content = bytearray((folder / name).read_bytes())
    content[place] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(BundleError, match=rf"{folder.name}: {named} has .*, wanted"):
        bundle.read(folder)
    if name != MANIFEST:  # nor is a damaged bundle taken for one that was already written
        with pytest.raises(BundleError, match=named):
            bundle.write(folder.parent, b"onnx", weights(), about())


@pytest.mark.parametrize("name", [MODEL, WEIGHTS, MANIFEST])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(BundleError, match=f"{name} cannot be read: No such file"):
        bundle.read(folder)


def test_a_folder_of_another_name_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("0" * 16, folder.name[:8], folder.name + "0"):
        renamed = folder.rename(folder.with_name(name))
        with pytest.raises(BundleError, match=f"manifest.json has digest {folder.name}, wanted {name}"):
            bundle.read(renamed)
        renamed.rename(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(BundleError, match=r"manifest\.json has digest"):
        bundle.read(Path())  # a folder without a name vouches for nothing
    with pytest.raises(BundleError, match=r"manifest\.json cannot be read"):
        bundle.read(folder.parent / "nowhere")


def signed(parent: Path, manifest: Any) -> Path:
    """A folder whose name fits whatever its manifest says."""
    content = json.dumps(manifest).encode()
    folder = parent / hashlib.sha256(content).hexdigest()[:16]
    folder.mkdir(parents=True)
    for name in (MODEL, WEIGHTS):
        (folder / name).write_bytes(b"")
    (folder / MANIFEST).write_bytes(content)
    return folder


@pytest.mark.parametrize("manifest", [[], 3, {}, {"format": 1}, {"format": 1, "files": 3}, {"files": {}}])
def test_what_is_no_manifest_is_refused(tmp_path: Path, manifest: Any) -> None:
    with pytest.raises(BundleError, match=r"manifest\.json is not a manifest"):
        bundle.read(signed(tmp_path, manifest))


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="format 2 found, wanted 1"):
        bundle.read(signed(tmp_path, {"format": 2, "files": {}}))


def test_a_file_that_the_manifest_does_not_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"model\.onnx has sha256 e3b0.*, wanted None"):
        bundle.read(signed(tmp_path, {"format": 1, "files": {}}))


def test_a_half_written_bundle_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up at each file in turn: nothing that `read` could find is left, nor anything else."""
    for count in range(3):
        calls: list[int] = []

        def full(handle: int, calls: list[int] = calls, count: int = count) -> None:
            calls.append(handle)
            if len(calls) > count:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            bundle.write(tmp_path, b"onnx", weights(), about())
        assert len(calls) == count + 1
        assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_beside_is_not_in_the_way(tmp_path: Path) -> None:
    left = tmp_path / ".bundle-abc"
    left.mkdir()
    (left / MODEL).write_bytes(b"half")
    folder = bundle.write(tmp_path, b"onnx", weights(), about())
    assert bundle.read(folder).model == b"onnx"
    with pytest.raises(BundleError, match=r"manifest\.json cannot be read"):
        bundle.read(left)


def test_a_number_that_json_cannot_say_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        bundle.write(tmp_path, b"onnx", weights(), about(score=float("nan")))
    assert list(tmp_path.iterdir()) == []


def test_objects_do_not_enter_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        bundle.write(tmp_path, b"onnx", weights(odd=np.array([{}], object)), about())
