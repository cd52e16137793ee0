"""Backfill flow: past dates, oldest first, each with the data known on it; the page stays
unchanged."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import catch_up, prefect_view, tasks


@flow(name="backfill", flow_run_name=prefect_view.backfill_run_name, persist_result=False)
@prefect_view.reports_refusals(None)
def backfill(file: str, first: str, last: str, trains: bool = False, again: bool = False) -> State[Any]:
    """Forecast into the archive as of each scheduled night from one ISO day to another, both
    included.

    Dates with forecasts are skipped, unless `again`. With `trains` each date gets its own model.
    """
    return prefect_view.report_runs(catch_up.backfill_dates(file, first, last, tasks, trains=trains, again=again))
