"""Orders repeated within a batch: by their id, or as days shared by two files."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.errors import SpecError

NOW = datetime(2024, 3, 20, 12, tzinfo=UTC)
FIRST = date(2024, 3, 1)
DAY = timedelta(days=1)
HEADER = "order,depot_id,date,demand"


def spec_of(folder: Path, aggregate: str = "count", columns: str = "") -> Spec:
    source = '{kind: csv, path: "export*.csv"}'
    (folder / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {source}, aggregate: {aggregate}{columns}}}\ncalendar: {{holidays: false}}\n",
        "utf-8",
    )
    return load(folder / "pipeline.yaml")


def orders(first: int, last: int, seed: int = 7) -> list[str]:
    """Rows of two depots from one day to another, each with its own time of day and quantity."""
    rows = []
    for day in range(first, last + 1):
        for depot in "AB":
            for number in range(4 + day % 3 + (depot == "A")):
                minute = (seed * 131 * (number + 1) + 37 * day + 11 * ord(depot)) % 1440
                at = f"{FIRST + day * DAY} {minute // 60:02}:{minute % 60:02}"
                rows.append(f"{depot}{day}-{number},{depot},{at},{1 + number % 3}")
    return rows


def write(folder: Path, name: str, rows: list[str]) -> None:
    (folder / name).write_text("\n".join([HEADER, *rows]) + "\n", "utf-8")


def rules(spec: Spec) -> list[tuple[str, str, int]]:
    return [(finding.rule, finding.severity, finding.count) for finding in ingest(spec, now=NOW).findings]


def counts(spec: Spec) -> dict[tuple[str, int], float]:
    rows = read_as_of(spec, as_of=NOW).demand
    columns = zip(rows["depot_id"], rows["date"], rows["demand"], strict=True)
    return {(depot, (day.date() - FIRST).days): count for depot, day, count in columns}


@pytest.mark.parametrize("aggregate", ["count", "sum"])
def test_files_with_identical_rows_for_whole_days_stop_the_batch(tmp_path: Path, aggregate: str) -> None:
    write(tmp_path, "export_1.csv", orders(0, 6))
    write(tmp_path, "export_2.csv", orders(5, 9))
    result = ingest(spec_of(tmp_path, aggregate), now=NOW)
    found = {finding.rule: finding for finding in result.findings}["repeated_rows"]
    shared = len(orders(5, 6))
    assert (found.severity, found.count) == ("stop", shared)
    assert found.message.startswith(
        f"found {shared} rows of 2 days from 2024-03-06 to 2024-03-07 in export_1.csv and in export_2.csv"
    )
    assert found.places == (("A", "2024-03-06"), ("B", "2024-03-06"), ("A", "2024-03-07"), ("B", "2024-03-07"))
    assert result.accepted == 0


def test_partial_day_in_the_first_export_belongs_to_the_overlap(tmp_path: Path) -> None:
    write(tmp_path, "export_1.csv", [*orders(0, 6), orders(7, 7)[0]])
    write(tmp_path, "export_2.csv", orders(5, 9))
    assert ("repeated_rows", "stop", len(orders(5, 6)) + 1) in rules(spec_of(tmp_path))


def test_block_of_rows_repeated_in_one_file_stops_the_batch(tmp_path: Path) -> None:
    write(tmp_path, "export.csv", [*orders(0, 6), *orders(5, 9)])
    result = ingest(spec_of(tmp_path), now=NOW)
    found = {finding.rule: finding for finding in result.findings}["repeated_rows"]
    first, again = 2 + len(orders(0, 4)), 2 + len(orders(0, 6))
    assert found.count == len(orders(5, 6))
    assert found.message.startswith(
        f"found {found.count} rows of 2 days from 2024-03-06 to 2024-03-07 twice in export.csv, from row {first} on "
        f"and again from row {again} on"
    )


def test_blocks_repeated_in_several_files_are_each_reported(tmp_path: Path) -> None:
    write(tmp_path, "export_1.csv", [*orders(0, 3), *orders(2, 3)])
    write(tmp_path, "export_2.csv", [*orders(4, 9), *orders(7, 9)])
    result = ingest(spec_of(tmp_path), now=NOW)
    found = {finding.rule: finding for finding in result.findings}["repeated_rows"]
    assert found.count == len(orders(2, 3)) + len(orders(7, 9))
    first, again = 2 + len(orders(4, 6)), 2 + len(orders(4, 9))
    assert f"twice in export_2.csv, from row {first} on and again from row {again} on" in found.message


@pytest.mark.parametrize("aggregate", ["count", "sum"])
def test_files_of_channels_with_common_days_are_not_a_repetition(tmp_path: Path, aggregate: str) -> None:
    write(tmp_path, "export_shop.csv", orders(0, 9, seed=7))
    write(tmp_path, "export_web.csv", orders(0, 9, seed=13))
    assert "repeated_rows" not in {rule for rule, _, _ in rules(spec_of(tmp_path, aggregate))}


def test_parts_of_days_that_often_coincide_are_not_a_repetition(tmp_path: Path) -> None:
    """Two shifts with one row per day each, mostly 0 or 1."""
    for shift in (0, 1):
        rows = [f"x,A,{FIRST + day * DAY},{int(day % 7 == 0) * (1 + shift * (day == 7))}" for day in range(18)]
        write(tmp_path, f"export_{shift}.csv", rows)
    assert "repeated_rows" not in {rule for rule, _, _ in rules(spec_of(tmp_path, "sum"))}


def test_hours_of_two_channels_with_mostly_no_orders_are_not_a_repetition(tmp_path: Path) -> None:
    """One row per hour, one channel after another in one file; few hours have a count."""
    rows = [
        f"x,A,{FIRST + day * DAY} {hour:02}:00,{(day % 4 + 1) * int(hour == (9, 15 - day % 2 * 6)[channel])}"
        for channel in (0, 1)
        for day in range(18)
        for hour in range(24)
    ]
    write(tmp_path, "export.csv", rows)
    assert "repeated_rows" not in {rule for rule, _, _ in rules(spec_of(tmp_path, "sum"))}


def test_orders_with_dates_alone_are_not_a_repetition(tmp_path: Path) -> None:
    write(tmp_path, "export.csv", [f"x,{depot},{FIRST + day * DAY},1" for day in range(18) for depot in "AABB"])
    assert "repeated_rows" not in {rule for rule, _, _ in rules(spec_of(tmp_path))}


def dates_alone(name: str, spec: Spec, first: int, last: int, level: int = 6) -> None:
    """Orders of six depots with dates alone, `level` per day or up to two more."""
    days = [(depot, day) for day in range(first, last) for depot in "ABCDEF"]
    rows = [[f"x,{depot},{FIRST + day * DAY},1"] * (level + (day + ord(depot)) % 3) for depot, day in days]
    write(spec.folder, name, [row for of_day in rows for row in of_day])


def channel(seed: int, rate: float) -> list[str]:
    """Orders with dates alone of 60 depots on 78 days."""
    number = np.random.default_rng(seed).poisson(rate, (78, 60))
    cells = [(day, depot) for day in range(78) for depot in range(60)]
    return [row for day, depot in cells for row in [f"x,D{depot},{FIRST + (day - 60) * DAY},1"] * number[day, depot]]


@pytest.mark.parametrize("aggregate", ["count", "sum"])
@pytest.mark.parametrize("rate", [0.3, 0.6, 5])
def test_channels_with_dates_alone_are_not_a_repetition(tmp_path: Path, aggregate: str, rate: float) -> None:
    write(tmp_path, "export_shop.csv", channel(1, rate))
    write(tmp_path, "export_web.csv", channel(2, rate))
    assert "repeated_rows" not in {rule for rule, _, _ in rules(spec_of(tmp_path, aggregate))}


def test_channels_with_dates_and_few_quantities_are_not_a_repetition(tmp_path: Path) -> None:
    """Days of two rows often coincide by chance, but others of the same files do not."""
    for name, seed in (("shop", 1), ("web", 2)):
        rng = np.random.default_rng(seed)
        rows = [f"{row.rsplit(',', 1)[0]},{rng.integers(1, 3)}" for row in channel(seed, 0.6)]
        write(tmp_path, f"export_{name}.csv", rows)
    assert "repeated_rows" not in {rule for rule, _, _ in rules(spec_of(tmp_path, "sum"))}


@pytest.mark.parametrize(("level", "last", "found"), [(6, 7, True), (6, 6, False), (2, 7, False)])
def test_dates_alone_are_a_repetition_if_many_days_with_many_orders_match(
    tmp_path: Path, level: int, last: int, found: bool
) -> None:
    """Twelve depot-days are enough, six are not."""
    spec = spec_of(tmp_path)
    dates_alone("export_1.csv", spec, 0, last, level)
    dates_alone("export_2.csv", spec, 5, 10, level)
    assert ("repeated_rows" in {rule for rule, _, _ in rules(spec)}) is found


def test_row_without_a_count_is_not_a_repetition(tmp_path: Path) -> None:
    write(tmp_path, "export.csv", [f"x,A,{FIRST},", f"x,A,{FIRST},", f"x,A,{FIRST + DAY},0"])
    assert "repeated_rows" not in {rule for rule, _, _ in rules(spec_of(tmp_path, "sum"))}


def test_files_in_between_do_not_hide_a_repetition(tmp_path: Path) -> None:
    for month, (first, last) in enumerate([(0, 6), (5, 9)]):
        write(tmp_path, f"export_{month}_shop.csv", orders(first, last, seed=7))
        write(tmp_path, f"export_{month}_web.csv", orders(first, last, seed=13))
    found = {finding.rule: finding for finding in ingest(spec_of(tmp_path), now=NOW).findings}["repeated_rows"]
    shared = len(orders(5, 6))
    assert found.count == 2 * shared
    assert found.message.startswith(
        f"found {shared} rows of 2 days from 2024-03-06 to 2024-03-07 in export_0_shop.csv and in export_1_shop.csv, "
        "and 1 more such repetitions"
    )


def test_rows_in_three_files_count_as_two_too_many(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"export_{number}.csv", orders(0, 4))
    assert ("repeated_rows", "stop", 2 * len(orders(0, 4))) in rules(spec_of(tmp_path))


def test_order_counts_once_by_its_id_with_its_last_row(tmp_path: Path) -> None:
    write(tmp_path, "export_1.csv", orders(0, 6))
    corrected = [row.rsplit(",", 1)[0] + ",9" if row.startswith("A6-0,") else row for row in orders(5, 9)]
    write(tmp_path, "export_2.csv", corrected)
    spec = spec_of(tmp_path, "sum", ", columns: {order_id: order}")
    result = ingest(spec, now=NOW)
    [found] = [finding for finding in result.findings if finding.rule.startswith("repeated")]
    shared = len(orders(5, 6))
    assert (found.rule, found.severity, found.count) == ("repeated_orders", "warn", shared)
    assert found.message.startswith(
        f"found {shared} rows of orders repeated by a later row, 1 with another time or count, on 2 days from "
        "2024-03-06 to 2024-03-07"
    )
    assert (result.read, result.accepted) == (len(orders(0, 6)) + len(corrected), result.read)
    expected: dict[tuple[str, int], float] = {}
    for row in orders(0, 9):
        order, depot, at, quantity = row.split(",")
        key = depot, (date.fromisoformat(at[:10]) - FIRST).days
        expected[key] = expected.get(key, 0) + (9 if order == "A6-0" else int(quantity))
    assert counts(spec) == expected


def test_ids_shared_by_many_orders_stop_the_batch(tmp_path: Path) -> None:
    cut = [f"1.2E+17,{row.partition(',')[2]}" for row in orders(0, 9)]  # as a spreadsheet writes long numbers
    write(tmp_path, "export.csv", cut)
    spec = spec_of(tmp_path, "sum", ", columns: {order_id: order}")
    result = ingest(spec, now=NOW)
    [finding] = [finding for finding in result.findings if finding.rule == "repeated_orders"]
    assert (finding.severity, result.accepted) == ("stop", 0)
    assert re.match(
        rf"demand.columns.order_id: order: found \d+ of {len(cut)} rows with the value of another row of the same "
        "file, depot and day, and with another time or count; wanted a value of its own for each order",
        finding.message,
    )
    severity = "rules: {severity: {repeated_orders: warn}}"
    declared = spec_of(tmp_path, "sum", f", columns: {{order_id: order}}, {severity}")
    assert ("repeated_orders", "warn") in [(rule, severity) for rule, severity, _ in rules(declared)]


def test_file_that_repeats_an_export_repeats_its_orders(tmp_path: Path) -> None:
    write(tmp_path, "export.csv", 3 * orders(0, 9))
    spec = spec_of(tmp_path, "sum", ", columns: {order_id: order}")
    assert rules(spec) == [("repeated_orders", "warn", 2 * len(orders(0, 9)))]


def test_rows_without_an_order_id_all_count(tmp_path: Path) -> None:
    write(tmp_path, "export.csv", [f",A,{FIRST} 10:0{minute},1" for minute in range(3)])
    spec = spec_of(tmp_path, columns=", columns: {order_id: order}")
    assert rules(spec) == []
    assert counts(spec) == {("A", 0): 3.0}


def test_order_ids_require_rows_that_are_orders(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"columns\.order_id identifies rows of the same order"):
        spec_of(tmp_path, "none", ", columns: {order_id: order}")
