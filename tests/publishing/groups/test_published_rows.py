"""Rows of the ledger that are made of arrays are those of the depots that `published_depots` makes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.config import Spec
from forecaster.core.forecast import Forecast
from forecaster.core.knowledge import Knowledge
from forecaster.core.marks import EVERYONE, Mark, Marks
from forecaster.errors import LedgerError
from forecaster.ledger import records
from forecaster.ledger.columns.json_text import json_text
from forecaster.ledger.grouped.depot_rows import DepotRows
from forecaster.planning.overrides import Override
from forecaster.publishing import content
from forecaster.publishing.forecast import ForecastResult, ModelChoice
from forecaster.publishing.groups import published_rows
from forecaster.publishing.groups.published_rows import GroupContent
from tests import panels

NOW = datetime(2024, 1, 20, 6, tzinfo=UTC)
SHIFTS = [
    {"name": 'early "], ["', "start": "06:00", "end": "14:00", "share": 0.5},
    {"name": "NaN", "start": "14:00", "end": "22:00", "share": 0.5},
]


def group(**changes: Any) -> GroupContent:
    """Three depots of which one is closed for good, another on a day, and one has a number of a planner."""
    demand = 20 + np.arange(3 * 70).reshape(3, 70) % 11 + 0.25
    demand[0, -2] = np.nan
    panel = panels.bare(demand, horizon=2)
    panel.open[1] = panel.open[2, -1] = panel.open[2, 69] = False
    cutoff = panel.cutoff
    places = {"city": ('U"lm', "Bonn", "")}
    marks = Marks(panel.depot_ids, (), ((Mark(date(2024, 3, 1), "holiday", "Straße"), EVERYONE),))
    panel = replace(panel, attributes=places, marks=marks)
    quantiles = np.array([[[7.1, 9.5, 12.3], [1 / 3, 20, 20]], [[0.0] * 3] * 2, [[8, 9, 10], [0, 0, 0]]], np.float32)
    forecast = Forecast(
        panel.depot_ids, cutoff, panel.target_dates, panels.LEVELS, quantiles, panel.open[:, panel.history :]
    )
    spec = Spec.model_validate({
        "name": "t", "demand": {"source": {"kind": "csv", "path": "demand.csv"}},
        "depots": {"source": {"kind": "csv", "path": "depots.csv"}, "static": ["city"]},
        "staffing": {"orders_per_driver": 3, "cost_short": 38, "cost_idle": 22, "shifts": SHIFTS},
    })  # fmt: skip
    result = ForecastResult(
        forecast, panel, ModelChoice(None, "t v1", "champion"), "b0", [], strangers=frozenset({"D2"})
    )
    override = Override(3, NOW, "t", "D0", panel.target_dates[1], 20, "weather", "storm", "Ana", panel.target_dates[1])
    zones = pd.DataFrame({"depot_id": ["D2"], "timezone": ["America/New_York"]})
    knowledge = Knowledge(NOW, pd.DataFrame(), zones, pd.DataFrame(), {})
    return replace(GroupContent(forecast, result, spec, knowledge, {(0, 1): override}, NOW), **changes)


def test_rows_made_of_arrays_are_those_of_published_depots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_rows, "AT_A_TIME", 1)
    of_group = group()
    parts = list(map(DepotRows.of, of_group.batches()))
    depots = content.published_depots(
        of_group.forecast, of_group.result, of_group.spec, of_group.knowledge, of_group.overrides, now=NOW
    )
    expected = list(depots)
    assert [depot.depot_id for depot in expected] == ["D0", "D2"]
    assert [row for part in parts for row in part.depots] == [_row(records.of_depot(depot)) for depot in expected]
    days = [_row({"depot_id": depot.depot_id} | dict(records.of_day(day))) for depot in expected for day in depot.days]
    assert [row for part in parts for row in part.days] == days


def test_what_cannot_be_published_is_named() -> None:
    whole = group().forecast
    crossing = whole.quantiles.copy()
    crossing[2, 0] = [8, 7, 10]
    with pytest.raises(LedgerError, match=r"^not published: depot 'D2', 2024-.*no fall from one level to the next$"):
        list(group(forecast=replace(whole, quantiles=crossing)).batches())


def _row(values: Any) -> tuple[Any, ...]:
    return tuple(json_text(value) if isinstance(value, list | dict) else value for value in values.values())
