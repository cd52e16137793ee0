"""A bundle from a trusted signer is read as written; any other is rejected with the name of the
fault."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from forecaster.core.panel import Encoding
from forecaster.errors import BundleError
from forecaster.serving import bundle, keys
from forecaster.serving.bundle import MANIFEST, MODEL, SEAL, WEIGHTS, Bundle
from tests.graphs import proto, signer, small

ONNX, OTHER = small(), small("Neg")

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


def read(path: Path, *, key: int = 0) -> Bundle:
    return bundle.read(path, (signer(key).public,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return bundle.write(tmp_path / "bundles", ONNX, weights(), about(), signer())


def test_a_bundle_is_read_as_it_was_written(folder: Path) -> None:
    loaded = read(folder)
    assert loaded.model == ONNX
    assert loaded.digest == hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    assert folder.name == loaded.digest[:16]
    assert loaded.levels == (0.1, 0.5, 0.9)
    assert loaded.lookback == 406
    assert loaded.manifest["format"] == 4
    assert {path.name for path in folder.iterdir()} == {MODEL, WEIGHTS, MANIFEST, SEAL}
    with np.load(folder / WEIGHTS, allow_pickle=False) as arrays:
        assert set(arrays) == set(weights())
        for name, expected in weights().items():
            np.testing.assert_array_equal(arrays[name], expected, strict=True)


def test_the_order_of_the_static_attributes_is_kept(folder: Path) -> None:
    """It is the order of the columns that the graph reads."""
    encoding = read(folder).encoding
    assert encoding == WORDS
    assert list(encoding.statics) == ["size", "city"]


@pytest.mark.parametrize("encoding", [None, {}, {"covariates": [], "statics": {"city": ["Bonn"]}}])
def test_an_encoding_of_another_version_is_rejected(tmp_path: Path, encoding: Any) -> None:
    loaded = read(bundle.write(tmp_path, ONNX, weights(), about(encoding=encoding), signer()))
    with pytest.raises(BundleError, match=f"bundle {loaded.digest[:16]}: the encoding cannot be read"):
        _ = loaded.encoding


def test_the_same_content_gives_the_same_bytes(tmp_path: Path, folder: Path) -> None:
    shuffled = dict(reversed(weights().items()))
    shuffled["turned"] = np.ascontiguousarray(shuffled["turned"])
    again = bundle.write(tmp_path / "elsewhere", ONNX, shuffled, dict(reversed(about().items())), signer())
    assert again.name == folder.name
    for name in (MODEL, WEIGHTS, MANIFEST, SEAL):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_other_content_gives_another_digest(folder: Path) -> None:
    others = [
        bundle.write(folder.parent, OTHER, weights(), about(), signer()),
        bundle.write(folder.parent, ONNX, weights(more=np.zeros(1, np.float32)), about(), signer()),
        bundle.write(folder.parent, ONNX, weights(), about(cutoff="2024-01-01"), signer()),
    ]
    assert len({folder.name, *(other.name for other in others)}) == 4


def test_writing_is_idempotent(folder: Path) -> None:
    before = (folder / MANIFEST).stat().st_mtime_ns
    assert bundle.write(folder.parent, ONNX, weights(), about(), signer()) == folder
    assert (folder / MANIFEST).stat().st_mtime_ns == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("name", [MODEL, WEIGHTS, MANIFEST, SEAL])
def test_a_changed_byte_is_rejected_with_the_name_of_its_file(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    for place in {*range(0, len(whole), max(len(whole) // 40, 1)), len(whole) - 1}:
        content = bytearray(whole)
        content[place] ^= 1
        (folder / name).write_bytes(content)
        with pytest.raises(BundleError, match=rf"{folder.name}: {name}"):
            read(folder)
    assert bundle.write(folder.parent, ONNX, weights(), about(), signer()) == folder  # nor mistaken for an existing one
    assert (folder / name).read_bytes() == whole


def test_a_damaged_bundle_is_rewritten_without_disturbing_readers(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / MODEL).unlink()
    (folder / MANIFEST).unlink()
    (folder / MANIFEST).mkdir()
    (folder / "odd").write_bytes(b"")
    (folder / WEIGHTS).write_bytes(b"damaged")
    with (folder / WEIGHTS).open("rb") as reader:
        assert bundle.write(folder.parent, ONNX, weights(), about(), signer()) == folder
        assert reader.read() == b"damaged"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_an_unreadable_and_unwritable_folder_is_a_bundle_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_again() -> str:
        with pytest.raises(BundleError) as refusal:
            bundle.write(folder.parent, ONNX, weights(), about(), signer())
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]
        return str(refusal.value)

    sentence = (
        f"bundle {folder} is damaged and cannot be written anew: {{}}; "
        f"wanted a folder that can be read and written, or none"
    )
    (folder / MODEL).write_bytes(b"damaged")
    (folder / "odd").write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        assert write_again() == sentence.format("Permission denied")
    shutil.rmtree(folder)
    folder.write_bytes(b"a file in its place")
    assert write_again() == sentence.format("Not a directory")


def refused(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_nothing_is_parsed_before_the_seal_is_verified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Any] = []
    monkeypatch.setattr("json.loads", lambda *arguments: parsed.append(arguments))
    monkeypatch.setattr("forecaster.serving.onnx_checks.inspect", lambda *arguments: parsed.append(arguments))
    monkeypatch.setattr("numpy.load", lambda *arguments, **_: parsed.append(arguments))
    with pytest.raises(BundleError, match="not trusted"):
        read(folder, key=1)
    assert parsed == []


def test_an_untrusted_key_is_named_with_the_trusted_ones(folder: Path) -> None:
    ours, theirs = (keys.fingerprint(signer(n).public.public_bytes_raw()) for n in (1, 0))
    with pytest.raises(BundleError, match=rf"{SEAL}: signed by the key {theirs}, which is not trusted; .* {ours}"):
        read(folder, key=1)
    with pytest.raises(BundleError, match="trusted are none"):
        bundle.read(folder, ())


def test_a_foreign_signature_under_a_trusted_name_is_rejected(folder: Path) -> None:
    manifest = (folder / MANIFEST).read_bytes()
    (folder / SEAL).write_bytes(signer(0).public.public_bytes_raw() + signer(1).key.sign(manifest))
    with pytest.raises(BundleError, match=rf"{SEAL}: the signature of the key [0-9a-f]{{16}} does not fit"):
        read(folder)


def test_a_bundle_is_resealed_after_a_change_of_key(folder: Path) -> None:
    assert bundle.write(folder.parent, ONNX, weights(), about(), signer(1)) == folder
    assert read(folder, key=1).model == ONNX
    with pytest.raises(BundleError, match="not trusted"):
        read(folder)


@pytest.mark.parametrize("name", [MODEL, WEIGHTS, MANIFEST, SEAL])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(
        BundleError, match=f"{name} is missing; wanted manifest.json, manifest.sig, model.onnx, weights"
    ):
        read(folder)


@pytest.mark.parametrize("name", ["model.onnx.data", "a", ".hidden"])
def test_an_additional_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"")
    with pytest.raises(BundleError, match=f"{name} does not belong there"):
        read(folder)
    (folder / MODEL).unlink()  # nor may it replace another one
    with pytest.raises(BundleError, match=r"does not belong there|is missing"):
        read(folder)


def test_a_link_out_of_the_folder_is_rejected(folder: Path) -> None:
    outside = (folder / MODEL).rename(folder.parent / "elsewhere.onnx")
    (folder / MODEL).symlink_to(outside)
    with pytest.raises(BundleError, match=f"{MODEL} is a link, wanted a file of the bundle's own"):
        read(folder)


def test_anything_but_a_plain_file_is_rejected(folder: Path) -> None:
    (folder / MODEL).unlink()
    os.mkfifo(folder / MODEL)
    with pytest.raises(BundleError, match=f"{MODEL} is no plain file"):
        read(folder)
    (folder / MODEL).unlink()
    (folder / MODEL).mkdir()
    with pytest.raises(BundleError, match=f"{MODEL} is no plain file"):
        read(folder)


def test_a_folder_with_another_name_is_rejected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("0" * 16, folder.name[:8], folder.name + "0"):
        renamed = folder.rename(folder.with_name(name))
        with pytest.raises(BundleError, match=f"manifest.json has digest {folder.name}, wanted {name}"):
            read(renamed)
        renamed.rename(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(BundleError, match=r"manifest\.json has digest"):
        read(Path())  # a folder without a name is not valid
    with pytest.raises(BundleError, match=r"cannot be read: No such file"):
        read(folder.parent / "nowhere")


def signed(parent: Path, manifest: Any, **files: bytes) -> Path:
    """Return a correctly signed folder with any manifest."""
    content = json.dumps(manifest).encode()
    folder = parent / hashlib.sha256(content).hexdigest()[:16]
    folder.mkdir(parents=True)
    for name in (MODEL, WEIGHTS):
        (folder / name).write_bytes(files.get(name.partition(".")[0], b""))
    (folder / MANIFEST).write_bytes(content)
    (folder / SEAL).write_bytes(signer().seal(content))
    return folder


@pytest.mark.parametrize(
    "manifest", [[], 3, {}, {"format": bundle.FORMAT}, {"format": bundle.FORMAT, "files": 3}, {"files": {}}]
)
def test_an_invalid_manifest_is_rejected(tmp_path: Path, manifest: Any) -> None:
    with pytest.raises(BundleError, match=r"manifest\.json is not a manifest"):
        read(signed(tmp_path, manifest))


def test_another_format_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=f"found format 1, wanted {bundle.FORMAT}"):
        read(signed(tmp_path, {"format": 1, "files": {}}))


def test_a_file_missing_in_the_manifest_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"model\.onnx has sha256 e3b0.*, wanted None"):
        read(signed(tmp_path, {"format": bundle.FORMAT, "files": {}}))


@pytest.mark.parametrize("name", ["../model.onnx", "/etc/passwd", "model.onnx.data"])
def test_a_manifest_with_a_path_elsewhere_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(BundleError, match=f"manifest.json names the file '{name}'"):
        read(signed(tmp_path, {"format": bundle.FORMAT, "files": {name: "0" * 64}}))


def test_a_signed_graph_with_external_data_is_rejected(tmp_path: Path) -> None:
    """As a compromised trusted machine might sign it."""
    model = proto()
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    outside = model.SerializeToString()
    files = {MODEL: hashlib.sha256(outside).hexdigest(), WEIGHTS: hashlib.sha256(b"").hexdigest()}
    with pytest.raises(BundleError, match=r"model\.onnx: a tensor's data lie in another file"):
        read(signed(tmp_path, {"format": bundle.FORMAT, "files": files}, model=outside))
    with pytest.raises(BundleError, match="a tensor's data lie in another file"):
        bundle.write(tmp_path, outside, weights(), about(), signer())


def test_a_partly_written_bundle_is_never_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up at each file in turn: no readable bundle is left, nor anything else."""
    for count in range(4):
        calls: list[int] = []

        def full(handle: int, calls: list[int] = calls, count: int = count) -> None:
            calls.append(handle)
            if len(calls) > count:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            bundle.write(tmp_path, ONNX, weights(), about(), signer())
        assert len(calls) == count + 1
        assert list(tmp_path.iterdir()) == []


def test_remains_of_a_killed_writer_do_no_harm(tmp_path: Path) -> None:
    left = tmp_path / ".bundle-abc"
    left.mkdir()
    (left / MODEL).write_bytes(b"half")
    folder = bundle.write(tmp_path, ONNX, weights(), about(), signer())
    assert read(folder).model == ONNX
    with pytest.raises(BundleError, match=r"manifest\.json is missing"):
        read(left)


def test_a_number_without_a_json_form_is_rejected_before_writing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        bundle.write(tmp_path, ONNX, weights(), about(score=float("nan")), signer())
    assert list(tmp_path.iterdir()) == []


def test_object_arrays_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        bundle.write(tmp_path, ONNX, weights(odd=np.array([{}], object)), about(), signer())
