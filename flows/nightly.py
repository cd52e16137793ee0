"""Nightly flow: a night as Prefect starts it, on schedule if due, or by hand."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import catch_up, lines, prefect_view, tasks
from flows.night import Night


@flow(name="nightly", flow_run_name=prefect_view.flow_run_name, persist_result=False)
@prefect_view.reports_refusals("night")
def nightly(
    file: str, as_of: str | None = None, profile: bool = False, due: bool = False, run_id: str | None = None
) -> State[Any]:
    """Run one night of a pipeline file; `as_of` is an ISO instant, now by default.

    With `due`, as scheduled, the ledger decides: a published night is not run again, and afterwards
    earlier missed nights are made up for, newest first. `run_id` is a run that this process has
    already begun.
    """
    if due and not catch_up.missing_nights(file):
        return prefect_view.nothing_due()
    night = prefect_view.begun_night(run_id) or Night.begin(file, as_of, profile=profile)
    prefect_view.run_line(night, lines.nightly)
    if due and night.outcome != "busy":
        catch_up.catch_up_missed(file, tasks)
    return prefect_view.report_run(night)
