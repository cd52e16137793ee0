"""Orders by half hour in the lake: stored once, point in time, and only for days that count."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.demand.half_hours.stored import latest_profiles
from forecaster.demand.ingest import ingest
from forecaster.lake import Lake

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SHIFTS = "[{name: early, start: 06:00, end: 14:00, share: learn}, {name: late, start: 14:00, end: 22:00, share: learn}]"


def spec_of(folder: Path, aggregate: str = "count", more: str = "", kind: str = "kind: csv, path: orders.csv") -> Spec:
    (folder / "pipeline.yaml").write_text(
        f"name: t\ntimezone: Europe/Berlin\ndemand: {{source: {{{kind}}}, aggregate: {aggregate}{more}}}\n"
        "calendar: {holidays: false}\n"
        f"staffing: {{orders_per_driver: 9, cost_short: 3, cost_idle: 1, shifts: {SHIFTS}}}\n",
        "utf-8",
    )
    return load(folder / "pipeline.yaml")


def write(folder: Path, *rows: str, header: str = "depot_id,date") -> None:
    (folder / "orders.csv").write_text("\n".join([header, *rows]) + "\n", "utf-8")


def profiles(spec: Spec, as_of: datetime | None = None) -> dict[tuple[str, str], dict[int, float]]:
    """Half hour → orders, by depot and day."""
    days, orders = latest_profiles(Lake.of(spec), first=0, as_of=as_of)
    return {
        (depot, str(date(1970, 1, 1) + timedelta(days=int(day)))): {
            half: float(count) for half, count in enumerate(counts) if count
        }
        for depot, day, counts in zip(days["depot_id"], days["day"], orders, strict=True)
    }


def test_repeated_ingestion_adds_nothing_and_a_correction_replaces_the_profile(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    write(tmp_path, "A,2024-03-04T08:10", "A,2024-03-04T08:20", "A,2024-03-04T15:00", "B,2024-03-04T23:30Z")
    first = ingest(spec, now=NOW)
    assert first.findings == ()
    before = {("A", "2024-03-04"): {16: 2.0, 30: 1.0}, ("B", "2024-03-05"): {1: 1.0}}
    assert profiles(spec) == before
    assert ingest(spec, now=NOW + DAY).versions == first.versions
    # the third order was in the morning after all: the same count at other hours
    write(tmp_path, "A,2024-03-04T08:10", "A,2024-03-04T08:20", "A,2024-03-04T09:00", "B,2024-03-04T23:30Z")
    second = ingest(spec, now=NOW + 2 * DAY)
    assert (second.accepted, second.unchanged) == (0, 4)
    assert profiles(spec) == before | {("A", "2024-03-04"): {16: 2.0, 18: 1.0}}
    assert profiles(spec, NOW + DAY) == before
    assert profiles(spec, NOW + 2 * DAY) == profiles(spec)
    assert profiles(spec, NOW - DAY) == {}
    assert second.versions["half_hours"] == first.versions["half_hours"] + 1


def test_counts_with_times_are_summed_and_known_the_next_morning_in_an_archive(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "sum", ", recorded: next_day")
    write(
        tmp_path,
        "A,2024-03-01T08:00,5",
        "A,2024-03-01T08:10,2.5",
        "A,2024-03-01T20:00,4",
        header="depot_id,date,demand",
    )
    ingest(spec, now=NOW)
    assert profiles(spec) == {("A", "2024-03-01"): {16: 7.5, 40: 4.0}}
    assert profiles(spec, datetime(2024, 3, 1, 22, tzinfo=UTC)) == {}
    assert profiles(spec, datetime(2024, 3, 2, 12, tzinfo=UTC)) == profiles(spec)


def test_day_that_does_not_count_or_is_unknown_has_no_profile(tmp_path: Path) -> None:
    """Today is not over, and one count of the 4th is unknown."""
    spec = spec_of(tmp_path, "sum")
    rows = ["A,2024-03-06T08:00,5", "A,2024-03-04T08:00,", "A,2024-03-04T09:00,3", "A,2024-03-05T09:00,3"]
    write(tmp_path, *rows, header="depot_id,date,demand")
    assert [finding.rule for finding in ingest(spec, now=NOW).findings] == ["day_not_over"]
    assert list(profiles(spec)) == [("A", "2024-03-05")]


def test_rows_without_a_time_stop_the_batch_with_place_and_remedy(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    write(tmp_path, "A,2024-03-04T08:10", "A,2024-03-04", "A,2024-03-05T08:00")
    outcome = ingest(spec, now=NOW)
    assert outcome.stopped == (
        "no_time: found 1 rows with a day and no time of day, the first one orders.csv:3: depot A; column 'date' "
        "(demand.columns.date); wanted a time of day in each row, as in 2024-03-05T14:30, where staffing.shifts say "
        "share: learn; or numbers there"
    )
    assert (outcome.accepted, profiles(spec)) == (0, {})
    told = spec_of(tmp_path, more=", rules: {severity: {no_time: warn}}")
    assert ingest(told, now=NOW).accepted == 3
    assert list(profiles(spec)) == [("A", "2024-03-05")]  # on the other day, the time of one order is unknown


@pytest.mark.parametrize("time", ["", "T00:00:00", " 00:00"])
def test_feed_of_midnights_is_a_feed_of_days(tmp_path: Path, time: str) -> None:
    write(tmp_path, f"A,2024-03-04{time}", f"A,2024-03-05{time}")
    outcome = ingest(spec_of(tmp_path), now=NOW)
    assert (outcome.stopped or "").startswith(
        "no_time: found midnight, or no time of day, in all 2 rows, the first one"
    )


def test_timestamp_columns_have_times_and_date_columns_have_none(tmp_path: Path) -> None:
    import pandas as pd

    stamps = pd.to_datetime(["2024-03-04T07:10Z", "2024-03-04T14:00Z"])
    table = pd.DataFrame({"depot_id": ["A", "A"], "date": stamps})
    table.to_parquet(tmp_path / "orders.parquet")
    spec = spec_of(tmp_path, kind="kind: parquet, path: orders.parquet")
    ingest(spec, now=NOW)
    assert profiles(spec) == {("A", "2024-03-04"): {16: 1.0, 30: 1.0}}
    table.assign(date=table["date"].dt.date).to_parquet(tmp_path / "orders.parquet")
    assert (ingest(spec, now=NOW + DAY).stopped or "").startswith(
        "no_time: found midnight, or no time of day, in all 2"
    )
