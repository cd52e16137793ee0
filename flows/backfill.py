"""Backfill flow: past dates, oldest first, each with what was known on it; the page stays as it
is."""

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

    A date that has forecasts is left out, unless `again`. With `trains` each date has a model of
    its own.
    """
    return prefect_view.report_runs(catch_up.backfill_dates(file, first, last, tasks, trains=trains, again=again))
