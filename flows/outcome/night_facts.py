"""Facts of a run for its record in the registry, with the champion that its model was compared
with."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from forecaster.core.knowledge import Knowledge
from forecaster.errors import LedgerError
from forecaster.ledger.store import Ledger
from forecaster.operations.plan import differences
from forecaster.reports.run_notes import MeasuredDrift, ReigningBefore
from forecaster.serving.bundle import MANIFEST

if TYPE_CHECKING:
    from flows.night import Night
    from forecaster.training.record import NightFacts

MOST_RUNS = 400  # searched for drift
# measures of drift, at least one of which must be present
OF_DRIFT = ("depots_drifted", "days_lacking", "covariates_drifted")


def night_facts(night: Night) -> NightFacts:
    """Return the facts of a run whose forecast is published."""
    from forecaster.training.record import NightFacts

    before = None
    # a missing description must not prevent the record
    with suppress(OSError, ValueError, KeyError, LedgerError):
        before = _reigning_before(night)
    return NightFacts(
        run_id=night.run_id,
        file=night.file,
        as_of=night.as_of,
        began=night.begun,
        knowledge=cast(Knowledge, night.knowledge),  # set by the step `panel`
        tier=night.publication.get("tier"),
        measures=night.measures,
        system=night.machine.so_far(),
        before=before,
        drift=measured_drift(night),
    )


def measured_drift(night: Night) -> MeasuredDrift | None:
    """Return the drift measured by the newest run before this run's day; None if no recent run has
    measured any. A repeated night quotes the same. Raises LedgerError."""
    spec = night.spec
    today = night.as_of.astimezone(spec.zone).date()
    with Ledger.open_reader(spec.ledger_url) as ledger:
        for run in ledger.runs(spec.name, limit=MOST_RUNS, ended=True, nights=True):
            day, measures = run.as_of.astimezone(spec.zone).date(), run.measures or {}
            if day < today and any(name in measures for name in OF_DRIFT):
                return MeasuredDrift(day, measures)
    return None


def _reigning_before(night: Night) -> ReigningBefore | None:
    """Return the champion before tonight, as far as it is kept. Raises OSError, ValueError,
    KeyError or LedgerError if it cannot be read."""
    spec = night.spec
    with Ledger.open_reader(spec.ledger_url) as ledger:
        earlier = [promotion for promotion in ledger.promotions(spec.name) if promotion.run_id != night.run_id]
    if not earlier:
        return None
    bundle = earlier[-1].bundle_digest
    manifest = json.loads((spec.paths.bundle(bundle) / MANIFEST).read_text("utf-8"))
    saved, changes = spec.paths.specs / f"{manifest['spec_digest']}.json", None
    with suppress(OSError):
        then, now = json.loads(saved.read_text("utf-8")), json.loads(json.dumps(spec.model_dump(mode="json")))
        changes = list(differences(then, now))
    return ReigningBefore(bundle, manifest, changes)
