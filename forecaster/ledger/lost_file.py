"""Detection of a lost ledger: its SQLite file is gone or empty, although lake and bundles exist."""

from __future__ import annotations

from contextlib import suppress

from forecaster.config import Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.errors import LakeError
from forecaster.lake import NOT_THERE, Lake
from forecaster.ledger import connect

LOST = N_(
    "Lake and models of earlier nights are there, but no ledger at {place}: `forecaster restore` brings it back from a "
    "backup; without it a new one begins."
)


def lost_ledger(spec: Spec) -> str | None:
    """Return a sentence about the missing ledger; None if there is one, or none was needed yet."""
    file = connect.sqlite_file(spec.ledger_url)
    if file is None or (file.exists() and file.stat().st_size):
        return None
    if not any(spec.paths.bundles.glob("*/manifest.json")):
        return None
    with suppress(LakeError):
        if Lake(spec.lake_url).version("demand") != NOT_THERE:
            return sentence(LOST, place=str(file))
    return None
