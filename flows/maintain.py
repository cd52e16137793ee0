"""Maintenance flow: compacts the lake's small files, and removes data past its retention."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import lines, prefect_view
from flows.night import Night


@flow(name="maintain", flow_run_name=prefect_view.flow_run_name, persist_result=False)
@prefect_view.reports_refusals("maintain")
def maintain(file: str, run_id: str | None = None) -> State[Any]:
    """Clean up after a pipeline's runs, by its `retention`."""
    night = prefect_view.begun_night(run_id) or Night.begin(file, kind="maintain")
    prefect_view.run_line(night, lines.maintain)
    prefect_view.forget_flow_runs(night)
    return prefect_view.report_run(night)
