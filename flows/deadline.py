"""Deadline alert flow: alerts the on-call person if tonight's forecast is not published in time,
whether or not a run began."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows import notify, prefect_view
from forecaster.config import load


@flow(name="deadline", persist_result=False)
@prefect_view.reports_refusals(None)
def deadline(file: str) -> State[Any]:
    """Alert `notify.blocks` if the newest night past its deadline has no forecasts."""
    sentence = notify.late_sentence(file)
    if sentence is None:
        return Completed(message="published in time")
    notify.send(load(file), "late", sentence)
    return Failed(message=sentence)
