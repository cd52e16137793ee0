"""Keys of `demand` that arrange the rows of a source: depot, where, fill_down, date as a list,
day_starts, closed_values."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.errors import SpecError

NOW = datetime(2024, 4, 6, 12, tzinfo=UTC)
DAYS = [date(2024, 3, 1) + timedelta(days=place) for place in range(28)]


def spec_of(folder: Path, demand: str, source: str = "") -> Spec:
    text = (
        f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv{source}}}{demand}}}\ncalendar: {{holidays: false}}\n"
    )
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


def ingested(
    folder: Path, rows: list[str], demand: str, source: str = ""
) -> tuple[IngestResult, dict[tuple[str, date], float]]:
    """Result of an ingestion, and the counts by depot and day."""
    (folder / "demand.csv").write_text("\n".join(rows) + "\n", "utf-8")
    spec = spec_of(folder, demand, source)
    result = ingest(spec, now=NOW)
    table = read_as_of(spec, as_of=NOW).demand
    triples = zip(table["depot_id"], table["date"], table["demand"], strict=True)
    return result, {(str(depot), day.date()): count for depot, day, count in triples}


def test_a_source_of_one_depot_needs_no_column_of_depots(tmp_path: Path) -> None:
    rows = ["date,demand", *(f"{day},{100 + day.day}" for day in DAYS)]
    _, counts = ingested(tmp_path, rows, ", depot: Garage")
    assert counts == {("Garage", day): 100 + day.day for day in DAYS}


def test_where_keeps_and_excludes_rows_by_value_in_any_case(tmp_path: Path) -> None:
    rows = ["depot_id,date,status,kind"]
    rows += [f"A,{day},{status},{kind}" for day in DAYS for status in ("Paid", "Void") for kind in ("1", "2", "")]
    keys = ", aggregate: count, where: {status: {not: [void, lost]}, kind: [1, '']}"
    result, counts = ingested(tmp_path, rows, keys)
    assert counts == {("A", day): 2 for day in DAYS}
    assert (result.read, result.left_out, result.quarantined) == (56, 112, 0)
    assert not [finding for finding in result.findings if finding.rule == "where_value"]


def test_a_value_of_where_that_no_row_has_is_a_finding(tmp_path: Path) -> None:
    rows = ["depot_id,date,demand,status", *(f"A,{day},{90 + day.day},paid" for day in DAYS)]
    result, counts = ingested(tmp_path, rows, ", where: {status: {not: cancelled}}")
    [finding] = [finding for finding in result.findings if finding.rule == "where_value"]
    assert str(finding.message).startswith("demand.where: found no row with 'cancelled' in column 'status'")
    assert len(counts) == len(DAYS)


@pytest.mark.parametrize("month", ["%m", "%B", "%b"])
def test_three_columns_hold_a_day(tmp_path: Path, month: str) -> None:
    rows = ["depot_id,y,m,d,demand", *(f"A,{day.year},{day.strftime(month)},{day.day},{day.day}" for day in DAYS)]
    result, counts = ingested(tmp_path, [*rows, "A,2024,2,31,5"], ", columns: {date: [y, m, d]}")
    assert counts == {("A", day): day.day for day in DAYS}
    [finding] = [finding for finding in result.findings if finding.rule == "date_form"]
    assert "column 'y-m-d': found '2024-2-31'" in finding.message


def test_a_business_day_ends_after_midnight(tmp_path: Path) -> None:
    rows = ["depot_id,date"]
    rows += [f"A,{day}T{hour}" for day in DAYS for hour in ("01:15", "03:00", "14:00", "20:30", "23:30")]
    _, counts = ingested(tmp_path, rows, ', aggregate: count, day_starts: "03:00"')
    assert {counts["A", day] for day in DAYS[1:-1]} == {5}
    assert counts["A", DAYS[-1]] == 4


def test_a_depot_on_the_first_row_of_its_block_is_filled_down(tmp_path: Path) -> None:
    rows = ["depot_id,date,demand"]
    rows += [
        f"{depot if day == DAYS[0] else ''},{day},{n + day.day}" for n, depot in ((50, "A"), (80, "B")) for day in DAYS
    ]
    _, counts = ingested(tmp_path, rows, "", ", fill_down: [depot_id]")
    assert counts == {(depot, day): n + day.day for n, depot in ((50, "A"), (80, "B")) for day in DAYS}


def test_words_for_closed_close_the_day(tmp_path: Path) -> None:
    rows = ["depot_id,date,demand"]
    rows += [f"A,{day},{'closed' if day.weekday() == 6 else 70 + day.day}" for day in DAYS]
    result, _ = ingested(tmp_path, rows, ", closed_values: [CLOSED]")
    assert result.quarantined == 0
    table = read_as_of(spec_of(tmp_path, ", closed_values: [CLOSED]"), as_of=NOW).demand
    is_sunday = table["date"].dt.day_of_week == 6
    assert (table.loc[is_sunday, "open"] == 0).all()
    assert table.loc[is_sunday, "demand"].isna().all()
    assert (table.loc[~is_sunday, "demand"] > 70).all()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (", depot: A, columns: {depot_id: site}", "depot names the only depot, and columns.depot_id"),
        (', day_starts: "03:20"', 'wanted a full or half hour up to 12:00, as in "03:00"'),
        (", where: {state: {without: x}}", "where"),
    ],
)
def test_keys_that_contradict_are_refused(tmp_path: Path, keys: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec_of(tmp_path, keys)


def test_a_wide_source_takes_none_of_the_keys_of_rows(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="where needs a row for each reading"):
        spec_of(tmp_path, ", where: {a: b}", ", wide: depots")
