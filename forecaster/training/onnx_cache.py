"""Cache of exported ONNX graphs, content-addressed: a later night with the same model reads the graph from it.

What is read is held against JAX and NumPy like a fresh one, so that a damaged file cannot reign.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from forecaster import __version__
from forecaster.config import Spec
from forecaster.core.forecast import Candidate
from forecaster.model.export import to_onnx
from forecaster.serving import bundle as bundles


def graph(candidate: Candidate, spec: Spec) -> bytes:
    """The graph of `to_onnx.to_graph`, from `state/graphs` where it has been made before.

    Where bundles are encrypted no graph is kept beside them. Raises ExportError when it cannot be made.
    """
    if spec.encrypt_bundles:
        return to_onnx.to_graph(candidate)
    file = spec.paths.graphs / f"{_digest(candidate)}.onnx"
    try:
        content = file.read_bytes()
    except OSError:
        content = to_onnx.to_graph(candidate)
        _save(content, file)
    else:
        with suppress(OSError):
            os.utime(file)  # in use: its retention begins anew
    return content


def _digest(candidate: Candidate) -> str:
    """Of all that a graph follows from."""
    ingredients = json.dumps([__version__, to_onnx.OPSET, dict(candidate.architecture)], sort_keys=True, default=list)
    return hashlib.sha256(ingredients.encode() + bundles.npz(to_onnx.weights(candidate))).hexdigest()


def _save(content: bytes, file: Path) -> None:
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(file)
    except OSError:  # a full disk: the bundle itself will say so
        with suppress(OSError):
            temporary.unlink()
