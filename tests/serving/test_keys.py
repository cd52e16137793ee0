"""Only its owner may read the signing key, and forecasting needs only its public half."""

from __future__ import annotations

import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from forecaster.errors import BundleError
from forecaster.serving import bundle, keys
from tests.graphs import signer, small

PEM = serialization.Encoding.PEM
OPEN = serialization.NoEncryption()
NAME = keys.fingerprint(signer(1).public.public_bytes_raw())
ABOUT = {"levels": [0.1, 0.5, 0.9]}


def private_pem(number: int = 0) -> bytes:
    return signer(number).key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, OPEN)


def public_pem(number: int = 0) -> bytes:
    return signer(number).public.public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def raw(trusted: keys.Trusted) -> list[bytes]:
    return [key.public_bytes_raw() for key in trusted]


def owned(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    file.chmod(0o600)
    return file


def test_the_first_use_creates_a_key_that_only_its_owner_may_read(tmp_path: Path) -> None:
    created = keys.signer(tmp_path)
    file = tmp_path / "keys" / "signing.pem"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert keys.signer(tmp_path).public == created.public
    assert raw(keys.trusted_keys(tmp_path)) == [created.public.public_bytes_raw()]
    assert sorted(path.name for path in file.parent.iterdir()) == ["signing.pem", "signing.pub.pem"]


def test_a_seal_is_valid_for_its_content_only(tmp_path: Path) -> None:
    created = keys.signer(tmp_path)
    seal = created.seal(b"content")
    keys.verify(b"content", seal, keys.trusted_keys(tmp_path))
    assert seal == created.seal(b"content")
    with pytest.raises(BundleError, match="does not fit what was signed"):
        keys.verify(b"Content", seal, keys.trusted_keys(tmp_path))
    with pytest.raises(BundleError, match="found 95 bytes, wanted a seal of 96"):
        keys.verify(b"content", seal[:-1], keys.trusted_keys(tmp_path))


def test_a_machine_with_only_the_public_key_verifies_and_cannot_sign(tmp_path: Path) -> None:
    seal = keys.signer(tmp_path / "trains").seal(b"content")
    (tmp_path / "forecasts" / "keys").mkdir(parents=True)
    (tmp_path / "trains" / "keys" / "signing.pub.pem").rename(tmp_path / "forecasts" / "keys" / "trainer.pub.pem")
    keys.verify(b"content", seal, keys.trusted_keys(tmp_path / "forecasts"))
    assert keys.signer(tmp_path / "forecasts").seal(b"content") != seal


def test_keys_come_from_the_environment_as_text_or_as_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(keys.SIGNING, private_pem().decode())
    assert keys.signer(tmp_path).public == signer().public
    assert raw(keys.trusted_keys(tmp_path)) == raw([signer().public])  # a signing machine trusts itself
    monkeypatch.setenv(keys.SIGNING, str(owned(tmp_path / "key.pem", private_pem(1))))
    assert keys.signer(tmp_path).public == signer(1).public
    monkeypatch.setenv(keys.TRUSTED, public_pem(2).decode())
    assert raw(keys.trusted_keys(tmp_path)) == raw([signer(2).public])  # if trusted keys are declared, only those count
    (tmp_path / "several").mkdir()
    (tmp_path / "several" / "a.pub.pem").write_bytes(public_pem(3))
    (tmp_path / "other.pem").write_bytes(public_pem(4))
    monkeypatch.setenv(keys.TRUSTED, f"{tmp_path / 'several'}:{tmp_path / 'other.pem'}")
    assert raw(keys.trusted_keys(tmp_path)) == raw([signer(3).public, signer(4).public])
    assert not (tmp_path / "keys").exists()


def test_a_key_that_others_may_read_signs_nothing(tmp_path: Path) -> None:
    keys.signer(tmp_path)
    (tmp_path / "keys" / "signing.pem").chmod(0o640)
    with pytest.raises(BundleError, match=r"signing\.pem has mode 0640, wanted 0600"):
        keys.signer(tmp_path)


def test_a_machine_without_trusted_keys_gets_an_error_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"found none in .*keys, wanted the \*\.pub\.pem .*FORECASTER_TRUSTED_KEYS"):
        keys.trusted_keys(tmp_path)


