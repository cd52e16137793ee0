"""Morning refresh flow (re-inference): the champion forecasts again with late data; nothing is
trained."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import lines, prefect_view
from flows.night import Night


@flow(name="predict-only", flow_run_name=prefect_view.flow_run_name, persist_result=False)
@prefect_view.reports_refusals("refresh")
def predict_only(file: str, as_of: str | None = None, run_id: str | None = None) -> State[Any]:
    """Read the sources, forecast with the champion and publish; `as_of` is an ISO instant, now by
    default."""
    night = prefect_view.begun_night(run_id) or Night.begin(file, as_of, kind="refresh")
    prefect_view.run_line(night, lines.predict_only)
    return prefect_view.report_run(night)
