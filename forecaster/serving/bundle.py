"""A bundle: what inference needs, in one folder whose every file is vouched for.

    model.onnx      raw counts and covariates by name in, quantiles of counts out
    weights.npz     the same parameters as NumPy arrays
    manifest.json   what the model is, what it wants, and the sha256 of the other two

The digest of a bundle is the sha256 of its manifest. A bundle is written beside its place and then renamed into it, so
that a half-written one is never seen.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.errors import BundleError
from forecaster.values import Encoding

MODEL, WEIGHTS, MANIFEST = "model.onnx", "weights.npz", "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class Bundle:
    """A verified bundle in memory."""

    digest: str
    model: bytes
    manifest: Mapping[str, Any]

    @property
    def encoding(self) -> Encoding:
        """Raises BundleError when the manifest says it in another way than this version does."""
        try:
            return Encoding.from_json(self.manifest["encoding"])
        except (ValueError, TypeError, KeyError) as error:
            raise BundleError(f"bundle {self.digest[:16]}: the encoding cannot be read: {error}") from error

    @property
    def levels(self) -> tuple[float, ...]:
        return tuple(self.manifest["levels"])

    @property
    def lookback(self) -> int:
        return int(self.manifest["lookback"])


def write(parent: Path, model: bytes, weights: Mapping[str, np.ndarray[Any, Any]], about: Mapping[str, Any]) -> Path:
    """Write a bundle into `parent`, in a folder named after its digest; the same content gives the same bytes."""
    files = {MODEL: model, WEIGHTS: _npz(weights)}
    manifest = {
        "format": FORMAT,
        **about,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    files[MANIFEST] = (json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()
    target = parent / hashlib.sha256(files[MANIFEST]).hexdigest()[:16]
    if target.exists():
        read(target)
        return target
    parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".bundle-", dir=parent))
    try:
        for name, content in files.items():
            with (beside / name).open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
        beside.chmod(0o755)
        beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return target


def read(folder: Path) -> Bundle:
    """The bundle of a folder, every file checked against the manifest before it is used.

    Raises BundleError naming the file, what was found and what was wanted.
    """
    content = {}
    for name in (MANIFEST, MODEL, WEIGHTS):
        try:
            content[name] = (folder / name).read_bytes()
        except OSError as error:
            raise BundleError(f"bundle {folder}: {name} cannot be read: {error.strerror}") from error
    digest = hashlib.sha256(content[MANIFEST]).hexdigest()
    if folder.name != digest[:16]:
        raise BundleError(f"bundle {folder}: manifest.json has digest {digest[:16]}, wanted {folder.name}")
    try:
        manifest = json.loads(content[MANIFEST])
        files = dict(manifest["files"])
        format_ = manifest["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise BundleError(f"bundle {folder}: manifest.json is not a manifest: {error}") from error
    if format_ != FORMAT:
        raise BundleError(f"bundle {folder}: format {format_!r} found, wanted {FORMAT}")
    for name in (MODEL, WEIGHTS):
        found = hashlib.sha256(content[name]).hexdigest()
        if found != files.get(name):
            raise BundleError(f"bundle {folder}: {name} has sha256 {found[:16]}…, wanted {str(files.get(name))[:16]}…")
    return Bundle(digest, content[MODEL], manifest)


def _npz(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The arrays as an .npz file with a fixed date, so that equal arrays give equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            array = io.BytesIO()
            np.lib.format.write_array(array, np.asarray(arrays[name], order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), array.getvalue())
    return out.getvalue()