def test_a_key_of_another_kind_is_rejected_with_its_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curve = generate_private_key(SECP256R1())
    other = curve.private_bytes(PEM, serialization.PrivateFormat.PKCS8, OPEN)
    for content, message in (
        (b"", "found no private key"),
        (other, "found a .*, wanted an Ed25519"),
        (public_pem(), "no pr"),
    ):
        monkeypatch.setenv(keys.SIGNING, str(owned(tmp_path / "key.pem", content)))
        with pytest.raises(BundleError, match=rf"key\.pem: .*{message}"):
            keys.signer(tmp_path)
    monkeypatch.setenv(keys.SIGNING, str(tmp_path / "nowhere.pem"))
    with pytest.raises(BundleError, match=r"nowhere\.pem cannot be read: No such file"):
        keys.signer(tmp_path)
    monkeypatch.delenv(keys.SIGNING)
    public = curve.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for content, message in (
        (b"", "found no public key"),
        (public, "found a .*, wanted an Ed25519"),
        (private_pem(), "no p"),
    ):
        (tmp_path / "x.pem").write_bytes(content)
        monkeypatch.setenv(keys.TRUSTED, str(tmp_path / "x.pem"))
        with pytest.raises(BundleError, match=rf"x\.pem: .*{message}"):
            keys.trusted_keys(tmp_path)


def test_two_processes_that_create_a_key_at_once_keep_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = keys.signer(tmp_path)
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda self: self.name != "signing.pem" and exists(self))  # not visible yet
    assert keys.signer(tmp_path).public == first.public
    assert raw(keys.trusted_keys(tmp_path)) == [first.public.public_bytes_raw()]


def declare(tmp_path: Path, *blocks: tuple[str, int]) -> None:
    """Trust only these keys, each after its lines."""
    (tmp_path / "keys").mkdir(exist_ok=True)
    text = "".join(f"{lines}\n{public_pem(number).decode()}" for lines, number in blocks)
    (tmp_path / "keys" / "declared.pub.pem").write_text(text, "utf-8")


def test_after_a_rotation_the_new_key_signs_and_the_former_one_verifies(tmp_path: Path) -> None:
    former = keys.signer(tmp_path).seal(b"content")
    folder = tmp_path / "keys"
    (folder / "signing.pub.pem").rename(folder / "former.pub.pem")
    (folder / "signing.pem").unlink()
    new = keys.signer(tmp_path).seal(b"content")
    assert former[: keys.KEY_BYTES] != new[: keys.KEY_BYTES]
    for seal in (former, new):
        keys.verify(b"content", seal, keys.trusted_keys(tmp_path))


def test_a_variable_holds_several_keys_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(keys.TRUSTED, f"# of the old machine\n{public_pem(1).decode()}\n{public_pem(2).decode()}")
    assert raw(keys.trusted_keys(tmp_path)) == raw([signer(1).public, signer(2).public])


def test_a_key_is_valid_until_the_end_of_its_last_day(tmp_path: Path) -> None:
    declare(tmp_path, ("# for a year\nExpires: 2027-06-30", 1))
    seal, trusted = signer(1).seal(b"content"), keys.trusted_keys(tmp_path)
    keys.verify(b"content", seal, trusted, datetime(2027, 6, 30, 23, 59, tzinfo=UTC))
    with pytest.raises(BundleError, match=r"is expired: `Expires: 2027-06-30` in .*declared\.pub\.pem, line 2; wanted"):
        keys.verify(b"content", seal, trusted, datetime(2027, 7, 1, tzinfo=UTC))


