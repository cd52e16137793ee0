"""The prior on disk: a pretrained model with its provenance, trusted only if its digest matches.

`prior.npz` is a candidate as `serialization` writes it; `prior.json` next to it has its SHA-256 and
its origin: command, seed, version, panels with their licenses, days and depots.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecaster.core import artifact
from forecaster.core.forecast import Candidate, Prior
from forecaster.errors import TrainingError

FOLDER = Path(__file__).parent
MOST_BYTES = 2_000_000  # limit of a prior, which is part of the package
_REMEDY = "reinstall the package, or set training.start: fresh"


def save(model: Candidate, provenance: Mapping[str, Any], folder: Path) -> str:
    """Write a prior and its provenance into `folder`; return its digest. Raises ValueError if it is
    too large."""
    from forecaster.model.export import serialization

    content = serialization.to_bytes(model)
    if len(content) > MOST_BYTES:
        raise ValueError(f"the prior takes {len(content):,} bytes, wanted at most {MOST_BYTES:,}: train fewer members")
    digest = artifact.digest(content)
    artifact.write(folder / "prior.npz", content)
    text = json.dumps({"sha256": digest, **provenance}, indent=1, ensure_ascii=False)
    artifact.write(folder / "prior.json", f"{text}\n".encode())
    return digest


def load(folder: Path = FOLDER) -> Prior:
    """Load the prior. Raises TrainingError if there is none, or it does not match its provenance."""
    from forecaster.model.export import serialization

    file, expected = folder / "prior.npz", digest(folder)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise TrainingError(f"{file} could not be read ({error}): {_REMEDY}") from error
    actual = artifact.digest(content)
    if actual != expected:
        raise TrainingError(f"{file} is damaged: found sha256 {actual}, wanted {expected}: {_REMEDY}")
    try:
        return Prior(serialization.from_bytes(content), actual)
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise TrainingError(f"{file} holds no model ({error}): {_REMEDY}") from error


def digest(folder: Path = FOLDER) -> str:
    """Return the SHA-256 that the prior must have. Raises TrainingError if it cannot be read."""
    file = folder / "prior.json"
    try:
        return str(json.loads(file.read_text("utf-8"))["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{file} says no sha256 ({error}): {_REMEDY}") from error
