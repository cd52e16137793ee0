"""Opening days of a depot, and the meaning of a day without a row."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.demand.panel.build import build
from forecaster.serving.fallback import seasonal_naive
from tests.demand.literal_knowledge import DEPOTS, EVENTS, NAN, days, knowledge, spec_of

LEVELS = (0.1, 0.5, 0.9)


def depot(name: str, opened: str | None = None, closed: str | None = None) -> dict[str, Any]:
    return {"depot_id": name, "city": "", "country": "", "opened": opened, "closed": closed}


def rows(name: str, dates: list[str], count: float = 5.0) -> list[tuple[Any, ...]]:
    return [(name, day, count) for day in dates]


# --- the four states --------------------------------------------------------------------------------------------------


def test_counted_zero_closed_and_missing_days_are_four_states(tmp_path: Path) -> None:
    demand = [
        ("A", day, count, flag)
        for day, count, flag in zip(
            days("2024-03-01", "2024-03-04"), [7.0, 0.0, 0.0, NAN], [1, 1, 0, None], strict=True
        )
    ]
    demand += [("B", day, 5.0, 1) for day in days("2024-03-01", "2024-03-04")]
    panel = build(knowledge(demand, ("open",)), spec_of(tmp_path, columns="open: open"))
    np.testing.assert_array_equal(panel.demand[0], [7, 0, 0, NAN])
    assert panel.open[0].tolist() == [True, True, False, True, True, True]
    window = panel.window(4)
    counts_as_known = np.isfinite(window["demand"]) & (window["open"][:, :4] > 0)  # known counts for the network
    assert counts_as_known[0].tolist() == [True, True, False, False]
    np.testing.assert_array_equal(window["demand"][0], [7, 0, 0, NAN])
    np.testing.assert_array_equal(window["open"][0], [1, 1, 0, 1, 1, 1])


def test_fallback_treats_closed_days_as_zero_and_missing_days_as_unknown(tmp_path: Path) -> None:
    demand = rows("A", days("2024-02-20", "2024-02-26"), 9.0)  # then no row for a week
    demand += rows("B", days("2024-02-20", "2024-03-04"))
    events = [{"date": "2024-03-06", "kind": "closure", "name": "strike"}]
    forecast = seasonal_naive(
        build(knowledge(demand, events=events), spec_of(tmp_path, calendar=f"holidays: false, {EVENTS}")), LEVELS
    )
    np.testing.assert_allclose(forecast.median, [[9, 0], [5, 0]], rtol=1e-6)
    assert not forecast.quantiles[:, 1].any()


# --- no row, no demand ------------------------------------------------------------------------------------------------

ZERO = ", missing: zero, rules: {late_days: 0}"


def zeros(tmp_path: Path, readings: list[tuple[Any, ...]], demand: str = ZERO, **other: Any) -> np.ndarray:
    listed = DEPOTS if "depots" in other else None
    return build(knowledge(readings, **other), spec_of(tmp_path, listed, demand=demand)).demand


def test_missing_row_means_no_demand_if_most_depots_have_one(tmp_path: Path) -> None:
    demand = rows("A", ["2024-03-01", "2024-03-04"])
    demand += rows("B", ["2024-03-01", "2024-03-02", "2024-03-04"]) + rows("C", ["2024-03-01", "2024-03-04"])
    demand += rows("D", ["2024-03-01", "2024-03-02", "2024-03-04"])
    # two of four reported on the 2nd, none on the 3rd
    expected = [[5, 0, NAN, 5], [5, 5, NAN, 5], [5, 0, NAN, 5], [5, 5, NAN, 5]]
    np.testing.assert_array_equal(zeros(tmp_path, demand), expected)
    np.testing.assert_array_equal(zeros(tmp_path, demand, ", missing: unknown")[0], [5, NAN, NAN, 5])


def test_day_with_few_reported_depots_stays_unknown(tmp_path: Path) -> None:
    demand = [row for name in "ABC" for row in rows(name, ["2024-03-01", "2024-03-03", "2024-03-04"])]
    demand += rows("C", ["2024-03-02"])
    assert np.isnan(zeros(tmp_path, demand)[:2, 1]).all()


def test_row_without_a_count_and_rejected_row_do_not_mean_zero(tmp_path: Path) -> None:
    demand = [row for name in "DEF" for row in rows(name, days("2024-03-01", "2024-03-04"))]
    demand += [row for name in "ABC" for row in rows(name, ["2024-03-01"])] + [("B", "2024-03-02", NAN)]
    filled = zeros(tmp_path, demand, refused=[("C", "2024-03-03")])
    np.testing.assert_array_equal(filled[:3], [[5, 0, 0, 0], [5, NAN, 0, 0], [5, 0, NAN, 0]])


def test_days_with_possibly_late_rows_stay_unknown(tmp_path: Path) -> None:
    demand = (
        rows("A", ["2024-02-28"])
        + rows("B", days("2024-02-28", "2024-03-04"))
        + rows("C", days("2024-02-28", "2024-03-04"))
    )
    # as of 5 March, with rows up to three days late, the row of 1 March may come on the 4th at the latest
    late = ", missing: zero, rules: {late_days: 3}"
    np.testing.assert_array_equal(zeros(tmp_path, demand, late)[0], [5, 0, 0, NAN, NAN, NAN])
    archive = ", missing: zero, recorded: next_day"
    np.testing.assert_array_equal(zeros(tmp_path, demand, archive)[0], [5, 0, 0, 0, 0, 0])


def test_depot_that_is_closed_or_never_reported_gets_no_zeros(tmp_path: Path) -> None:
    demand = [row for name in "AB" for row in rows(name, days("2024-03-01", "2024-03-04"))] + rows("C", ["2024-03-03"])
    listed = [depot("A"), depot("B"), depot("C"), depot("D", "2024-03-01"), depot("E", "2024-03-02", "2024-03-03")]
    demand += rows("E", ["2024-03-02"]) + [row for name in "FG" for row in rows(name, days("2024-03-01", "2024-03-04"))]
    panel = build(knowledge(demand, depots=[*listed, depot("F"), depot("G")]), spec_of(tmp_path, DEPOTS, demand=ZERO))
    assert panel.depot_ids == ("A", "B", "C", "D", "E", "F", "G")
    np.testing.assert_array_equal(panel.demand[2:5], [[NAN, NAN, 5, 0], [NAN] * 4, [NAN, 5, NAN, NAN]])
    assert panel.open[3].all()


# --- opening and closing ----------------------------------------------------------------------------------------------

SHORT = ", rules: {closed_after_days: 3}"


def quiet(tmp_path: Path, demand: list[tuple[Any, ...]], listed: list[dict[str, Any]] | None = None) -> Any:
    snapshot = knowledge(demand, depots=listed)
    return build(snapshot, spec_of(tmp_path, DEPOTS if listed else None, demand=SHORT))


def test_silent_depot_counts_as_closed_once_the_limit_has_passed(tmp_path: Path) -> None:
    demand = rows("A", days("2024-02-24", "2024-03-04")) + rows("B", days("2024-02-24", "2024-02-27"))
    demand += rows("C", days("2024-02-24", "2024-03-01"))  # silent for three days, which is not more than three
    panel = quiet(tmp_path, demand)
    day = int(np.searchsorted(panel.days, np.datetime64("2024-03-02")))  # more than three days after 27 February
    assert panel.open[0].all()
    assert panel.open[1, :day].all()
    assert not panel.open[1, day:].any()
    assert panel.open[2].all()
    assert not seasonal_naive(panel, LEVELS).quantiles[1].any()


def test_earlier_cutoff_sees_the_depot_as_it_seemed_then(tmp_path: Path) -> None:
    demand = rows("A", days("2024-02-24", "2024-03-04")) + rows("B", days("2024-02-24", "2024-02-27"))
    panel = quiet(tmp_path, demand)
    for cutoff in days("2024-02-25", "2024-03-04"):
        before = panel.at(date.fromisoformat(cutoff))
        demand_by_then = [row for row in demand if row[1] <= cutoff]
        then = quiet(tmp_path, demand_by_then)  # panel of a run at that time
        silent = (np.datetime64(cutoff) - np.datetime64("2024-02-27")).astype(int) > 3
        assert then.open[1, -2:].any() != silent
        np.testing.assert_array_equal(before.open[:, : before.history], then.open[:, : then.history])
        if not silent and cutoff <= "2024-02-28":
            assert before.open[1].all()
        if silent:
            assert not before.open[1, -2:].any()


def test_declared_day_takes_precedence_over_silence(tmp_path: Path) -> None:
    demand = rows("A", days("2024-02-24", "2024-03-04"))
    demand += [row for name in "BCD" for row in rows(name, days("2024-02-24", "2024-02-26"))]
    listed = [depot("A"), depot("B", closed="2024-03-06"), depot("C", opened="2024-03-06"), depot("D"), depot("E")]
    panel = quiet(tmp_path, demand, listed)
    assert panel.open[1].tolist() == [True] * 11 + [False]  # closes on the last day of the horizon
    assert panel.open[2].tolist() == [True] * 3 + [False] * 8 + [True]  # counted before it opened (again)
    assert panel.open[3].tolist() == [True] * 6 + [False] * 6
    assert panel.open[4].all()  # never reported: a cold start


def test_depot_declared_closed_is_not_silent(tmp_path: Path) -> None:
    demand = [("A", day, 5.0, 1) for day in days("2024-02-24", "2024-03-04")]
    demand += [("B", day, 5.0, 1) for day in days("2024-02-24", "2024-02-26")]
    demand += [("B", day, NAN, 0) for day in days("2024-02-27", "2024-03-04")]
    panel = build(knowledge(demand, ("open",)), spec_of(tmp_path, columns="open: open", demand=SHORT))
    assert panel.open[1].tolist() == [True] * 3 + [False] * 7 + [True, True]


@pytest.mark.parametrize(("as_of", "day"), [("2024-02-29T10:00", "2024-02-28"), ("2024-03-01T10:00", "2024-02-29")])
def test_leap_day_is_counted(tmp_path: Path, as_of: str, day: str) -> None:
    snapshot = knowledge(
        rows("A", days("2024-02-27", "2024-03-02")), as_of=datetime.fromisoformat(as_of).replace(tzinfo=UTC)
    )
    spec: Spec = spec_of(tmp_path)
    panel = build(snapshot, spec)
    assert panel.cutoff == date.fromisoformat(day)
    assert [str(target) for target in panel.target_dates] == days(day, "2024-03-02")[1:3]
