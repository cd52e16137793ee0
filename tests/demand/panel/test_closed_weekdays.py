"""Closed weekdays: those that never have readings while others do, or those excluded by the
pipeline file."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.core.panel import Panel
from forecaster.demand.panel import closed_weekdays
from forecaster.demand.panel.build import build
from forecaster.errors import SpecError
from forecaster.evaluation import backtest
from forecaster.evaluation.baselines.naive import seasonal_window_average
from forecaster.serving.fallback import seasonal_naive
from tests.demand.literal_knowledge import DEPOTS, NAN, knowledge, spec_of

MONDAY = date(2024, 1, 1)
WORKDAYS, NO_SUNDAY, EVERY_DAY = range(5), range(6), range(7)
LEVELS = (0.1, 0.5, 0.9)
Rows = list[tuple[Any, ...]]


def rows(
    name: str, weekdays: Iterable[int], weeks: float, *, start: date = MONDAY, without: Iterable[date] = ()
) -> Rows:
    """Counts of 50 on these weekdays for some weeks, except on some days."""
    days = (start + timedelta(days=i) for i in range(round(7 * weeks)))
    return [(name, str(day), 50.0) for day in days if day.weekday() in weekdays and day not in set(without)]


def pipeline(folder: Path, declared: str = "", *, depots: bool = False, columns: str = "") -> Spec:
    return spec_of(folder, DEPOTS if depots else None, columns=columns, demand=declared, horizon=7)


def panel_of(folder: Path, demand: Rows, declared: str = "", columns: tuple[str, ...] = (), **other: Any) -> Panel:
    newest = date.fromisoformat(max(row[1] for row in demand if row[2] == row[2]))
    as_of = datetime(newest.year, newest.month, newest.day, 6, tzinfo=UTC) + timedelta(days=1)
    spec = pipeline(folder, declared, depots="depots" in other, columns="open: open" if columns else "")
    return build(knowledge(demand, columns, as_of=as_of, **other), spec)


def shut(panel: Panel, depot: str = "A") -> list[str]:
    """Weekdays of the coming week on which a depot is closed."""
    row = panel.depot_ids.index(depot)
    days = [day.astype(object) for day in panel.days[-7:][~panel.open[row, -7:]]]
    return [f"{day:%a}" for day in sorted(days, key=date.weekday)]


# --- learnt -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", ["", ", missing: zero", ", missing: zero, recorded: next_day"])
def test_weekdays_without_readings_are_closed_and_forecast_as_zero(tmp_path: Path, declared: str) -> None:
    panel = panel_of(tmp_path, rows("A", WORKDAYS, 7) + rows("B", EVERY_DAY, 7) + rows("C", EVERY_DAY, 7), declared)
    assert shut(panel) == ["Sat", "Sun"]
    assert shut(panel, "B") == []
    for forecast in (seasonal_naive(panel, LEVELS), seasonal_window_average(panel, LEVELS)(panel)):
        assert not forecast.quantiles[0, ~panel.open[0, -7:]].any()
        assert forecast.quantiles[0, panel.open[0, -7:]].all()


@pytest.mark.parametrize("weekdays", [(0, 2, 4), (1, 4), (5, 6), (2, 3, 4, 5, 6)])
def test_learns_any_set_of_open_weekdays(tmp_path: Path, weekdays: tuple[int, ...]) -> None:
    names = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    panel = panel_of(tmp_path, rows("A", weekdays, 20) + rows("B", EVERY_DAY, 20))
    assert shut(panel) == [name for day, name in enumerate(names) if day not in weekdays]


def test_learns_from_six_weeks_and_not_from_fewer(tmp_path: Path) -> None:
    assert shut(panel_of(tmp_path, rows("A", NO_SUNDAY, 6))) == []  # up to Saturday: five Sundays without a reading
    assert shut(panel_of(tmp_path, rows("A", NO_SUNDAY, 6.2))) == ["Sun"]


def test_weekday_that_occurred_before_needs_eight_weeks(tmp_path: Path) -> None:
    def after(weeks: float) -> Panel:
        return panel_of(tmp_path, rows("A", EVERY_DAY, 10) + rows("A", NO_SUNDAY, weeks, start=date(2024, 3, 11)))

    assert shut(after(8)) == []
    assert shut(after(8.2)) == ["Sun"]


def test_first_reading_on_a_closed_weekday_reopens_it(tmp_path: Path) -> None:
    demand = rows("A", WORKDAYS, 10)
    sunday = ("A", "2024-03-10", 12.0)
    assert shut(panel_of(tmp_path, demand)) == ["Sat", "Sun"]
    panel = panel_of(tmp_path, [*demand, sunday])
    assert shut(panel) == ["Sat"]
    assert panel.open[0, panel.history - 1]
    assert shut(panel_of(tmp_path, [*demand, ("A", "2024-03-10", 0.0)])) == ["Sat"]  # no orders, but it was open


def test_rejected_row_shows_business_and_an_empty_row_does_not(tmp_path: Path) -> None:
    demand = [*rows("A", WORKDAYS, 10), ("A", "2024-03-09", NAN), *rows("A", [0], 1, start=date(2024, 3, 11))]
    assert shut(panel_of(tmp_path, demand, refused=[("A", "2024-03-10")])) == ["Sat"]


def test_zero_counts_are_readings_and_close_nothing(tmp_path: Path) -> None:
    sundays = [("A", row[1], 0.0) for row in rows("A", [6], 10)]
    assert shut(panel_of(tmp_path, rows("A", NO_SUNDAY, 10) + sundays)) == []


def test_holidays_and_two_weeks_off_change_nothing(tmp_path: Path) -> None:
    off = [date(2024, 2, 5) + timedelta(days=i) for i in range(14)]
    holidays = [date(2024, 1, 1), date(2024, 3, 29), date(2024, 4, 1)]
    assert shut(panel_of(tmp_path, rows("A", WORKDAYS, 15, without=[*off, *holidays]))) == ["Sat", "Sun"]


def test_silent_depot_keeps_its_closed_weekdays(tmp_path: Path) -> None:
    panel = panel_of(tmp_path, rows("A", WORKDAYS, 10) + rows("B", EVERY_DAY, 20))
    assert shut(panel) == ["Sat", "Sun"]


def test_depot_with_random_gaps_has_no_closed_weekdays(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for share in (0.1, 0.3, 0.5, 0.65):
        names = [f"A{i}" for i in range(40)]
        demand = [row for name in names for row in rows(name, EVERY_DAY, 30) if random.random() < share]
        panel = panel_of(tmp_path, demand + rows("B", EVERY_DAY, 30))
        assert [depot for depot in panel.depot_ids if shut(panel, depot)] == []


def test_day_declared_open_by_the_source_is_open(tmp_path: Path) -> None:
    demand = [(*row, 1) for row in rows("A", NO_SUNDAY, 10)]
    assert shut(panel_of(tmp_path, demand, columns=("open",))) == ["Sun"]
    assert shut(panel_of(tmp_path, [*demand, ("A", "2024-03-10", NAN, 1)], columns=("open",))) == []
    beyond = [*demand, ("A", "2024-03-11", 50.0, 1), ("A", "2024-03-17", NAN, 1)]
    assert shut(panel_of(tmp_path, beyond, columns=("open",))) == []


# --- new depots -------------------------------------------------------------------------------------------------------


def test_new_depot_takes_the_habit_of_its_city_or_else_of_the_fleet(tmp_path: Path) -> None:
    start, homes = date(2024, 2, 26), {"A": "x", "B": "x", "C": "y", "D": "y", "N": "x", "M": "z", "O": "y"}
    listed = [{"depot_id": d, "city": c, "country": "", "opened": None, "closed": None} for d, c in homes.items()]
    demand = [row for name in "AB" for row in rows(name, NO_SUNDAY, 10)]
    demand += [row for name in "CD" for row in rows(name, EVERY_DAY, 10)]
    demand += [row for name in "NM" for row in rows(name, NO_SUNDAY, 2, start=start)]
    panel = panel_of(tmp_path, demand, depots=listed)
    assert {depot: shut(panel, depot) for depot in "NMO"} == {"N": ["Sun"], "M": [], "O": []}
    fleet = panel_of(tmp_path, [row for row in demand if row[0] not in "CDO"], depots=listed[:2] + listed[4:6])
    assert shut(fleet, "M") == ["Sun"]
    opened = [*demand, ("N", "2024-03-03", 9.0)]
    assert shut(panel_of(tmp_path, opened, depots=listed), "N") == []


# --- declared ---------------------------------------------------------------------------------------------------------


def test_setting_all_closes_nothing_and_a_list_closes_the_other_weekdays(tmp_path: Path) -> None:
    demand = [*rows("A", WORKDAYS, 10), ("A", "2024-03-10", 12.0)]
    assert shut(panel_of(tmp_path, demand, ", weekdays: all")) == []
    panel = panel_of(tmp_path, demand, ", weekdays: [mon, tue, wed, thu]")
    assert shut(panel) == ["Fri", "Sat", "Sun"]
    assert panel.open[0, panel.history - 1]  # orders prove it
    assert closed_weekdays.never_on_weekdays(panel, pipeline(tmp_path, ", weekdays: [mon, tue, wed, thu]")) == ()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("lern", r"found 'lern'; did you mean 'learn'\?, wanted learn, all, or a list of mon, tue, wed, thu, fri"),
        ("[mon, sunday]", r"demand.weekdays: found 'sunday'; did you mean 'sun'\?, wanted learn"),
        ("[]", r"found \[\], wanted learn"),
        ("5", "found 5, wanted learn"),
    ],
)
def test_rejects_other_values_of_weekdays(tmp_path: Path, declared: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        pipeline(tmp_path, f", weekdays: {declared}")


# --- point in time ----------------------------------------------------------------------------------------------------


def test_earlier_cutoff_knows_no_more_than_a_run_of_that_time(tmp_path: Path) -> None:
    demand = rows("A", EVERY_DAY, 3) + rows("A", WORKDAYS, 14, start=date(2024, 1, 22))
    demand += rows("A", EVERY_DAY, 6, start=date(2024, 4, 29)) + rows("B", EVERY_DAY, 23)
    whole = panel_of(tmp_path, demand)
    for cutoff in (whole.days[7 * week + 2].astype(object) for week in range(2, 22)):
        then = panel_of(tmp_path, [row for row in demand if row[1] <= str(cutoff)])
        before = whole.at(cutoff)
        np.testing.assert_array_equal(before.open[:, : before.history], then.open[:, : then.history])
    assert shut(panel_of(tmp_path, [row for row in demand if row[1] < "2024-04-29"])) == ["Sat", "Sun"]


def test_closed_weekdays_are_not_scored(tmp_path: Path) -> None:
    panel = panel_of(tmp_path, rows("A", WORKDAYS, 20) + rows("B", EVERY_DAY, 20))
    [*folds] = backtest.folds(lambda before: seasonal_naive(before, LEVELS), panel, backtest.cutoffs(panel, 14))
    actual = np.concatenate([fold.actuals for fold in folds], axis=1)
    assert np.isnan(actual[0]).sum() == 4
    assert not np.isnan(actual[1]).any()


# --- told -------------------------------------------------------------------------------------------------------------


def test_finding_names_weekdays_depots_and_key(tmp_path: Path) -> None:
    demand = [row for name in "AB" for row in rows(name, WORKDAYS, 8)] + rows("C", EVERY_DAY, 8)
    [finding] = closed_weekdays.never_on_weekdays(panel_of(tmp_path, demand), pipeline(tmp_path))
    assert (finding.rule, finding.severity, finding.count) == ("closed_weekday", "warn", 2)
    taken = "taken as closed; demand.weekdays overrides this"
    assert finding.message == f"2 depots never count on a Saturday or Sunday: {taken} (first A)"
    assert finding.places == (("A", "2024-03-02"), ("B", "2024-03-02"))
    [finding] = closed_weekdays.never_on_weekdays(
        panel_of(tmp_path, demand + rows("D", NO_SUNDAY, 8)), pipeline(tmp_path)
    )
    habits = "a Saturday or Sunday 2, a Sunday 1; first A"
    assert finding.message == f"3 depots never count on some weekday: {taken} ({habits})"
    assert closed_weekdays.never_on_weekdays(panel_of(tmp_path, rows("C", EVERY_DAY, 8)), pipeline(tmp_path)) == ()


def test_each_day_off_has_a_mark(tmp_path: Path) -> None:
    panel = panel_of(tmp_path, rows("A", NO_SUNDAY, 8) + rows("B", EVERY_DAY, 8))
    [past, ahead] = panel.marks.of(0)
    assert (past.date, ahead.date) == (date(2024, 2, 25), date(2024, 3, 3))
    assert ahead.name == "Sunday: taken as closed, because no Sunday has readings"
    assert panel.marks.of(1) == ()
