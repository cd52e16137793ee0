"""Past nights for a first look: what the champion would have published on mornings that its training has not seen.

A new pipeline has one publication and nothing to look back at. Its model was trained and validated on days before the
backtest's; so it can say what it would have said on the mornings since, and what came of it is known. The widths of its
ranges alone were settled on those days too.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime

from forecaster.config import Spec
from forecaster.ledger.store import Ledger
from forecaster.publishing.forecast import ModelChoice, choose, choose_as_of
from forecaster.publishing.publish import PublishedForecast, publish
from forecaster.serving import bundle as bundles

NOTE = "Made afterwards, with what was known that morning, by a model that was not trained on the days since."


def publish_past(spec: Spec, *, as_of: datetime, run_id: str) -> PublishedForecast:
    """Publish as of a past morning: by today's champion if it has not seen that day, else by the champion of then.

    Raises as `publish` does.
    """
    with Ledger.open(spec.ledger_url) as ledger:
        choice = choose(spec, ledger)
    if not _is_unseen(choice, spec, as_of):
        return publish(spec, choose_as_of(spec, as_of, None), as_of=as_of, run_id=run_id)
    return publish(spec, replace(choice, trial=None), as_of=as_of, run_id=run_id, note=NOTE)


def _is_unseen(choice: ModelChoice, spec: Spec, as_of: datetime) -> bool:
    """Whether the model was trained and validated on days before this morning's alone."""
    if choice.bundle is None:
        return True  # the seasonal naive has seen nothing
    seen = bundles.load(choice.bundle, spec.paths.folder).manifest["training"].get("validated_until")
    return seen is not None and date.fromisoformat(seen) < as_of.astimezone(spec.zone).date()


def publish_again(spec: Spec, *, as_of: datetime, run_id: str, promoted_by: str) -> PublishedForecast:
    """Publish tonight's forecast anew, so that it is compared with the mornings before it, which came after it."""
    with Ledger.open(spec.ledger_url) as ledger:
        choice = choose(spec, ledger, promoted_by=promoted_by)
    return publish(spec, choice, as_of=as_of, run_id=run_id)
