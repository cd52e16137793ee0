"""Cache of ONNX graphs without their weights: a later night with a network of the same sizes fills
one in, and exports nothing.

What a template gives is held against JAX and NumPy like any export, so that a wrong one cannot
reign.
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

CHECKSUM = hashlib.sha256().digest_size  # bytes before the template


def graph(candidate: Candidate, spec: Spec) -> bytes:
    """The graph of `to_onnx.to_graph`, from the template in `state/graphs` where there is one for
    these sizes.

    Raises ExportError when it cannot be made.
    """
    return onnx_weights.fill(template(candidate, spec), to_onnx.weights(candidate))


def template(candidate: Candidate, spec: Spec) -> bytes:
    """The template of `to_onnx.to_template`, made where none is kept yet, or a damaged one. It
    holds no weights, and is kept where bundles are encrypted too. Raises ExportError when it cannot
    be made."""
    file = spec.paths.graphs / f"{_digest(candidate)}.template"
    if (content := _read(file)) is None:
        content = to_onnx.to_template(candidate)
        _save(content, file)
    return content


def _read(file: Path) -> bytes | None:
    """The template in a file; None where there is none, or another than was written."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    with suppress(OSError):  # of a folder that can be read alone
        os.utime(file)  # in use: its retention begins anew
    checksum, template_bytes = content[:CHECKSUM], content[CHECKSUM:]
    return template_bytes if hashlib.sha256(template_bytes).digest() == checksum else None


def _digest(candidate: Candidate) -> str:
    """Of all that a template follows from."""
    sizes = {
        name: (np.shape(leaf), str(np.asarray(leaf).dtype))
        for name, leaf in onnx_weights.named(candidate.parameters).items()
    }
    ingredients = [_code(), to_onnx.OPSET, dict(candidate.architecture), sizes]
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True, default=list).encode()).hexdigest()


@cache
def _code() -> str:
    """Of the network and its export as they are written, and of the exporter's versions."""
    folders = (folder for package in (network, export) for folder in package.__path__)
    files = sorted(file for folder in folders for file in Path(folder).glob("*.py"))
    versions = [version(name) for name in ("jax", "jax2onnx", "onnx", "onnxruntime")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files) + json.dumps(versions).encode()).hexdigest()


def _save(content: bytes, file: Path) -> None:
    with suppress(OSError):  # a full disk: the bundle itself will say so
        artifact.write(file, hashlib.sha256(content).digest() + content)
