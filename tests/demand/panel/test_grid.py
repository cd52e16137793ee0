"""Depots and days of the panel, and the position of each row."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forecaster.demand.panel.build import build
from forecaster.demand.panel.grid import lay_out
from tests.demand.literal_knowledge import DEPOTS, NAN, days, knowledge, spec_of

CELLS = st.tuples(st.sampled_from("ABCD"), st.integers(0, 9))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(readings=st.dictionaries(CELLS, st.one_of(st.none(), st.integers(0, 9)), min_size=1), text=st.booleans())
def test_counts_are_placed_as_by_a_simple_loop(tmp_path: Path, readings: dict[Any, int | None], text: bool) -> None:
    day = days("2024-02-26", "2024-03-06")
    snapshot = knowledge([(name, day[at], NAN if count is None else count) for (name, at), count in readings.items()])
    if text:
        snapshot = replace(snapshot, demand=snapshot.demand.astype({"depot_id": "str"}))
    counts = {(name, day[at]): count for (name, at), count in readings.items() if count is not None and at < 8}
    if not counts:
        return
    panel = build(snapshot, spec_of(tmp_path))
    assert panel.depot_ids == tuple(sorted({name for name, _ in counts}))
    assert str(panel.days[0]) == min(at for _, at in counts)
    assert str(panel.cutoff) == max(at for _, at in counts)
    for row, name in enumerate(panel.depot_ids):
        for column in range(panel.history):
            expected = counts.get((name, str(panel.days[column])), NAN)
            np.testing.assert_array_equal(panel.demand[row, column], np.float32(expected))


def test_unused_categories_and_rows_without_a_depot_are_ignored(tmp_path: Path) -> None:
    snapshot = knowledge([("A", "2024-03-03", 1.0), ("B", "2024-03-04", 2.0), ("C", "2024-03-04", 3.0)])
    ids = snapshot.demand["depot_id"].cat.set_categories(["Z", "B", "A"])  # C is no longer a category
    panel = build(replace(snapshot, demand=snapshot.demand.assign(depot_id=ids)), spec_of(tmp_path))
    assert panel.depot_ids == ("A", "B")
    np.testing.assert_array_equal(panel.demand, [[1, NAN], [NAN, 2]])


def test_knowledge_is_not_modified(tmp_path: Path) -> None:
    snapshot = knowledge([("A", "2024-03-03", 1.0, "x"), ("B", "2024-03-04", 2.0, "y")], ("weather",))
    before = snapshot.demand.copy(deep=True)
    build(snapshot, spec_of(tmp_path, calendar="holidays: false, known_future: [weather]"))
    pd.testing.assert_frame_equal(snapshot.demand, before)


def listed(**zones: str | None) -> list[dict[str, Any]]:
    none = {"city": "", "country": "", "opened": None, "closed": None}
    return [{"depot_id": name, **none, "timezone": zone} for name, zone in zones.items()]


EVENING = datetime(2024, 3, 4, 20, tzinfo=UTC)  # 4 March 12:00 in Los Angeles, 5 March 05:00 in Tokyo
ROWS = [(name, day, 1.0) for name in "ABC" for day in days("2024-03-02", "2024-03-05")]


def test_day_is_over_by_the_depots_own_zone(tmp_path: Path) -> None:
    zones = listed(A="Asia/Tokyo", B="America/Los_Angeles", C=None)
    spec = spec_of(tmp_path, DEPOTS, more="timezone: Asia/Seoul\n")
    panel = build(knowledge(ROWS, depots=zones, as_of=EVENING), spec)
    assert panel.cutoff == date(2024, 3, 4)
    np.testing.assert_array_equal(panel.demand, [[1, 1, 1], [1, 1, NAN], [1, 1, 1]])


def test_one_depot_ahead_does_not_end_todays_forecast_for_the_others(tmp_path: Path) -> None:
    zones = listed(A="Asia/Tokyo", B="America/Los_Angeles", C="America/New_York")
    panel = build(knowledge(ROWS, depots=zones, as_of=EVENING), spec_of(tmp_path, DEPOTS))
    assert panel.cutoff == date(2024, 3, 3)
    assert panel.target_dates[0] == date(2024, 3, 4)


@pytest.mark.parametrize(("zone", "cutoff"), [("Pacific/Auckland", 4), ("America/Los_Angeles", 3)])
def test_depots_sharing_their_own_zone_do_not_wait_for_the_pipelines_zone(
    tmp_path: Path, zone: str, cutoff: int
) -> None:
    panel = build(knowledge(ROWS, depots=listed(A=zone, B=zone, C=zone), as_of=EVENING), spec_of(tmp_path, DEPOTS))
    assert panel.cutoff == date(2024, 3, cutoff)


def test_cells_outside_the_grid_share_one_cell_that_is_cut_off(tmp_path: Path) -> None:
    snapshot = knowledge(
        [("A", "2024-03-03", 1.0), ("A", "2024-03-04", NAN), ("A", "2024-03-20", 7.0), ("B", "2024-03-20", 8.0)]
    )
    grid, at = lay_out(snapshot, spec_of(tmp_path))
    assert grid.shape == (1, 3)
    assert at.cell.tolist() == [0, 1, 3, 3]
    np.testing.assert_array_equal(at.spread(snapshot.demand["demand"].to_numpy(), NAN), [[1, NAN, NAN]])
