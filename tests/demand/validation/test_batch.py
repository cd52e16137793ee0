from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.lake import Lake
from forecaster.operations.quarantine import RowSelection, discard, quarantined_rows, release

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST = date(2024, 1, 25)


def spec_of(folder: Path, demand: str = "", more: str = "calendar: {holidays: false}") -> Spec:
    text = f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}{demand}}}\n{more}\n"
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


def write(folder: Path, *lines: str, name: str = "demand") -> None:
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")


def numbers(result: IngestResult) -> tuple[int, int, int, int]:
    return result.read, result.accepted, result.unchanged, result.quarantined


def counts(spec: Spec, as_of: datetime) -> dict[tuple[str, str], float]:
    rows = read_as_of(spec, as_of=as_of).demand
    columns = zip(rows["depot_id"], rows["date"], rows["demand"], strict=True)
    return {(depot, str(day.date())): count for depot, day, count in columns}


def test_every_batch_is_accounted_for_once(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    write(tmp_path, "depot_id,date,demand", "A,2024-03-04,1", "A,2024-03-05,-1")
    first = ingest(spec, now=NOW)
    ingest(spec, now=NOW + DAY)
    write(tmp_path, "depot_id,date,demand", "A,2024-03-04,1", "A,2024-03-05,2", "A,2024-03-06,3")
    second = ingest(spec, now=NOW + 2 * DAY)
    rows = Lake(spec.lake_url).read("batches").to_pylist()
    accounts = [(row["batch"], row["read"], row["accepted"], row["unchanged"], row["quarantined"]) for row in rows]
    assert sorted(accounts) == sorted([(first.batch, 2, 1, 0, 1), (second.batch, 3, 2, 1, 0)])
    assert {row["stopped"] for row in rows} == {False}
    assert first.source == "demand.csv"


def weeks(days: int, depots: int, last: int) -> list[str]:
    """Lines of daily counts of `depots` depots, but of only `last` depots on the last day."""
    on = [depots] * (days - 1) + [last]
    return [f"D{depot},{FIRST + day * DAY},{50 + depot + day % 7}" for day in range(days) for depot in range(on[day])]


def test_stopped_batch_is_quarantined_whole_and_can_be_released(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    write(tmp_path, "depot_id,date,demand", *weeks(40, 10, 10))
    assert numbers(ingest(spec, now=NOW)) == (400, 400, 0, 0)
    before = Lake(spec.lake_url).versions()["demand"]
    write(tmp_path, "depot_id,date,demand", *weeks(41, 10, 3))
    result = ingest(spec, now=NOW)
    assert numbers(result) == (403, 0, 400, 3)
    assert result.stopped is not None
    assert result.stopped.startswith("thin_feed: 2024-03-05: found readings of 3 depots, where 10 are usual, wanted")
    assert [(f.rule, f.severity) for f in result.findings] == [("thin_feed", "stop")]
    assert Lake(spec.lake_url).versions()["demand"] == before
    rows = quarantined_rows(spec)
    assert {row.rule for row in rows} == {"batch_stopped"}
    assert "its batch was stopped: thin_feed" in rows[0].message
    assert numbers(ingest(spec, now=NOW)) == (403, 0, 400, 3)
    assert len(quarantined_rows(spec)) == 3
    release(spec, RowSelection(batch=result.batch), by="ada", reason="a strike", now=NOW)
    assert len(counts(spec, NOW)) == 403
    again = ingest(spec, now=NOW + DAY)
    assert (numbers(again), again.stopped) == ((403, 0, 403, 0), None)


def test_rest_of_a_stopped_day_accepts_the_day(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    write(tmp_path, "depot_id,date,demand", *weeks(40, 10, 10))
    ingest(spec, now=NOW)
    write(tmp_path, "depot_id,date,demand", *weeks(41, 10, 3))
    ingest(spec, now=NOW)
    write(tmp_path, "depot_id,date,demand", *weeks(41, 10, 10))
    assert numbers(ingest(spec, now=NOW + DAY)) == (410, 10, 400, 0)
    assert quarantined_rows(spec) == []


def test_rule_can_be_declared_to_stop_or_only_to_warn(tmp_path: Path) -> None:
    write(tmp_path, "depot_id,date,demand", *weeks(40, 1, 1), "D0,2024-03-05,9000", "D0,2024-03-06x,1")
    mild = ingest(spec_of(tmp_path, ", rules: {severity: {spike: warn}}", "lake: mild"), now=NOW)
    assert [(f.rule, f.severity, f.count) for f in mild.findings] == [
        ("date_form", "quarantine", 1),
        ("spike", "warn", 1),
    ]
    assert numbers(mild) == (42, 41, 0, 1)
    strict = ingest(spec_of(tmp_path, ", rules: {severity: {date_form: stop}}", "lake: strict"), now=NOW)
    assert (strict.accepted, strict.quarantined) == (0, 42)
    assert strict.stopped is not None
    assert strict.stopped.startswith("date_form: demand.csv:43")


def test_day_decades_before_the_others_is_a_typing_error(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    write(tmp_path, "depot_id,date,demand", *weeks(40, 10, 10), "D1,1985-02-01,7")
    result = ingest(spec, now=NOW)
    assert (result.accepted, [f.rule for f in result.findings]) == (400, ["stray_day"])
    assert (
        "found a day long before 2024-01-25, wanted a day at most 366 days before those" in result.findings[0].message
    )


def test_orders_are_counted_by_the_local_day_of_the_depot(tmp_path: Path) -> None:
    """On March 10 clocks change to summer time in New York, so the day has 23 hours. Each row is
    one order."""
    depots = "depots: {source: {kind: csv, path: depots.csv}, columns: {timezone: zone}}\ntimezone: America/New_York"
    spec = spec_of(tmp_path, ", aggregate: count, columns: {depot_id: depot, date: at}", depots)
    write(tmp_path, "depot_id,zone", "NYC,", "TOK,Asia/Tokyo", name="depots")
    write(
        tmp_path,
        "depot,at",
        "NYC,2024-03-10T04:59:59Z",  # still the 9th: an hour before midnight without summer time
        "NYC,2024-03-10T05:00:00Z",
        "NYC,2024-03-10 01:59:59",
        "NYC,2024-03-10T23:59:59-04:00",
        "NYC,2024-03-11T00:00:00-04:00",
        "TOK,2024-03-10T05:00:00Z",
        "TOK,2024-03-10T15:00:00Z",  # midnight in Tokyo
        "NYC,2024-03-11T12:00:00-04:00",
    )
    result = ingest(spec, now=datetime(2024, 3, 11, 16, 30, tzinfo=UTC))  # the 11th in New York, the 12th in Tokyo
    assert numbers(result) == (8, 6, 0, 2)
    assert result.findings[0].message == (
        "demand.csv:9: depot NYC on 2024-03-11: found 2 rows so far, wanted a day that was over in America/New_York "
        "when the count was recorded"
    )
    now = datetime(2024, 3, 12, 16, tzinfo=UTC)
    assert counts(spec, now) == {
        ("NYC", "2024-03-09"): 1,
        ("NYC", "2024-03-10"): 3,
        ("TOK", "2024-03-10"): 1,
        ("TOK", "2024-03-11"): 1,
    }
    assert numbers(ingest(spec, now=now)) == (8, 2, 6, 0)


def test_rows_of_a_day_are_added_and_an_unknown_row_makes_the_day_unknown(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ", aggregate: sum, columns: {open: open}", "calendar: {known_future: [promo, sky]}")
    write(
        tmp_path,
        "depot_id,date,demand,open,promo,sky",
        "A,2024-03-04T08:00,3,1,0,sun",
        "A,2024-03-04T17:00,4,0,1,rain",
        "A,2024-03-05T08:00,3,1,,",
        "A,2024-03-05T17:00,,1,,",
        "B,2024-03-05,,0,1,sun",
    )
    assert numbers(ingest(spec, now=NOW)) == (5, 5, 0, 0)
    rows = Lake(spec.lake_url).read("demand").sort_by([("depot_id", "ascending"), ("date", "ascending")]).to_pylist()
    days = [(row["depot_id"], row["demand"], row["open"], row["promo"], row["sky"], row["row"]) for row in rows]
    assert days == [
        ("A", 7.0, True, 1.0, "rain", 3),
        ("A", None, True, None, None, 5),
        ("B", None, False, 1.0, "sun", 6),
    ]
    assert numbers(ingest(spec, now=NOW)) == (5, 0, 5, 0)


@pytest.mark.parametrize("aggregate", ["sum", "count"])
def test_day_with_unreadable_rows_keeps_the_known_count(tmp_path: Path, aggregate: str) -> None:
    spec = spec_of(tmp_path, f", aggregate: {aggregate}")
    odd = {"sum": "A,2024-03-04T17:00,n/a", "count": "A,2024-03-04T17:00,4,5"}[aggregate]
    few, many = (
        [f"A,{day}T{hour:02d}:00,1" for hour in range(number)]
        for day, number in (("2024-03-04", 8), ("2024-03-05", 19))
    )
    write(tmp_path, "depot_id,date,demand", *few, "A,2024-03-04T18:00,1", "A,2024-03-04T19:00,1")
    ingest(spec, now=NOW)
    write(tmp_path, "depot_id,date,demand", *few, odd, odd.replace("17", "18"), *many, odd.replace("-04T", "-05T"))
    result = ingest(spec, now=NOW + DAY)
    assert numbers(result) == (30, 19, 0, 11)
    [finding] = [finding for finding in result.findings if finding.rule == "partial_day"]
    assert finding.severity == "quarantine"
    assert "depot A on 2024-03-04: found 2 of 10 rows that cannot be read" in finding.message
    assert counts(spec, NOW + DAY) == {("A", "2024-03-04"): 10, ("A", "2024-03-05"): 19}
    assert numbers(ingest(spec, now=NOW + DAY)) == (30, 0, 19, 11)


def test_day_of_few_rows_with_an_unreadable_one_is_unknown_until_it_is_discarded(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ", aggregate: sum")
    write(tmp_path, "depot_id,date,demand", "A,2024-03-04T08:00,3", "A,2024-03-04T17:00,n/a", "A,2024-03-05,4")
    ingest(spec, now=NOW)
    assert counts(spec, NOW) == {("A", "2024-03-05"): 4}
    discard(spec, RowSelection(rule="count_form"), now=NOW, by="w", reason="no part of it")
    ingest(spec, now=NOW + DAY)
    assert counts(spec, NOW + DAY)["A", "2024-03-04"] == 3


@pytest.mark.parametrize("marks", ["thousands: ','", "thousands: '.', decimal: ','"])
def test_numbers_can_have_a_thousands_separator(tmp_path: Path, marks: str) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv, delimiter: ;, {marks}}}}}\n", "utf-8"
    )
    spec = load(tmp_path / "pipeline.yaml")
    written = "1,234.5" if marks == "thousands: ','" else "1.234,5"
    write(tmp_path, "depot_id;date;demand", f"A;2024-03-04;{written}", "B;2024-03-04;12;", "C;2024-03-04;1'2")
    result = ingest(spec, now=NOW)
    assert [f.rule for f in result.findings] == ["row_form", "count_form"]
    assert counts(spec, NOW) == {("A", "2024-03-04"): 1234.5}


def test_reads_covariates_in_the_notation_of_their_source(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "name: t\ndemand: {source: {kind: csv, path: demand.csv, delimiter: ;, decimal: ','}}\n"
        "calendar: {known_future: [celsius]}\n",
        "utf-8",
    )
    spec = load(tmp_path / "pipeline.yaml")
    write(tmp_path, "depot_id;date;demand;celsius", "A;2024-03-03;5;-0,5", "A;2024-03-04;6;12,25")
    ingest(spec, now=NOW)
    assert Lake(spec.lake_url).read("demand")["celsius"].to_pylist() == [-0.5, 12.25]
