"""Without the key, no model can be read, and a changed file is never accepted as a model."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import BundleError
from forecaster.serving import bundle, bundle_archive, encryption, keys
from forecaster.serving.encryption import VARIABLE, Cipher
from tests.graphs import signer, small

ABOUT = {"encoding": {"covariates": [], "statics": []}, "levels": [0.5], "lookback": 3}
ONE, OTHER = Cipher(bytes(32)), Cipher(bytes([1]) * 32)


@pytest.fixture(autouse=True)
def without_a_declared_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def written(parent: Path, cipher: Cipher | None) -> Path:
    return bundle.write(parent, small(), {"bias": np.ones(3, np.float32)}, ABOUT, signer(), cipher)


def test_an_encrypted_bundle_is_the_same_bundle_with_the_key(tmp_path: Path) -> None:
    locked, plain = written(tmp_path / "locked", ONE), written(tmp_path / "plain", None)
    assert locked.name == plain.name
    for file in (bundle.MANIFEST, bundle.SEAL):
        assert (locked / file).read_bytes() == (plain / file).read_bytes()
    assert bundle.read(locked, (signer().public,), ONE) == bundle.read(plain, (signer().public,))
    assert bundle.read(bundle_archive.pack(locked), (signer().public,), ONE).model == small()


def test_neither_model_nor_weights_are_stored_in_plain_form(tmp_path: Path) -> None:
    folder = written(tmp_path, ONE)
    bundle_archive.pack(folder)
    bundle.read(folder, (signer().public,), ONE)
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        content = file.read_bytes()
        assert small() not in content
        assert np.ones(3, np.float32).tobytes() not in content
    assert sorted(path.name for path in tmp_path.iterdir()) == [folder.name, f"{folder.name}.tar.zst"]


def test_errors_name_the_fault_of_the_key_or_the_file(tmp_path: Path) -> None:
    folder = written(tmp_path, ONE)
    trusted = (signer().public,)
    with pytest.raises(BundleError, match=r"model\.onnx: encrypted, and there is no key to decrypt it with"):
        bundle.read(folder, trusted)
    with pytest.raises(
        BundleError, match=rf"encrypted with the key {ONE.name.hex()}, found the key {OTHER.name.hex()}"
    ):
        bundle.read(folder, trusted, OTHER)
    weights = folder / bundle.WEIGHTS
    content = bytearray(weights.read_bytes())
    for place in (len(encryption.MAGIC) + encryption.KEY_NAME_BYTES, len(content) - 1):  # of the nonce, and of the tag
        changed = bytearray(content)
        changed[place] ^= 1
        weights.write_bytes(changed)
        with pytest.raises(BundleError, match=r"weights\.npz: the encrypted content was changed"):
            bundle.read(folder, trusted, ONE)
    weights.write_bytes((folder / bundle.MODEL).read_bytes())
    with pytest.raises(BundleError, match="was changed, or belongs to another bundle"):
        bundle.read(folder, trusted, ONE)
    weights.write_bytes(content[:20])
    with pytest.raises(BundleError, match=r"weights\.npz: "):
        bundle.read(folder, trusted, ONE)


def test_rewriting_encrypts_plain_files_and_uses_the_current_key(tmp_path: Path) -> None:
    trusted = (signer().public,)
    for cipher in (None, ONE, ONE, OTHER, None):
        folder = written(tmp_path, cipher)
        assert encryption.is_encrypted((folder / bundle.MODEL).read_bytes()) == (cipher is not None)
        assert bundle.read(folder, trusted, cipher).model == small()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_key_is_created_on_first_use_for_its_owner_only(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"no key to decrypt with: found none in .*encryption\.key, wanted it there"):
        encryption.cipher_to_read(tmp_path)
    cipher = encryption.cipher_to_write(tmp_path)
    file = tmp_path / "keys" / encryption.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert encryption.cipher_to_write(tmp_path) == encryption.cipher_to_read(tmp_path) == cipher
    assert cipher.key.hex() not in repr(cipher)
    file.chmod(0o640)
    with pytest.raises(BundleError, match="has mode 0640, wanted 0600: others may read it"):
        encryption.cipher_to_read(tmp_path)


def test_the_environment_may_hold_the_key_or_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = base64.b64encode(ONE.key).decode()
    monkeypatch.setenv(VARIABLE, text)
    assert encryption.cipher_to_write(tmp_path) == ONE
    file = tmp_path / "key"
    monkeypatch.setenv(VARIABLE, str(file))
    with pytest.raises(BundleError, match="found neither a key nor the path of one"):
        encryption.cipher_to_write(tmp_path)
    file.write_text(text + "\n", "utf-8")
    file.chmod(0o600)
    assert encryption.cipher_to_read(tmp_path) == ONE
    file.write_text("of no length", "utf-8")
    with pytest.raises(BundleError, match=r"encryption key .*key: found something else, wanted 32 bytes as base64"):
        encryption.cipher_to_read(tmp_path)
    assert not (tmp_path / "keys").exists()


def test_a_machine_reads_with_the_keys_of_its_state_folder(tmp_path: Path) -> None:
    signing_key = keys.signer(tmp_path)
    cipher = encryption.cipher_to_write(tmp_path)
    folder = bundle.write(tmp_path / "bundles", small(), {"bias": np.ones(3, np.float32)}, ABOUT, signing_key, cipher)
    assert bundle.load(folder, tmp_path).model == small()
    assert json.loads((folder / bundle.MANIFEST).read_bytes())["levels"] == [0.5]
    (tmp_path / "keys" / encryption.FILE).unlink()
    with pytest.raises(BundleError, match=r"bundle .*: model\.onnx: no key to decrypt with"):
        bundle.load(folder, tmp_path)
