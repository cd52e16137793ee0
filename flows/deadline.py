"""Deadline alert flow: who is on call hears of it when tonight is not published in time, begun or
not."""

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
    """Tell `notify.blocks` when the newest night whose deadline is over has no forecasts."""
    sentence = notify.late_sentence(file)
    if sentence is None:
        return Completed(message="published in time")
    notify.send(load(file), "late", sentence)
    return Failed(message=sentence)
