"""Batch inference outside the nightly run: the morning's refresh, a past date, a machine with only
bundle and lake."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from forecaster.config import Spec
from forecaster.core.knowledge import Knowledge
from forecaster.core.language.sentences import joined, of_error
from forecaster.core.processes import resource_usage
from forecaster.errors import DEGRADED, PUBLISHED, Busy, ForecasterError, LedgerError
from forecaster.ledger import run_start
from forecaster.ledger.publication import WITHOUT_OWN_MODEL
from forecaster.ledger.store import Ledger
from forecaster.publishing import caveats
from forecaster.publishing.forecast import ModelChoice, choose, choose_as_of
from forecaster.publishing.outcome import PublishedForecast
from forecaster.publishing.publish import publish


def predict(
    spec: Spec,
    *,
    as_of: datetime | None,
    bundle: Path | None,
    run_id: str | None,
    note: str | None,
    knowledge: Knowledge | None = None,
    replace_newer: bool = False,
) -> PublishedForecast:
    """Forecast and publish with a given bundle, else with the champion: implements `forecaster
    predict`.

    With a `run_id` this is a stage of that run, using its `knowledge` if given; without one it is a
    run of its own with an outcome, and a forecast as of an earlier instant than the shown one is
    kept behind it, unless `replace_newer`. Raises SpecError, publishing nothing, if the given
    bundle is unusable, Busy while another run is at work, NoUsableData if nothing is known by
    `as_of`, LakeError if the lake is unreadable, LedgerError if the ledger is not writable.
    """
    instant, ledger_remark = as_of or datetime.now(UTC), run_start.lost_ledger(spec)
    with Ledger.open(spec.ledger_url) as ledger:
        choice = None
        if bundle is not None:
            name = f"{spec.name} {bundle.name.partition('.')[0]}"
            choice = ModelChoice(bundle, name, "champion", is_required=True)
        if run_id is not None:
            choice = choice or choose(spec, ledger, promoted_by=run_id)
            published = publish(spec, choice, as_of=instant, run_id=run_id, note=note, knowledge=knowledge)
            with suppress(LedgerError):  # the forecast is out
                ledger.note(run_id, measures=resource_usage.usage("predict"))
            return published
        new_run_id = f"{instant.astimezone(spec.zone):%Y-%m-%d}-predict-{uuid.uuid4().hex[:8]}"
        if rival := run_start.begin(ledger, spec, run_id=new_run_id, kind="predict", as_of=instant).rival:
            raise Busy(rival.sentence(spec.zone))
        try:
            with run_start.lease_renewed(ledger, new_run_id):
                head = ledger.current(spec.name)
                newer = head if as_of and head and head.as_of > as_of and not replace_newer else None
                published = publish(
                    spec,
                    choice or choose(spec, ledger),
                    as_of=instant,
                    run_id=new_run_id,
                    note=note,
                    onto_page=newer is None,
                )
        except ForecasterError as error:
            outcome = "no_data" if error.exit_code == 4 else "failed"
            ledger.finish_run(new_run_id, outcome, error.exit_code, of_error(error))  # type: ignore[arg-type]
            raise
        except BaseException as error:
            ledger.finish_run(new_run_id, "failed", 1, of_error(error))
            raise
        remarks = (ledger_remark, published.remark, newer and caveats.newer(newer, spec.zone))
        published = replace(published, remark=joined(text for text in remarks if text))
        degraded = published.tier in WITHOUT_OWN_MODEL or published.trouble is not None
        ledger.note(new_run_id, bundle_digest=published.bundle_digest, measures=resource_usage.usage("predict"))
        ledger.finish_run(
            new_run_id,
            "degraded" if degraded else "published",
            DEGRADED if degraded else PUBLISHED,
            joined(text for text in (published.note, published.trouble, published.remark) if text),
            published.tier,
        )
        return published


def archive(spec: Spec, *, as_of: datetime, run_id: str, bundle: Path | None = None) -> PublishedForecast:
    """Forecast as of an instant into the lake's archive, by the bundle or else by the champion at
    that date: a later champion has seen its actuals. Raises as `publish`."""
    choice = choose_as_of(spec, as_of, bundle)
    return publish(spec, choice, as_of=as_of, run_id=run_id, show=False)
