"""Model bundle (signed artifact): everything that inference needs, in one folder with verified
files.

    model.onnx      maps raw counts and covariates, by name, to quantiles of counts
    weights.npz     the same parameters as NumPy arrays, for `numpy_model`
    manifest.json   description of the model, its inputs, and the sha256 of the other two
    manifest.sig    the seal of the training machine, over manifest.json (`keys`)

The digest of a bundle is the sha256 of its manifest, and its folder is named after it. A bundle is
written next to its target and then renamed, so that a partly written one is never visible. Reading
verifies in this order: the folder has exactly these files; the seal matches the manifest, whose
bytes have not been parsed yet; the manifest matches the other files; the graph has no external
references (`onnx_checks`). Each file is read once, and the verified bytes are the ones used. Model
and weights may be encrypted (`encryption`), which changes neither digest nor seal.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.core.panel import Encoding
from forecaster.errors import BundleError
from forecaster.serving import bundle_archive, encryption, keys, onnx_checks
from forecaster.serving.encryption import Cipher
from forecaster.serving.keys import Signer, Trusted

MODEL, WEIGHTS, MANIFEST, SEAL = "model.onnx", "weights.npz", "manifest.json", "manifest.sig"
FILES = frozenset({MODEL, WEIGHTS, MANIFEST, SEAL})
ENCRYPTABLE = (MODEL, WEIGHTS)  # files that may be encrypted
FORMAT = 4
MAX_BYTES = 1 << 30  # bytes of a file
REMEDY = "`forecaster rollback` lets the model before it forecast, `forecaster restore` brings a backup back"


@dataclass(frozen=True)
class Bundle:
    """A verified bundle in memory."""

    digest: str
    model: bytes
    manifest: Mapping[str, Any]
    weights: bytes = b""  # an .npz file

    @property
    def name(self) -> str:
        """Name in the ledger, the lake and the folder."""
        return self.digest[:16]

    @property
    def encoding(self) -> Encoding:
        """Categorical encoding of the model. Raises BundleError if the manifest has it in a form
        unknown to this version."""
        try:
            return Encoding.from_json(self.manifest["encoding"])
        except (ValueError, TypeError, KeyError) as error:
            raise BundleError(f"bundle {self.digest[:16]}: the encoding cannot be read: {error}") from error

    @property
    def levels(self) -> tuple[float, ...]:
        """Quantile levels of the forecast, rising."""
        return tuple(self.manifest["levels"])

    @property
    def lookback(self) -> int:
        """Days of history that the model reads."""
        return int(self.manifest["lookback"])


def write(
    parent: Path,
    model: bytes,
    weights: Mapping[str, np.ndarray[Any, Any]],
    about: Mapping[str, Any],
    signer: Signer,
    cipher: Cipher | None = None,
) -> Path:
    """Write a bundle into `parent`, in a folder named after its digest; equal content gives equal
    bytes.

    With a `cipher`, model and weights are encrypted, with a new nonce each time. An existing bundle
    gets a new seal if another key signed it, is encrypted or decrypted if its state differs from
    the current setting, and is rewritten file by file if it is damaged: concurrent readers see
    either the old or the new version of each file. Raises BundleError for a graph that would be
    rejected, and for a damaged bundle that cannot be rewritten.
    """
    onnx_checks.inspect(model)
    files = {MODEL: model, WEIGHTS: npz(weights)}
    manifest = {
        "format": FORMAT,
        **about,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    files[MANIFEST] = (json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()
    files[SEAL] = signer.seal(files[MANIFEST])
    target = parent / hashlib.sha256(files[MANIFEST]).hexdigest()[:16]
    if cipher is not None:
        files |= {name: cipher.encrypt(files[name], target.name, name) for name in ENCRYPTABLE}
    parent.mkdir(parents=True, exist_ok=True)
    # Written next to the target and then renamed, so that the bundle appears atomically.
    staging_folder = Path(tempfile.mkdtemp(prefix=".bundle-", dir=parent))
    try:
        for name, content in files.items():
            with (staging_folder / name).open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
        if target.exists():
            try:
                for name in (SEAL, *_files_to_rewrite(target, cipher)):
                    (staging_folder / name).replace(target / name)
                read(target, (signer.public,), cipher)
            except (BundleError, OSError):
                _write_anew(target, staging_folder)
        else:
            staging_folder.chmod(0o755)
            staging_folder.rename(target)
    finally:
        shutil.rmtree(staging_folder, ignore_errors=True)
    return target


def load(path: Path, state: Path) -> Bundle:
    """Return a verified bundle: `read` with the keys of this machine, from the environment or a
    state folder."""
    return read(path, keys.trusted_keys(state), partial(encryption.cipher_to_read, state))


def read(path: Path, trusted: Trusted, cipher: Cipher | Callable[[], Cipher] | None = None) -> Bundle:
    """Return the bundle of a folder or of a packed file, verified with one of the `trusted` keys
    before it is parsed.

    `cipher`, or the function that finds it, is used only if the bundle is encrypted; decrypted
    bytes stay in memory. Raises BundleError with the file, the content found and the content
    wanted.
    """
    verify = partial(_verify_manifest, path, trusted=trusted)
    if path.is_file():
        name, content = bundle_archive.unpack(path, (MANIFEST, SEAL), verify)
    else:
        name, content = path.name, _read_folder(path)
    if wrong := content.keys() ^ FILES:
        first = min(wrong)
        raise BundleError(
            f"bundle {path}: {first} {'does not belong there' if first in content else 'is missing'}; "
            f"wanted {', '.join(sorted(FILES))} and nothing else: {REMEDY}"
        )
    digest = verify(name, content)
    # Parsing starts only here: a trusted key has signed these bytes.
    manifest = _parse_manifest(path, content[MANIFEST])
    content |= _decrypt_files(path, name, content, cipher)
    for file_name in (MODEL, WEIGHTS):
        actual, expected = hashlib.sha256(content[file_name]).hexdigest(), str(manifest["files"].get(file_name))
        if actual != expected:
            raise BundleError(
                f"bundle {path}: {file_name} has sha256 {actual[:16]}…, wanted {expected[:16]}…: {REMEDY}"
            )
    try:
        onnx_checks.inspect(content[MODEL])
    except BundleError as error:
        raise BundleError(f"bundle {path}: {MODEL}: {error}") from error
    return Bundle(digest, content[MODEL], manifest, content[WEIGHTS])


def _verify_manifest(path: Path, name: str, content: Mapping[str, bytes], *, trusted: Trusted) -> str:
    """Return the digest of a manifest after verifying its seal. Raises BundleError."""
    digest = hashlib.sha256(content[MANIFEST]).hexdigest()
    if name != digest[:16]:
        raise BundleError(f"bundle {path}: {MANIFEST} has digest {digest[:16]}, wanted {name}: {REMEDY}")
    try:
        keys.verify(content[MANIFEST], content[SEAL], trusted)
    except BundleError as error:
        raise BundleError(f"bundle {path}: {SEAL}: {error}") from error
    return digest


def _decrypt_files(
    path: Path, name: str, content: Mapping[str, bytes], cipher: Cipher | Callable[[], Cipher] | None
) -> dict[str, bytes]:
    decrypted: dict[str, bytes] = {}
    for file_name in ENCRYPTABLE:
        if not encryption.is_encrypted(content[file_name]):
            continue
        try:
            if cipher is None:
                raise BundleError("encrypted, and there is no key to decrypt it with")
            cipher = cipher if isinstance(cipher, Cipher) else cipher()
            decrypted[file_name] = cipher.decrypt(content[file_name], name, file_name)
        except BundleError as error:
            raise BundleError(f"bundle {path}: {file_name}: {error}") from error
    return decrypted


def _write_anew(folder: Path, staging_folder: Path) -> None:
    """Replace the remains of a bundle with the files next to it, one by one, and remove files that
    do not belong to a bundle."""
    try:
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name not in FILES:
                path.unlink()
        for file in sorted(staging_folder.iterdir()):
            file.replace(folder / file.name)
    except OSError as error:
        raise BundleError(
            f"bundle {folder} is damaged and cannot be written anew: {error.strerror}; "
            f"wanted a folder that can be read and written, or none"
        ) from error


def _files_to_rewrite(folder: Path, cipher: Cipher | None) -> Iterator[str]:
    """Yield the files that are plain but should be encrypted, or encrypted differently than they
    should be."""
    prefix = encryption.MAGIC + cipher.name if cipher is not None else None
    for name in ENCRYPTABLE:
        content = _read_plain_file(folder / name)
        if not content.startswith(prefix) if prefix else encryption.is_encrypted(content):
            yield name


def _read_folder(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name. Only plain files are read, so that nothing leads out of
    it."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
        if len(names) > len(FILES):
            odd = min(set(names) - FILES)
            raise BundleError(f"bundle {folder}: {odd} does not belong there; wanted {', '.join(sorted(FILES))}")
        return {name: _read_plain_file(folder / name) for name in names}
    except OSError as error:
        step = REMEDY if isinstance(error, FileNotFoundError) else "wanted files that this account may read"
        raise BundleError(f"bundle {error.filename or folder} cannot be read: {error.strerror}: {step}") from error


def _read_plain_file(file: Path) -> bytes:
    if file.is_symlink():
        raise BundleError(f"bundle {file.parent}: {file.name} is a link, wanted a file of the bundle's own")
    if file.is_dir():
        raise BundleError(f"bundle {file.parent}: {file.name} is no plain file but a folder")
    # not blocking, because a pipe would never end
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as source:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise BundleError(f"bundle {file.parent}: {file.name} is no plain file of at most {MAX_BYTES:,} bytes")
        return source.read()


def _parse_manifest(path: Path, content: bytes) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(content)
        files, format_ = dict(manifest["files"]), manifest["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise BundleError(f"bundle {path}: {MANIFEST} is not a manifest: {error}") from error
    if format_ != FORMAT:
        raise BundleError(f"bundle {path}: found format {format_!r}, wanted {FORMAT}")
    if wrong := files.keys() - FILES:
        raise BundleError(f"bundle {path}: {MANIFEST} names the file {min(wrong)!r}, which is none of a bundle's")
    return manifest


def npz(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return the arrays as an .npz file with a fixed date, so that equal arrays give equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            array = io.BytesIO()
            np.lib.format.write_array(array, np.asarray(arrays[name], order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), array.getvalue())
    return out.getvalue()