def test_a_revoked_key_verifies_nothing_even_if_declared_again(tmp_path: Path) -> None:
    declare(tmp_path, ("", 1), ("Revoked: 2026-11-29 stolen laptop", 1), ("Expires: 2999-01-01", 1), ("", 2))
    trusted = keys.trusted_keys(tmp_path)
    assert raw(trusted) == raw([signer(1).public, signer(2).public])
    for at in (None, datetime(2020, 1, 1, tzinfo=UTC)):
        with pytest.raises(BundleError, match=r"revoked in .*\.pub\.pem, line \d+: 2026-11-29 stolen laptop; wanted"):
            keys.verify(b"content", signer(1).seal(b"content"), trusted, at)
    keys.verify(b"content", signer(2).seal(b"content"), trusted)


def test_the_key_that_expires_last_decides_on_a_machine_that_does_not_sign(tmp_path: Path) -> None:
    assert keys.deciding_key(tmp_path) is None
    declare(tmp_path, ("Revoked: 2026-11-29", 1), ("Expires: 2027-01-31", 2), ("# new\nExpires: 2027-06-30", 3))
    last = keys.deciding_key(tmp_path)
    assert last is not None
    assert (last.public, last.end) == (signer(3).public, datetime(2027, 7, 1, tzinfo=UTC))
    lines = (tmp_path / "keys" / "declared.pub.pem").read_text("utf-8").splitlines()
    file, _, line = last.place.rpartition(", line ")
    assert (Path(file).name, lines[int(line) - 1]) == ("declared.pub.pem", "Expires: 2027-06-30")
    declare(tmp_path, ("Expires: 2027-01-31", 2), ("", 3))
    last = keys.deciding_key(tmp_path)
    assert last is not None
    assert (last.public, last.end) == (signer(3).public, None)


def test_the_signing_key_decides_although_another_key_expires_later(tmp_path: Path) -> None:
    own = keys.signer(tmp_path)
    declare(tmp_path, ("", 2))
    half = tmp_path / "keys" / "signing.pub.pem"
    half.write_text(f"Expires: 2027-01-31\n{half.read_text('utf-8')}", "utf-8")
    deciding = keys.deciding_key(tmp_path)
    assert deciding is not None
    assert (deciding.public, deciding.end) == (own.public, datetime(2027, 2, 1, tzinfo=UTC))


def test_a_bundle_of_an_ended_key_is_rejected(tmp_path: Path) -> None:
    folder = bundle.write(tmp_path / "bundles", small(), {"bias": np.ones(3, np.float32)}, ABOUT, signer(1))
    declare(tmp_path, ("Expires: 2999-12-31", 1))
    assert bundle.load(folder, tmp_path).name == folder.name
    for lines, message in (
        ("Expires: 2026-01-31", "expired: `Expires: 2026-01-31`"),
        ("Revoked: 2026-02-01", "revoked"),
    ):
        declare(tmp_path, (lines, 1))
        with pytest.raises(BundleError, match=rf"bundle .*manifest\.sig: signed by the key {NAME}, which is {message}"):
            bundle.load(folder, tmp_path)


def test_an_ended_key_signs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(keys.SIGNING, private_pem(1).decode())
    assert keys.sealing(tmp_path) is not None
    declare(tmp_path, ("Revoked: 2026-11-29 stolen laptop", 1))
    with pytest.raises(BundleError, match=rf"signing key {NAME} is revoked in .*: 2026-11-29 stolen laptop"):
        keys.signer(tmp_path)
    assert keys.sealing(tmp_path) is None


def test_without_a_key_nothing_is_sealed_and_none_is_created(tmp_path: Path) -> None:
    assert keys.sealing(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["Expired: 2026-01-31", "Expires: 31.01.2026", "Expires: 2026-02-30", "a note"])
def test_an_invalid_line_is_rejected_with_its_number(tmp_path: Path, line: str) -> None:
    declare(tmp_path, ("", 1), (f"# a comment\n{line}", 2))
    with pytest.raises(BundleError, match=rf"declared\.pub\.pem, line 6: found '{re.escape(line)}', wanted `Expires: "):
        keys.trusted_keys(tmp_path)
