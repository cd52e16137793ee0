"""Listeners of a publication, which follow it up, explain it or look back. None of them can block
it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.core.panel import Panel
from forecaster.demand.history.point_in_time import former_ids
from forecaster.ledger.store import Ledger
from forecaster.planning import refresh, saved_inputs
from forecaster.plugins import plugin
from forecaster.publishing.outcome import Troubles
from forecaster.publishing.track_accuracy import track_accuracy
from forecaster.publishing.track_drift import track_drift
from forecaster.publishing.track_value import track_value
from forecaster.staffing.shift_values import ShiftShares

if TYPE_CHECKING:
    from forecaster.demand.validation.external_forecasts import ExternalForecasts
    from forecaster.demand.worked_hours import WorkedHours


@dataclass(frozen=True)
class PublicationEvent:
    """A publication that is out, as passed to listeners."""

    spec: Spec
    panel: Panel
    run_id: str
    shares: ShiftShares | None  # of shifts, if they are learned


@dataclass(frozen=True)
class Listener:
    """A function called after a publication; `lacking` states what is missing if it fails.

    An error degrades the run, unless `degrades` is false.
    """

    lacking: str
    after: Callable[[PublicationEvent, Troubles], None]
    degrades: bool = True


def show_new_overrides(event: PublicationEvent, _: Troubles) -> None:
    """Apply overrides saved while the publication was being made."""
    with Ledger.open(event.spec.ledger_url) as ledger:
        refresh.refresh(ledger, event.spec.name, event.spec.paths)


def prune_inputs(event: PublicationEvent, _: Troubles) -> None:
    """Remove saved inputs that no publication names."""
    with Ledger.open(event.spec.ledger_url) as ledger:
        saved_inputs.prune(event.spec.paths.saved_inputs, ledger.desks())


def compare_accuracy(event: PublicationEvent, troubles: Troubles) -> None:
    """Compare earlier forecasts, and those of the legacy system, with actuals."""
    rival = None
    with troubles.collect(Exception, "the legacy system is not compared"):
        rival = _legacy_forecasts(event)
    track_accuracy(event.spec, event.panel, rival)


def account_value(event: PublicationEvent, _: Troubles) -> None:
    """Compute the cost of rosters on days with actuals."""
    track_value(event.spec, event.panel, event.shares, _worked_hours(event))


def report_drift(event: PublicationEvent, remarks: Troubles) -> None:
    """Report drift."""
    if summary := track_drift(event.spec, event.panel, event.run_id):
        remarks.add(summary)


def deliver_schedule(event: PublicationEvent, remarks: Troubles) -> None:
    """Post the publication's changes of published schedules, and those not accepted before."""
    if event.spec.notify.schedule is not None and (fault := plugin("notice.webhook").deliver(event.spec)):
        remarks.add(fault)


LISTENERS = (
    Listener("overrides saved meanwhile are not shown", show_new_overrides),
    Listener("inputs of earlier nights were not removed", prune_inputs),
    Listener("the accuracy of earlier forecasts is not computed", compare_accuracy),
    Listener("the cost of rosters is not computed", account_value, degrades=False),
    Listener("drift is not computed", report_drift, degrades=False),
    Listener("changes of published schedules were not posted", deliver_schedule, degrades=False),
)


def notify(event: PublicationEvent, troubles: Troubles, remarks: Troubles) -> None:
    """Call every listener; errors become `troubles`, or `remarks` if they do not degrade the run."""
    for listener in LISTENERS:
        sink = troubles if listener.degrades else remarks
        with sink.collect(Exception, listener.lacking):
            listener.after(event, sink)


def _worked_hours(event: PublicationEvent) -> WorkedHours | None:
    if event.spec.staffing is None or event.spec.staffing.worked_hours is None:
        return None
    from forecaster.demand import worked_hours  # imports all readers of sources

    spec, findings = event.spec, list[Finding]()
    hours = worked_hours.worked_hours(spec, event.panel.depot_ids, former_ids(spec), findings)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.note(event.run_id, findings=findings)
    return hours


def _legacy_forecasts(event: PublicationEvent) -> ExternalForecasts | None:
    if event.spec.legacy is None:
        return None
    from forecaster.demand.validation import external_forecasts  # imports all readers of sources

    spec, findings = event.spec, list[Finding]()
    rival = external_forecasts.external_forecasts(spec, event.panel, former_ids(spec), findings)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.note(event.run_id, findings=findings)
    return rival
