"""Digital signatures of bundles (Ed25519, RFC 8032): the key that signs them, and the public keys
that are trusted.

Who trains signs with the key of FORECASTER_SIGNING_KEY, or with `keys/signing.pem` in the state
folder, which is made on first use and belongs to its owner alone. Who forecasts needs public keys
only: those of FORECASTER_TRUSTED_KEYS, else `keys/*.pub.pem` in the state folder. A variable holds
PEM text or a path; trusted keys may be several paths. A seal is 96 bytes, the signer's public key
and then its signature, so that a foreign signer can be named.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from forecaster.core.state_paths import StatePaths
from forecaster.errors import BundleError

SIGNING, TRUSTED = "FORECASTER_SIGNING_KEY", "FORECASTER_TRUSTED_KEYS"
PRIVATE, PUBLIC = "signing.pem", ".pub.pem"
KEY_BYTES, SEAL_BYTES = 32, 96  # bytes of a public key, and of a seal

Trusted = Sequence[Ed25519PublicKey]


@dataclass(frozen=True)
class Signer:
    """The key of who trains."""

    key: Ed25519PrivateKey

    @property
    def public(self) -> Ed25519PublicKey:
        """The public half, which verifies."""
        return self.key.public_key()

    def seal(self, content: bytes) -> bytes:
        """The 96 bytes of public key and signature that vouch for the content."""
        return self.public.public_bytes_raw() + self.key.sign(content)


def signer(state: Path) -> Signer:
    """The signing key of this machine, made on first use.

    Raises BundleError for one that is no Ed25519 key, or that others may read.
    """
    if declared := os.environ.get(SIGNING):
        return Signer(
            _parse_private(declared.encode(), SIGNING) if _is_pem(declared) else _read_private(Path(declared))
        )
    file = StatePaths(state).keys / PRIVATE
    if not file.exists():
        _create(file)
    return Signer(_read_private(file))


def trusted_keys(state: Path) -> tuple[Ed25519PublicKey, ...]:
    """The public keys whose bundles are believed on this machine.

    Raises BundleError when there is none, or one of them is no Ed25519 public key.
    """
    if declared := os.environ.get(TRUSTED):
        files = [] if _is_pem(declared) else [f for part in declared.split(os.pathsep) for f in _key_files(Path(part))]
        keys = (
            [_parse_public(declared.encode(), TRUSTED)] if _is_pem(declared) else [_read_public(file) for file in files]
        )
    else:
        keys = [_read_public(file) for file in _key_files(StatePaths(state).keys)]
        if SIGNING in os.environ:
            keys.append(signer(state).public)
    if not keys:
        raise BundleError(
            f"no key to verify bundles with: found none in {StatePaths(state).keys}, "
            f"wanted the *{PUBLIC} of the machine that trains there, or its path in {TRUSTED}"
        )
    return tuple(keys)


def verify(content: bytes, seal: bytes, keys: Trusted) -> None:
    """Raises BundleError, without the name of any file, unless one of `keys` made the seal for just
    this content."""
    if len(seal) != SEAL_BYTES:
        raise BundleError(f"found {len(seal)} bytes, wanted a seal of {SEAL_BYTES}")
    keys_by_bytes = {public.public_bytes_raw(): public for public in keys}
    key = keys_by_bytes.get(seal[:KEY_BYTES])
    if key is None:
        believed = ", ".join(map(fingerprint, keys_by_bytes)) or "none"
        raise BundleError(
            f"signed by the key {fingerprint(seal[:KEY_BYTES])}, which is not trusted; trusted are {believed}"
        )
    try:
        key.verify(seal[KEY_BYTES:], content)
    except InvalidSignature:
        raise BundleError(
            f"the signature of the key {fingerprint(seal[:KEY_BYTES])} does not fit what was signed"
        ) from None


def fingerprint(public: bytes) -> str:
    """Name of a public key in messages: the first 16 hexadecimal digits of its sha256."""
    return hashlib.sha256(public).hexdigest()[:16]


def _create(file: Path) -> None:
    """A new key and its public half; where two processes make one at once, the first one's
    stays."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = Ed25519PrivateKey.generate()
    write_owner_only(
        file,
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    public = _read_private(file).public_key()
    half = file.with_name(file.stem + PUBLIC)
    write_owner_only(
        half,
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    )
    half.chmod(0o644)


def write_owner_only(file: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all; one that is there stays."""
    handle, name = tempfile.mkstemp(prefix=".key-", dir=file.parent)  # with mode 0600
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.link(beside, file)
    except FileExistsError:
        pass
    finally:
        beside.unlink()


def _read_private(file: Path) -> Ed25519PrivateKey:
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        content = file.read_bytes()
    except OSError as error:
        raise BundleError(f"signing key {file} cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise BundleError(f"signing key {file} has mode {mode:04o}, wanted 0600: others may read it; make a new one")
    return _parse_private(content, str(file))


def _parse_private(pem: bytes, where: str) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise BundleError(f"{where}: found no private key, wanted an Ed25519 key as PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BundleError(f"{where}: found a {type(key).__name__}, wanted an Ed25519 key")
    return key


def _read_public(file: Path) -> Ed25519PublicKey:
    try:
        return _parse_public(file.read_bytes(), str(file))
    except OSError as error:
        raise BundleError(f"trusted key {file} cannot be read: {error.strerror}") from error


def _parse_public(pem: bytes, where: str) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(pem)
    except ValueError as error:
        raise BundleError(f"{where}: found no public key, wanted an Ed25519 public key as PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BundleError(f"{where}: found a {type(key).__name__}, wanted an Ed25519 public key")
    return key


def _key_files(path: Path) -> Iterator[Path]:
    return iter(sorted(path.glob(f"*{PUBLIC}"))) if path.is_dir() else iter([path] if path.suffix else [])


def _is_pem(text: str) -> bool:
    return text.lstrip().startswith("-----BEGIN")
