"""Digital signatures of bundles (Ed25519, RFC 8032): the signing key, and the trusted public keys.

A training machine signs with the key of FORECASTER_SIGNING_KEY, or with `keys/signing.pem` in the
state folder, which is created on first use and readable only by its owner. A forecasting machine
needs only public keys: those of FORECASTER_TRUSTED_KEYS, else `keys/*.pub.pem` in the state folder.
A variable holds PEM text or a path; trusted keys may be several of either. Lines before a public
key may end its validity: `Expires: 2027-06-30`, its last day, and `Revoked: 2026-11-29 why`; `#`
begins a comment. A seal is 96 bytes, the signer's public key followed by its signature, so that an
untrusted signer can be named.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from forecaster.core.state_paths import StatePaths
from forecaster.errors import BundleError

SIGNING, TRUSTED = "FORECASTER_SIGNING_KEY", "FORECASTER_TRUSTED_KEYS"
PRIVATE, PUBLIC = "signing.pem", ".pub.pem"
KEY_BYTES, SEAL_BYTES = 32, 96  # bytes of a public key, and of a seal

_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)
_END = re.compile(r"(Expires|Revoked):\s*(\d{4}-\d\d-\d\d)\b\s*(.*)")  # end of a key, on a line before it


@dataclass(frozen=True)
class TrustedKey:
    """A public key with its last valid day and its revocation."""

    public: Ed25519PublicKey
    where: str  # file or variable
    expires: date | None = None
    revoked: str | None = None  # date and reason
    line: int | None = None  # of its expiry or revocation

    @property
    def place(self) -> str:
        """File or variable, with the line that ends the key."""
        return f"{self.where}, line {self.line}" if self.line else self.where

    @property
    def end(self) -> datetime | None:
        """Instant from which the key verifies nothing new; None if it does not expire."""
        return None if self.expires is None else datetime.combine(self.expires, time(), UTC) + timedelta(days=1)

    def public_bytes_raw(self) -> bytes:
        """Return the 32 bytes of the key."""
        return self.public.public_bytes_raw()

    def refusal(self, at: datetime) -> str | None:
        """Return the reason why the key does not verify a signature made at an instant; None if it
        does. A revoked key verifies nothing."""
        if self.revoked is not None:
            return f"revoked in {self.place}: {self.revoked}; wanted what another key has signed"
        if self.end is not None and at >= self.end:
            step = "wanted what a newer key has signed, or a later date there"
            return f"expired: `Expires: {self.expires}` in {self.place}; {step}"
        return None


Trusted = Sequence[Ed25519PublicKey | TrustedKey]


@dataclass(frozen=True)
class Signer:
    """The key of a training machine."""

    key: Ed25519PrivateKey

    @property
    def public(self) -> Ed25519PublicKey:
        """Public key, for verification."""
        return self.key.public_key()

    def seal(self, content: bytes) -> bytes:
        """Return the 96 bytes of public key and signature of the content."""
        return self.public.public_bytes_raw() + self.key.sign(content)


def signer(state: Path) -> Signer:
    """Return the signing key of this machine, created on first use.

    Raises BundleError if it is not an Ed25519 key, is readable by others, or is revoked or expired
    according to a public key of this machine.
    """
    own_signer = _own_signer(state)
    for key in _declared_keys(state):
        if key.public == own_signer.public and (refusal := key.refusal(datetime.now(UTC))):
            raise BundleError(f"signing key {fingerprint(key.public_bytes_raw())} is {refusal}")
    return own_signer


def sealing(state: Path) -> Callable[[bytes], bytes] | None:
    """Return the function that seals contents on this machine; None if there is no key yet, or none
    that may sign."""
    if not _has_signing_key(state):
        return None
    try:
        return signer(state).seal
    except BundleError:
        return None


def seal_check(state: Path) -> Callable[[bytes, bytes, datetime], str | None]:
    """Return a check of a content, its seal and an instant that returns the reason why the seal is
    invalid; None if it is valid. Raises BundleError as `trusted_keys` does."""
    trusted = trusted_keys(state)

    def check(content: bytes, seal: bytes, at: datetime) -> str | None:
        try:
            verify(content, seal, trusted, at)
        except BundleError as error:
            return str(error)
        return None

    return check


def _has_signing_key(state: Path) -> bool:
    return bool(os.environ.get(SIGNING)) or (StatePaths(state).keys / PRIVATE).exists()


def _own_signer(state: Path) -> Signer:
    if declared := os.environ.get(SIGNING):
        return Signer(
            _parse_private(declared.encode(), SIGNING) if _is_pem(declared) else _read_private(Path(declared))
        )
    file = StatePaths(state).keys / PRIVATE
    if not file.exists():
        _create(file)
    return Signer(_read_private(file))


def trusted_keys(state: Path) -> tuple[TrustedKey, ...]:
    """Return the public keys trusted on this machine, with their ends. If a key is declared twice,
    the earlier end counts.

    Raises BundleError if there is none, one is not an Ed25519 public key, or its end cannot be
    read.
    """
    if keys := _known_keys(state):
        return keys
    raise BundleError(
        f"no key to verify bundles with: found none in {StatePaths(state).keys}, "
        f"wanted the *{PUBLIC} of the machine that trains there, or its path in {TRUSTED}"
    )


def deciding_key(state: Path) -> TrustedKey | None:
    """Return the public key whose end, which may have passed, leaves this machine without new models:
    that of its signing key, or, if it does not sign, the key with the latest end.

    None if there is none. Raises BundleError as `trusted_keys` does for unreadable keys.
    """
    public_keys = _known_keys(state)
    own_key = _own_signer(state).public.public_bytes_raw() if _has_signing_key(state) else None
    signing = [key for key in public_keys if key.public_bytes_raw() == own_key]
    return max(signing or public_keys, key=_validity, default=None)


def _known_keys(state: Path) -> tuple[TrustedKey, ...]:
    keys = _declared_keys(state)
    if SIGNING in os.environ and not os.environ.get(TRUSTED):
        keys.append(TrustedKey(_own_signer(state).public, SIGNING))
    by_bytes: dict[bytes, TrustedKey] = {}
    for key in keys:
        raw = key.public_bytes_raw()
        by_bytes[raw] = min(by_bytes.get(raw, key), key, key=_validity)
    return tuple(by_bytes.values())


def _validity(key: TrustedKey) -> tuple[bool, date]:
    """Sort key of keys by their end, revoked ones first."""
    return key.revoked is None, key.expires or date.max


def _declared_keys(state: Path) -> list[TrustedKey]:
    if declared := os.environ.get(TRUSTED):
        if _is_pem(declared):
            return _parse_public(declared, TRUSTED)
        files = [file for part in declared.split(os.pathsep) for file in _key_files(Path(part))]
    else:
        files = [*_key_files(StatePaths(state).keys)]
    return [key for file in files for key in _read_public(file)]


def verify(content: bytes, seal: bytes, keys: Trusted, at: datetime | None = None) -> None:
    """Verify that one of `keys` sealed exactly this content and was valid at an instant (now by
    default). Raises BundleError, without the name of the signed file."""
    if len(seal) != SEAL_BYTES:
        raise BundleError(f"found {len(seal)} bytes, wanted a seal of {SEAL_BYTES}")
    keys_by_bytes = {public.public_bytes_raw(): public for public in keys}
    key, name = keys_by_bytes.get(seal[:KEY_BYTES]), fingerprint(seal[:KEY_BYTES])
    if key is None:
        believed = ", ".join(map(fingerprint, keys_by_bytes)) or "none"
        raise BundleError(f"signed by the key {name}, which is not trusted; trusted are {believed}")
    if isinstance(key, TrustedKey):
        if refusal := key.refusal(at or datetime.now(UTC)):
            raise BundleError(f"signed by the key {name}, which is {refusal}")
        key = key.public
    try:
        key.verify(seal[KEY_BYTES:], content)
    except InvalidSignature:
        raise BundleError(f"the signature of the key {name} does not fit what was signed") from None


def fingerprint(public: bytes) -> str:
    """Return the name of a public key in messages: the first 16 hexadecimal digits of its sha256."""
    return hashlib.sha256(public).hexdigest()[:16]


def _create(file: Path) -> None:
    """Create a key and its public half; if two processes create one at the same time, the first is
    kept."""
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
    """Write a file that only its owner may read, atomically; an existing file is kept."""
    handle, name = tempfile.mkstemp(prefix=".key-", dir=file.parent)  # with mode 0600
    temporary_file = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.link(temporary_file, file)
    except FileExistsError:
        pass
    finally:
        temporary_file.unlink()


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


def _read_public(file: Path) -> list[TrustedKey]:
    try:
        return _parse_public(file.read_text("utf-8", errors="replace"), str(file))
    except OSError as error:
        raise BundleError(f"trusted key {file} cannot be read: {error.strerror}") from error


def _parse_public(text: str, where: str) -> list[TrustedKey]:
    """Return the keys of a text, each with the ends from the lines before it."""
    keys, begin = [], 0
    for block in _PEM.finditer(text):
        try:
            public = serialization.load_pem_public_key(block[0].encode())
        except ValueError as error:
            raise BundleError(f"{where}: found no public key, wanted an Ed25519 public key as PEM") from error
        if not isinstance(public, Ed25519PublicKey):
            raise BundleError(f"{where}: found a {type(public).__name__}, wanted an Ed25519 public key")
        keys.append(_with_ends(TrustedKey(public, where), text[:begin].count("\n"), text[begin : block.start()]))
        begin = block.end()
    if not keys or text[begin:].strip():
        raise BundleError(f"{where}: found no public key, wanted an Ed25519 public key as PEM")
    return keys


def _with_ends(key: TrustedKey, lines_before: int, text: str) -> TrustedKey:
    for number, line in enumerate(text.split("\n"), lines_before + 1):
        if not (content := line.strip()) or content.startswith("#"):
            continue
        try:
            end = _END.fullmatch(content)
            day = date.fromisoformat(end[2]) if end else None
        except ValueError:
            end = None
        if end is None or day is None:
            raise BundleError(
                f"{key.where}, line {number}: found {content[:80]!r}, wanted `Expires: 2027-06-30` or "
                "`Revoked: 2026-11-29 why` before a key; `#` begins a comment"
            )
        if end[1] == "Revoked":
            key = replace(key, revoked=f"{day} {end[3]}".strip(), line=number)
        else:
            key = replace(key, expires=day, line=key.line if key.revoked else number)
    return key


def _key_files(path: Path) -> Iterator[Path]:
    return iter(sorted(path.glob(f"*{PUBLIC}"))) if path.is_dir() else iter([path] if path.suffix else [])


def _is_pem(text: str) -> bool:
    return "-----BEGIN" in text
