"""Serialization of a candidate for the process that judges it, as npz with embedded JSON; nothing
is pickled."""

from __future__ import annotations

import io
import json
from typing import Any

import jax
import numpy as np

from forecaster.core.forecast import Candidate
from forecaster.core.panel import Encoding


def to_bytes(candidate: Candidate) -> bytes:
    """Serialize a candidate: parameters by path, everything else as JSON."""
    leaves, _ = jax.tree.flatten_with_path(dict(candidate.parameters))
    about = {
        "paths": [[part.key for part in path] for path, _ in leaves],
        "architecture": dict(candidate.architecture),
        "encoding": candidate.encoding.to_json(),
        "calendar_names": candidate.calendar_names,
        "levels": candidate.levels,
        "horizon": candidate.horizon,
        "summary": dict(candidate.summary),
    }
    file = io.BytesIO()
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(file, about=text, **{str(place): leaf for place, (_, leaf) in enumerate(leaves)})
    return file.getvalue()


def from_bytes(content: bytes) -> Candidate:
    """Deserialize the output of `to_bytes`. Raises ValueError, KeyError or BadZipFile for anything
    else."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
        parameters: dict[str, Any] = {}
        for place, path in enumerate(about["paths"]):
            branch = parameters
            for name in path[:-1]:
                branch = branch.setdefault(name, {})
            branch[path[-1]] = file[str(place)]
    return Candidate(
        parameters=parameters,
        architecture=about["architecture"],
        encoding=Encoding.from_json(about["encoding"]),
        calendar_names=tuple(about["calendar_names"]),
        levels=tuple(about["levels"]),
        horizon=about["horizon"],
        summary=about["summary"],
    )
