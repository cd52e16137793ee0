"""Encryption at rest of a bundle's model: AES-256-GCM over `model.onnx` and `weights.npz`.

A bundle is signed first and then encrypted: signature and digest cover the plain model, so that a
bundle keeps its name and its seal whether or not it is encrypted, and with any key. `manifest.json`
stays plain; it identifies the bundle, and no forecast can be made from it. Decrypted content is
never written.

The key is that of FORECASTER_ENCRYPTION_KEY, 32 bytes as base64 or the path of a file with them,
else `keys/encryption.key` in the state folder, which is created on first use and readable only by
its owner.

An encrypted file is MAGIC, 8 bytes that name the key, a nonce of 12 bytes, and the AES-GCM
ciphertext of the content. Bundle and file name are authenticated with it: a file from another
bundle or with another name is rejected like a changed one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from forecaster.core.state_paths import StatePaths
from forecaster.errors import BundleError
from forecaster.serving import keys

VARIABLE, FILE = "FORECASTER_ENCRYPTION_KEY", "encryption.key"
MAGIC = b"forecaster-aes1\0"
KEY_BYTES, KEY_NAME_BYTES, NONCE_BYTES = 32, 8, 12
EXPECTED_KEY = f"wanted {KEY_BYTES} bytes as base64"


@dataclass(frozen=True)
class Cipher:
    """Key that reads and writes encrypted bundles."""

    key: bytes = field(repr=False)

    @property
    def name(self) -> bytes:
        """Name of the key: distinguishes keys without revealing anything about them."""
        return hashlib.sha256(b"forecaster encryption key\0" + self.key).digest()[:KEY_NAME_BYTES]

    def encrypt(self, content: bytes, bundle: str, file: str) -> bytes:
        """Return the file as it is stored, with a new nonce each time; bundle and file name are
        authenticated."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return MAGIC + self.name + nonce + AESGCM(self.key).encrypt(nonce, content, _associated_data(bundle, file))

    def decrypt(self, content: bytes, bundle: str, file: str) -> bytes:
        """Return the plain content. Raises BundleError, without any file name, for another key's
        file and for a changed byte."""
        name, nonce, rest = (content[len(MAGIC) :][part] for part in _PARTS)
        if name != self.name:
            raise BundleError(f"encrypted with the key {name.hex()}, found the key {self.name.hex()}")
        try:
            return AESGCM(self.key).decrypt(nonce, rest, _associated_data(bundle, file))
        except (InvalidTag, ValueError):
            raise BundleError("the encrypted content was changed, or belongs to another bundle") from None


_PARTS = (
    slice(KEY_NAME_BYTES),
    slice(KEY_NAME_BYTES, KEY_NAME_BYTES + NONCE_BYTES),
    slice(KEY_NAME_BYTES + NONCE_BYTES, None),
)


def is_encrypted(content: bytes) -> bool:
    """True if a file's content is encrypted."""
    return content.startswith(MAGIC)


def cipher_to_write(state: Path) -> Cipher:
    """Return the key that encrypts bundles, and create it if there is none. Raises BundleError as
    `cipher_to_read` does."""
    if not os.environ.get(VARIABLE):
        file = StatePaths(state).keys / FILE
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not file.exists():
            keys.write_owner_only(file, base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
    return cipher_to_read(state)


def cipher_to_read(state: Path) -> Cipher:
    """Return the key of this machine. Raises BundleError if there is none, others may read it, or
    it is not a key."""
    declared = os.environ.get(VARIABLE)
    if declared and (key := _parse_key(declared.encode())) is not None:
        return Cipher(key)
    file = Path(declared) if declared else StatePaths(state).keys / FILE
    try:
        mode, content = stat.S_IMODE(file.stat().st_mode), file.read_bytes()
    except (OSError, ValueError) as error:
        if declared:  # may be part of a key, so it is not repeated
            raise BundleError(
                f"{VARIABLE}: found neither a key nor the path of one, {EXPECTED_KEY}, or a path"
            ) from error
        raise BundleError(f"no key to decrypt with: found none in {file}, wanted it there or in {VARIABLE}") from error
    if mode & 0o077:
        raise BundleError(f"encryption key {file} has mode {mode:04o}, wanted 0600: others may read it")
    if (key := _parse_key(content)) is None:
        raise BundleError(f"encryption key {file}: found something else, {EXPECTED_KEY}")
    return Cipher(key)


def _parse_key(text: bytes) -> bytes | None:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None


def _associated_data(bundle: str, file: str) -> bytes:
    return f"{bundle}/{file}".encode()
