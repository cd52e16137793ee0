"""Past nights for a first look: what the champion would have published on mornings that its
training has not seen.

A new pipeline has one publication and no history of forecasts. Its model was trained and validated
on days before those of the backtest, so it can forecast the mornings since, whose actuals are
known. Only the widths of its ranges were calibrated on those days too. The shown publication stays
the current one. If nothing had arrived by a morning, e.g. before a pipeline's first file, its
history is replayed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta

from forecaster.config import Spec
from forecaster.core.knowledge import Knowledge
from forecaster.core.language import N_
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.errors import NoUsableData
from forecaster.ledger.store import Ledger
from forecaster.publishing.forecast import ModelChoice, choose, choose_as_of
from forecaster.publishing.outcome import PublishedForecast
from forecaster.publishing.publish import publish
from forecaster.serving import bundle as bundles

NOTE = "Made afterwards, with what was known that morning, by a model that was not trained on the days since."
REPLAYED = N_(
    "Made afterwards from history that was loaded later; each count is treated as known on the morning after its day."
)


def publish_past(spec: Spec, *, as_of: datetime, run_id: str) -> PublishedForecast:
    """Publish as of a past morning, behind the shown publication: by the current champion if it has
    not seen that day, else by the champion at that time.

    Raises as `publish`.
    """
    with Ledger.open(spec.ledger_url) as ledger:
        choice, head = choose(spec, ledger), ledger.current(spec.name)
    unseen = _is_unseen(choice, spec, as_of)
    choice, note = (replace(choice, trial=None), NOTE) if unseen else (choose_as_of(spec, as_of, None), None)
    try:
        knowledge = read_as_of(spec, as_of=as_of)
    except NoUsableData:
        if head is None:
            raise
        knowledge, note = _replayed(spec, as_of, tonight=head.as_of), f"{note} {REPLAYED}" if note else REPLAYED
    return publish(spec, choice, as_of=as_of, run_id=run_id, note=note, onto_page=False, knowledge=knowledge)


def _replayed(spec: Spec, as_of: datetime, *, tonight: datetime) -> Knowledge:
    """Knowledge of a past morning, as if each current count had been known on the morning after its
    day."""
    knowledge = read_as_of(spec, as_of=tonight)
    past = Past(knowledge, panels.build(knowledge, spec), spec)
    return past.knowledge(as_of.astimezone(spec.zone).date() - timedelta(days=1), as_of)


def _is_unseen(choice: ModelChoice, spec: Spec, as_of: datetime) -> bool:
    """Return true if the model was trained and validated only on days before this morning."""
    if choice.bundle is None:
        return True  # the seasonal naive has seen nothing
    validated_until = bundles.load(choice.bundle, spec.paths.folder).manifest["training"].get("validated_until")
    return validated_until is not None and date.fromisoformat(validated_until) < as_of.astimezone(spec.zone).date()


def publish_again(spec: Spec, *, as_of: datetime, run_id: str, promoted_by: str) -> PublishedForecast:
    """Publish the current forecast again, so that it is compared with the mornings before it, which
    were published later."""
    with Ledger.open(spec.ledger_url) as ledger:
        choice = choose(spec, ledger, promoted_by=promoted_by)
    return publish(spec, choice, as_of=as_of, run_id=run_id)
