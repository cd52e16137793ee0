"""Keys of `demand` that arrange the rows of a source: depot, where, fill_down, date as a list,
day_starts, closed_values."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from forecaster.config import Spec, load
from forecaster.demand.arrangement import Arrangement
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.demand.panel.build import build
from forecaster.errors import SourceError, SpecError

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
    spec = spec_of(folder, demand, source)
    result = of_rows(folder, rows, spec)
    table = read_as_of(spec, as_of=NOW).demand
    triples = zip(table["depot_id"], table["date"], table["demand"], strict=True)
    return result, {(str(depot), day.date()): count for depot, day, count in triples}


def of_rows(folder: Path, rows: list[str], spec: Spec, now: datetime = NOW) -> IngestResult:
    (folder / "demand.csv").write_text("\n".join(rows) + "\n", "utf-8")
    return ingest(spec, now=now)


def block_of(file: str = "demand.csv", **columns: list[str]) -> pd.DataFrame:
    """Block of a feed with these columns."""
    block = pd.DataFrame(columns, dtype="str")
    return pd.DataFrame({":fault": "", ":file": file, "row": range(1, len(block) + 1)}).assign(**block)


def arranged(spec: Spec, **columns: list[str]) -> pd.DataFrame:
    return Arrangement(spec).arrange(block_of(**columns))


def test_source_of_one_depot_needs_no_depot_column(tmp_path: Path) -> None:
    rows = ["date,demand", *(f"{day},{100 + day.day}" for day in DAYS)]
    _, counts = ingested(tmp_path, rows, ", depot: Garage")
    assert counts == {("Garage", day): 100 + day.day for day in DAYS}


def test_where_keeps_and_excludes_rows_ignoring_case(tmp_path: Path) -> None:
    rows = ["depot_id,date,status,kind"]
    rows += [f"A,{day},{status},{kind}" for day in DAYS for status in ("Paid", "Void") for kind in ("1", "2", "")]
    keys = ", aggregate: count, where: {status: {not: void}, kind: [1, '']}"
    result, counts = ingested(tmp_path, rows, keys)
    assert counts == {("A", day): 2 for day in DAYS}
    assert (result.read, result.left_out, result.quarantined) == (56, 112, 0)
    assert not [finding for finding in result.findings if finding.rule == "where_value"]


def test_where_value_without_rows_gives_a_finding(tmp_path: Path) -> None:
    rows = ["depot_id,date,demand,status", *(f"A,{day},{90 + day.day},paid" for day in DAYS)]
    result, counts = ingested(tmp_path, rows, ", where: {status: [paid, sent, lost]}")
    [finding] = [finding for finding in result.findings if finding.rule == "where_value"]
    assert str(finding.message).startswith("demand.where: found no row with 'sent' or 'lost' in column 'status'")
    assert len(counts) == len(DAYS)


@pytest.mark.parametrize("declared", ["1", "'1'", "1.0", "' 1.00 '"])
@pytest.mark.parametrize("cell", ["1", "1.0", " 1 "])
def test_where_matches_numbers_in_any_notation(tmp_path: Path, declared: str, cell: str) -> None:
    spec = spec_of(tmp_path, f", where: {{kind: {declared}}}")
    assert arranged(spec, kind=[cell, "2", "11"])["row"].tolist() == [1]


def test_malformed_row_is_kept_whatever_its_cells_contain(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ", where: {kind: sale}")
    block = arranged(spec, kind=["sale", "9", "9"], **{":fault": ["", "3 fields", ""]})
    assert block["row"].tolist() == [1, 2]


def test_where_excludes_rows_of_a_wide_table(tmp_path: Path) -> None:
    rows = [
        "date,measure,A,B",
        *(f"{day},{name},{n},{n + 1}" for day in DAYS for name, n in (("orders", 5), ("eur", 90))),
    ]
    result, counts = ingested(tmp_path, rows, ", where: {measure: orders}", ", wide: depots")
    assert counts == {(depot, day): n for day in DAYS for depot, n in (("A", 5), ("B", 6))}
    assert result.left_out == 56


def test_error_names_a_missing_where_column(tmp_path: Path) -> None:
    rows = ["depot_id,date,demand,Status", *(f"A,{day},5,paid" for day in DAYS)]
    with pytest.raises(SourceError, match=r"demand.csv: found columns .* wanted 'status'; did you mean 'Status'"):
        ingested(tmp_path, rows, ", where: {status: paid}")


@pytest.mark.parametrize("month", ["%m", "%B", "%b"])
def test_three_columns_can_hold_a_day(tmp_path: Path, month: str) -> None:
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


def test_depot_on_the_first_row_of_its_block_is_filled_down(tmp_path: Path) -> None:
    rows = ["depot_id,date,demand"]
    rows += [
        f"{depot if day == DAYS[0] else ''},{day},{n + day.day}" for n, depot in ((50, "A"), (80, "B")) for day in DAYS
    ]
    _, counts = ingested(tmp_path, rows, "", ", fill_down: [depot_id]")
    assert counts == {(depot, day): n + day.day for n, depot in ((50, "A"), (80, "B")) for day in DAYS}


def test_closed_values_close_the_day(tmp_path: Path) -> None:
    rows = ["depot_id,date,demand"]
    rows += [f"A,{day},{'closed' if day.weekday() == 6 else 70 + day.day}" for day in DAYS]
    result, _ = ingested(tmp_path, rows, ", closed_values: [CLOSED]")
    assert result.quarantined == 0
    table = read_as_of(spec_of(tmp_path, ", closed_values: [CLOSED]"), as_of=NOW).demand
    is_sunday = table["date"].dt.day_of_week == 6
    assert (table.loc[is_sunday, "open"] == 0).all()
    assert table.loc[is_sunday, "demand"].isna().all()
    assert (table.loc[~is_sunday, "demand"] > 70).all()


def test_unreadable_word_is_no_reading_of_an_open_weekday(tmp_path: Path) -> None:
    days = [date(2024, 1, 1) + timedelta(days=place) for place in range(95)]
    rows = ["depot_id,date,demand"]
    rows += [
        f"{depot},{day},{'CLOSED' if depot == 'A' and day.weekday() == 6 else 70 + day.day}"
        for depot in "ABC"
        for day in days
    ]
    spec = spec_of(tmp_path, "")
    [finding] = [finding for finding in of_rows(tmp_path, rows, spec).findings if finding.rule == "count_form"]
    assert 'set demand.closed_values: ["CLOSED"]' in finding.message
    panel = build(read_as_of(spec, as_of=NOW), spec)
    is_sunday = (panel.days.astype(int) + 3) % 7 == 6
    assert not panel.open[0, is_sunday][-3:].any()
    assert panel.open[0, ~is_sunday].all()
    assert panel.open[1:].all()


def test_closed_values_close_days_of_the_panel(tmp_path: Path) -> None:
    rows = ["depot_id,date,demand", *(f"A,{day},{'Shut ' if day == DAYS[9] else 70}" for day in DAYS)]
    ingested(tmp_path, rows, ", closed_values: [shut]")
    spec = spec_of(tmp_path, ", closed_values: [shut]")
    panel = build(read_as_of(spec, as_of=NOW), spec)
    assert [str(day) for day in panel.days[:28][~panel.open[0, :28]]] == [str(DAYS[9])]


def test_quarantines_the_partial_business_day_before_an_export(tmp_path: Path) -> None:
    rows = ["depot_id,date", *(f"A,{day} {hour}" for day in DAYS for hour in ("01:15", "12:00", "20:30"))]
    result, counts = ingested(tmp_path, rows, ', aggregate: count, day_starts: "03:00"')
    assert ("A", DAYS[0] - timedelta(days=1)) not in counts
    [finding] = [finding for finding in result.findings if finding.rule == "cut_day"]
    assert "found only rows after midnight (1)" in finding.message


@pytest.mark.parametrize("time", ["", " 00:00"])
def test_business_day_requires_times_of_day(tmp_path: Path, time: str) -> None:
    rows = ["depot_id,date", *(f"A,{day}{time}" for day in DAYS for _ in range(3))]
    result = of_rows(tmp_path, rows, spec_of(tmp_path, ', aggregate: count, day_starts: "03:00"'))
    assert "no_time" in str(result.stopped)
    assert "no demand.day_starts" in str(result.stopped)


def test_business_day_is_over_when_the_next_one_begins(tmp_path: Path) -> None:
    rows = ["depot_id,date", *(f"A,{day} {hour}" for day in DAYS for hour in ("02:30", "12:00", "20:30"))]
    spec = spec_of(tmp_path, ', aggregate: count, day_starts: "03:00"')
    after_midnight = datetime(2024, 3, 29, 1, tzinfo=UTC)
    assert "day_not_over" in {finding.rule for finding in of_rows(tmp_path, rows, spec, after_midnight).findings}
    assert "day_not_over" not in {finding.rule for finding in of_rows(tmp_path, rows, spec).findings}


def test_blanks_of_an_order_are_filled_from_its_first_line(tmp_path: Path) -> None:
    keys = ", aggregate: count, columns: {order_id: order}"
    spec = spec_of(tmp_path, keys, ", fill_down: [depot_id]")
    block = arranged(spec, order=["1", "1", "2", "2", "3"], depot_id=["A", "", "", "", "B"])
    assert block["depot_id"].tolist() == ["A", "A", "", "", "B"]


def test_blanks_are_filled_from_earlier_blocks_of_the_same_file_only(tmp_path: Path) -> None:
    arrangement = Arrangement(spec_of(tmp_path, "", ", fill_down: [depot_id]"))
    arrangement.arrange(block_of(depot_id=["A", "B"]))
    assert arrangement.arrange(block_of(depot_id=["", "C"]))["depot_id"].tolist() == ["B", "C"]
    assert arrangement.arrange(block_of(depot_id=["", "C"], file="other.csv"))["depot_id"].tolist() == ["", "C"]


def test_batch_with_mostly_missing_depots_is_stopped(tmp_path: Path) -> None:
    rows = ["depot_id,date,demand", *(f"{'A' if day == DAYS[0] else ''},{day},70" for day in DAYS)]
    result = of_rows(tmp_path, rows, spec_of(tmp_path, ""))
    assert 'demand.source.fill_down: ["depot_id"] fills it down' in str(result.stopped)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y"])
def test_latest_of_several_snapshots_of_a_day_counts(tmp_path: Path, form: str) -> None:
    rows = ["depot_id,date,told,demand"]
    rows += [
        f"A,{day.strftime(form)},{(day + timedelta(days=lag)).strftime(form)},{count}"
        for day in DAYS
        for lag, count in ((1, 80), (2, 95), (3, 100))
    ]
    keys = f", date_format: '{form}'" if form != "%Y-%m-%d" else ""
    result, counts = ingested(tmp_path, rows, ", columns: {recorded_at: told}", keys)
    assert result.quarantined == 0
    assert counts == {("A", day): 100 for day in DAYS}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (", depot: A, columns: {depot_id: site}", "depot names the only depot, and columns.depot_id"),
        (', day_starts: "03:20"', 'wanted a full or half hour up to 12:00, as in "03:00"'),
        (", where: {state: {without: x}}", "where"),
        (", where: {state: []}", "found no value, wanted one or more"),
        (', depot: "a\\tb"', "wanted an id in one line of at most 200 characters"),
        (", columns: {date: [y, m, m]}", "found m more than once"),
    ],
)
def test_rejects_contradictory_keys(tmp_path: Path, keys: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec_of(tmp_path, keys)


def test_wide_source_rejects_a_fixed_depot(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="depot needs a row for each reading"):
        spec_of(tmp_path, ", depot: A", ", wide: depots")


def test_fill_down_is_only_valid_for_demand(tmp_path: Path) -> None:
    depots = "\ndepots: {source: {kind: csv, path: depots.csv, fill_down: [city]}}"
    with pytest.raises(SpecError, match="fill_down applies only to columns of demand"):
        spec_of(tmp_path, "", "}}" + depots + "\nx: {y: {z: 1")
