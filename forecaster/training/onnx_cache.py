"""A model's ONNX graph, made once: the next night with the same model, or the same night taken up again, reads it.

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
    """The graph of `export.to_graph`, from `state/graphs` where it has been made before.

    Where bundles are encrypted no graph is kept beside them. Raises ExportError when it cannot be made.
    """
    if spec.encrypt_bundles:
        return to_onnx.to_graph(candidate)
    file = spec.paths.graphs / f"{_digest(candidate)}.onnx"
    try:
        content = file.read_bytes()
    except OSError:
        content = to_onnx.to_graph(candidate)
        _keep(content, file)
    else:
        with suppress(OSError):
            os.utime(file)  # in use: its retention begins anew
    return content


def _digest(candidate: Candidate) -> str:
    """Of all that a graph follows from."""
    made_of = json.dumps([__version__, to_onnx.OPSET, dict(candidate.architecture)], sort_keys=True, default=list)
    return hashlib.sha256(made_of.encode() + bundles.npz(to_onnx.weights(candidate))).hexdigest()


def _keep(content: bytes, file: Path) -> None:
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(file)
    except OSError:  # a full disk: the bundle itself will say so
        with suppress(OSError):
            beside.unlink()
