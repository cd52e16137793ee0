"""An export that begins within a day does not lower the known counts of that day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.operations.quarantine import RowSelection, release

NOW = datetime(2024, 3, 20, 12, tzinfo=UTC)
FIRST = date(2024, 3, 1)
DAY = timedelta(days=1)
Order = tuple[str, int, int]  # depot, day, hour
ORDERS: list[Order] = [(depot, day, hour) for day in range(10) for depot in "ABC" for hour in range(8, 18)]


def spec_of(folder: Path, rules: str = "") -> Spec:
    (folder / "pipeline.yaml").write_text(
        "name: t\ndemand: {source: {kind: csv, path: orders.csv}, aggregate: count"
        f"{rules}}}\ncalendar: {{holidays: false}}\n",
        "utf-8",
    )
    return load(folder / "pipeline.yaml")


def night(spec: Spec, orders: list[Order], number: int = 0) -> IngestResult:
    rows = [f"{depot},{FIRST + day * DAY}T{hour:02}:15" for depot, day, hour in orders]
    (spec.folder / "orders.csv").write_text("\n".join(["depot_id,date", *rows]) + "\n", "utf-8")
    return ingest(spec, now=NOW + number * DAY)


def known(spec: Spec, day: int) -> dict[str, float]:
    rows = read_as_of(spec, as_of=NOW + 9 * DAY).demand
    rows = rows[rows["date"].dt.date == FIRST + day * DAY]
    return dict(zip(rows["depot_id"], rows["demand"], strict=True))


def since(day: int, hour: int) -> list[Order]:
    return [order for order in ORDERS if order[1:] >= (day, hour)]


def findings(result: IngestResult) -> list[tuple[str, str, int]]:
    return [(finding.rule, finding.severity, finding.count) for finding in result.findings if finding.rule == "cut_day"]


def test_known_counts_are_kept_if_the_export_begins_within_a_day(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    night(spec, ORDERS)
    result = night(spec, since(4, 14), 1)
    assert findings(result) == [("cut_day", "quarantine", 3)]
    assert (result.accepted, result.quarantined) == (0, 3 * 4)
    [found] = [finding for finding in result.findings if finding.rule == "cut_day"]
    assert found.message == (
        "orders.csv:5: depot A on 2024-03-05: found 4 where 10 are known, on the first day of the export, which "
        "seems to begin within it; wanted exports of whole days, from midnight in the depots' time zone; the known "
        "count of the day stays"
    )
    assert known(spec, 4) == {"A": 10.0, "B": 10.0, "C": 10.0}


def test_lower_counts_can_be_released_by_a_person(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    night(spec, ORDERS)
    night(spec, since(4, 14), 1)
    released = release(spec, RowSelection(rule="cut_day"), by="ada", reason="so it was", now=NOW + 2 * DAY)
    assert [row.depot_id for row in released] == ["A", "B", "C"]
    assert known(spec, 4) == {"A": 4.0, "B": 4.0, "C": 4.0}
    assert findings(night(spec, since(4, 14), 3)) == []
    assert known(spec, 4) == {"A": 4.0, "B": 4.0, "C": 4.0}


def test_declared_severity_warn_only_warns(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ", rules: {severity: {cut_day: warn}}")
    night(spec, ORDERS)
    assert findings(night(spec, since(4, 14), 1)) == [("cut_day", "warn", 3)]
    assert known(spec, 4) == {"A": 4.0, "B": 4.0, "C": 4.0}


def test_whole_days_few_corrections_and_restated_history_are_not_cut_days(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    night(spec, ORDERS)
    assert findings(night(spec, since(4, 0), 1)) == []
    corrected = [order for order in since(4, 0) if order != ("A", 4, 9)]
    assert findings(night(spec, corrected, 2)) == []
    assert known(spec, 4) == {"A": 9.0, "B": 10.0, "C": 10.0}
    restated = [order for order in since(4, 0) if order[2] != 9]
    assert findings(night(spec, restated, 3)) == []
    assert known(spec, 4) == {"A": 9.0, "B": 9.0, "C": 9.0}


def test_day_with_more_orders_at_some_depots_is_not_a_cut_day(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    night(spec, ORDERS)
    assert findings(night(spec, [*since(4, 14), *[("C", 4, 14)] * 9], 1)) == []
    assert known(spec, 4) == {"A": 4.0, "B": 4.0, "C": 13.0}


def test_small_fall_of_a_small_fleet_is_a_correction(tmp_path: Path) -> None:
    """One depot with one of eleven orders of the first day canceled; two of eleven are a cut."""
    hours = [("A", day, hour) for day in range(10) for hour in range(8, 19)]
    spec = spec_of(tmp_path)
    night(spec, hours)
    window = [order for order in hours if order[1] >= 4]
    assert findings(night(spec, window[1:], 1)) == []
    assert known(spec, 4) == {"A": 10.0}
    night(spec, window, 2)
    assert findings(night(spec, window[2:], 3)) == [("cut_day", "quarantine", 1)]
    assert known(spec, 4) == {"A": 11.0}


def test_depots_missing_on_the_first_day_of_the_export_count_as_fallen(tmp_path: Path) -> None:
    """The two remaining depots each fall by less than a tenth, but the third is gone."""
    hours = [(depot, day, hour) for day in range(10) for depot in "ABC" for hour in range(8, 19)]
    spec = spec_of(tmp_path)
    night(spec, hours)
    window = [order for order in hours if order[1] >= 4 and (order[1] > 4 or (order[0] != "C" and order[2] > 8))]
    assert findings(night(spec, window, 1)) == [("cut_day", "quarantine", 2)]


def test_last_day_is_quarantined_if_the_export_ends_within_it(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    orders = [(depot, day, hour) for day in range(16) for depot in "ABC" for hour in range(8, 18)]
    result = night(spec, [order for order in orders if order[1:] < (15, 13)])
    assert findings(result) == [("cut_day", "quarantine", 3)]
    [found] = [finding for finding in result.findings if finding.rule == "cut_day"]
    assert "depot A on 2024-03-16: found no row after the half hour of 12:00, on the last day" in found.message
    assert known(spec, 14) == {"A": 10, "B": 10, "C": 10}
    assert known(spec, 15) == {}
    release(spec, RowSelection(rule="cut_day"), by="Ann", reason="closed at one", now=NOW)
    assert findings(night(spec, [order for order in orders if order[1:] < (15, 13)], 1)) == []
    assert findings(night(spec, orders, 2)) == []


def test_last_day_is_complete_if_its_weekday_always_ends_early(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    orders = [(depot, day, hour) for day in range(16) for depot in "ABC" for hour in range(8, 18)]
    early = [(depot, day, hour) for depot, day, hour in orders if day % 7 != 1 or hour < 13]
    assert findings(night(spec, early)) == []
