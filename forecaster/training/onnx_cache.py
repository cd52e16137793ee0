"""Cache of ONNX graphs without their weights: a later night with a network of the same sizes fills
one in instead of exporting.

A filled template is checked against JAX and NumPy like any export, so that a wrong one cannot
become champion.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from forecaster.config import Spec
from forecaster.core import artifact
from forecaster.core.forecast import Candidate
from forecaster.model import export, network
from forecaster.model.export import onnx_weights, to_onnx

CHECKSUM = hashlib.sha256().digest_size  # bytes in front of the template


def graph(candidate: Candidate, spec: Spec) -> bytes:
    """Return the graph of `to_onnx.to_graph`, from the template in `state/graphs` if there is one
    for these sizes.

    Raises ExportError if it cannot be made.
    """
    return onnx_weights.fill(template(candidate, spec), to_onnx.weights(candidate))


def template(candidate: Candidate, spec: Spec) -> bytes:
    """Return the template of `to_onnx.to_template`; make it if there is none yet, or a damaged one.
    It contains no weights, and is kept even if bundles are encrypted. Raises ExportError if it
    cannot be made."""
    file = spec.paths.graphs / f"{_digest(candidate)}.template"
    if (content := _read(file)) is None:
        content = to_onnx.to_template(candidate)
        _save(content, file)
    return content


def _read(file: Path) -> bytes | None:
    """Return the template in a file; None if there is none, or its content has changed."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    with suppress(OSError):  # a folder may be read-only
        os.utime(file)  # in use: its retention restarts
    checksum, template_bytes = content[:CHECKSUM], content[CHECKSUM:]
    return template_bytes if hashlib.sha256(template_bytes).digest() == checksum else None


def _digest(candidate: Candidate) -> str:
    """Return a digest of everything that a template depends on."""
    sizes = {
        name: (np.shape(leaf), str(np.asarray(leaf).dtype))
        for name, leaf in onnx_weights.named(candidate.parameters).items()
    }
    ingredients = [_code(), to_onnx.OPSET, dict(candidate.architecture), sizes]
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True, default=list).encode()).hexdigest()


@cache
def _code() -> str:
    """Return a digest of the source of the network and its export, and of the exporter's versions."""
    folders = (folder for package in (network, export) for folder in package.__path__)
    files = sorted(file for folder in folders for file in Path(folder).glob("*.py"))
    versions = [version(name) for name in ("jax", "jax2onnx", "onnx", "onnxruntime")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files) + json.dumps(versions).encode()).hexdigest()


def _save(content: bytes, file: Path) -> None:
    with suppress(OSError):  # on a full disk, writing the bundle itself will report it
        artifact.write(file, hashlib.sha256(content).digest() + content)
