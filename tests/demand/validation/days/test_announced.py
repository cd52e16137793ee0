"""Days of events, depots and other reference sources, written as instants."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from forecaster.config import Spec, load
from forecaster.core.knowledge import Finding
from forecaster.demand.parsing import Notation
from forecaster.demand.validation import reference_tables
from forecaster.demand.validation.days.announced import announced_days
from tests.demand.validation.test_reference_tables import NOW, write

NEW_YORK, BERLIN, TOKYO = "America/New_York", "Europe/Berlin", "Asia/Tokyo"


@pytest.mark.parametrize(
    ("stamps", "zone", "days", "others"),
    [
        (["2026-11-30T00:00:00Z"], NEW_YORK, ["2026-11-30"], [True]),
        (["2026-11-30 00:00 UTC"], NEW_YORK, ["2026-11-30"], [True]),
        (["2026-11-30T00:00:00+01:00"], NEW_YORK, ["2026-11-30"], [True]),
        (["2026-11-30T23:59:59Z"], TOKYO, ["2026-11-30"], [True]),  # the end of a day
        (["2026-11-30T00:00:00Z", "2026-12-24"], NEW_YORK, ["2026-11-30", "2026-12-24"], [True, False]),
        (["2026-11-29T23:00:00Z"], BERLIN, ["2026-11-30"], [False]),  # local midnight
        (["2026-11-30T00:00:00Z"], BERLIN, ["2026-11-30"], [False]),
        (["2026-11-30T00:00:00-05:00"], NEW_YORK, ["2026-11-30"], [False]),
        (["2026-12-01T00:30:00Z"], NEW_YORK, ["2026-11-30"], [False]),  # 19:30 there
        (["2026-12-01T00:00:00Z", "2026-12-02T01:30:00Z"], NEW_YORK, ["2026-11-30", "2026-12-01"], [False, False]),
        (["2026-11-30", "", "soon"], NEW_YORK, ["2026-11-30", "", ""], [False] * 3),
        # midnights of Berlin, including summer
        (
            ["2026-05-04T22:00:00Z", "2026-11-29T23:00:00Z", "2026-12-24T23:00:00Z"],
            "America/Phoenix",
            ["2026-05-05", "2026-11-30", "2026-12-25"],
            [True] * 3,
        ),
    ],
)
def test_midnight_counts_as_the_written_day(stamps: list[str], zone: str, days: list[str], others: list[bool]) -> None:
    announced, is_other = announced_days(pd.Series(stamps, dtype="str"), ZoneInfo(zone), Notation())
    assert announced.dt.strftime("%Y-%m-%d").fillna("").tolist() == days
    assert is_other.tolist() == others


def test_typed_utc_midnights_are_days_too() -> None:
    stamps = pd.Series(pd.to_datetime(["2026-11-30T00:00:00Z", None], utc=True))
    announced, is_other = announced_days(stamps, ZoneInfo(NEW_YORK), Notation())
    assert announced.tolist() == [pd.Timestamp("2026-11-30"), pd.NaT]
    assert is_other.tolist() == [True, False]


def spec_of(folder: Path) -> Spec:
    (folder / "pipeline.yaml").write_text(
        f"name: t\ntimezone: {NEW_YORK}\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\n"
        "depots: {source: {kind: csv, path: depots.csv}, columns: {opened: since}}\n"
        "calendar: {country: US, events: {source: {kind: csv, path: events.csv}}}\n",
        "utf-8",
    )
    return load(folder / "pipeline.yaml")


def events(folder: Path, *lines: str) -> tuple[Any, list[Finding]]:
    write(folder, "events", *lines)
    findings: list[Finding] = []
    return reference_tables.events(spec_of(folder), findings, NOW)[0], findings


def test_closure_in_utc_midnights_applies_to_the_written_days(tmp_path: Path) -> None:
    row = "2024-03-05T00:00:00Z,2024-03-06T23:59:59Z,closure,inventory"
    table, [finding] = events(tmp_path, "date,until,kind,name", row)
    assert table["date"].tolist() == [pd.Timestamp("2024-03-05"), pd.Timestamp("2024-03-06")]
    assert (finding.rule, finding.severity, finding.count) == ("day_stamps", "warn", 1)
    assert finding.message == (
        "events.csv:2: column 'date': found '2024-03-05T00:00:00Z', wanted a day such as 2024-03-05, as the instant is "
        "of 2024-03-04 in America/New_York; the day as written counts"
    )


def test_first_day_of_a_depot_is_the_written_day(tmp_path: Path) -> None:
    write(tmp_path, "depots", "depot_id,since", "A,2024-03-05T00:00:00Z", "B,2024-03-05")
    findings: list[Finding] = []
    table = reference_tables.depots(spec_of(tmp_path), findings)
    assert table["opened"].tolist() == [pd.Timestamp("2024-03-05")] * 2
    assert [finding.rule for finding in findings] == ["day_stamps"]
