"""Days whose count is a lower bound, as declared in the pipeline file; from the file to the panel."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import load
from forecaster.core.panel import Panel
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.demand.panel.build import build

NOW = datetime(2024, 4, 6, 12, tzinfo=UTC)
DAYS = [date(2024, 1, 1) + timedelta(days=place) for place in range(91)]


def panel_of(folder: Path, rows: list[str], demand: str, more: str = "") -> tuple[IngestResult, Panel]:
    (folder / "demand.csv").write_text("\n".join(rows) + "\n", "utf-8")
    (folder / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}, weekdays: all{demand}}}\n"
        f"calendar: {{holidays: false}}\n{more}",
        "utf-8",
    )
    spec = load(folder / "pipeline.yaml")
    result = ingest(spec, now=NOW)
    return result, build(read_as_of(spec, as_of=NOW), spec)


def count(day: date) -> int:
    return 40 + 3 * (day.toordinal() % 7) + day.toordinal() % 5


def capped_days(panel: Panel, depot: int = 0) -> list[date]:
    days: list[date] = panel.days[: panel.history][panel.is_capped[depot]].astype(object).tolist()
    return days


@pytest.mark.parametrize(
    ("header", "cell", "empty"),
    [
        ("capped", "yes", "no"),
        ("capped", "1", ""),
        ("sold_out_at", "14:30", ""),
        ("sold_out_at", "2024-01-05 14:30:00", ""),
    ],
)
def test_flag_or_time_makes_a_count_a_lower_bound(tmp_path: Path, header: str, cell: str, empty: str) -> None:
    rows = [f"A,{day},{count(day)},{cell if day.day == 5 else empty}" for day in DAYS]
    result, panel = panel_of(tmp_path, [f"depot_id,date,demand,{header}", *rows], f", columns: {{{header}: {header}}}")
    assert result.quarantined == 0
    assert capped_days(panel) == [day for day in DAYS if day.day == 5]
    assert panel.served[0].tolist() == [count(day) for day in DAYS]
    assert (panel.demand[0][panel.is_capped[0]] > panel.served[0][panel.is_capped[0]]).all()
    assert np.array_equal(panel.demand[0][~panel.is_capped[0]], panel.served[0][~panel.is_capped[0]])


def test_capacity_of_the_day_or_depot_caps_the_counts_that_reach_it(tmp_path: Path) -> None:
    rows = [f"{depot},{day},{min(count(day), 55)},{60 if day.day < 9 else ''}" for depot in "AB" for day in DAYS]
    (tmp_path / "depots.csv").write_text("depot_id,most\nA,55\nB,many\n", "utf-8")
    depots = "depots: {source: {kind: csv, path: depots.csv}, columns: {capacity: most}}\n"
    header = "depot_id,date,demand,limit"
    result, panel = panel_of(tmp_path, [header, *rows], ", columns: {capacity: limit}", depots)
    assert capped_days(panel) == [day for day in DAYS if count(day) >= 55]
    assert capped_days(panel, 1) == []
    assert [finding.message for finding in result.findings if finding.rule == "capacity_form"] == [
        "depots.csv:3: column 'most': found 'many', wanted a count a day, or nothing; taken as nothing"
    ]


def test_invalid_flags_and_times_are_quarantined_with_the_requirement(tmp_path: Path) -> None:
    rows = [
        f"A,{day},{count(day)},{'perhaps' if day.day == 5 else 'no'},{'25:00' if day.day == 6 else ''}" for day in DAYS
    ]
    columns = ", columns: {capped: full, sold_out_at: until}"
    result, _ = panel_of(tmp_path, ["depot_id,date,demand,full,until", *rows], columns)
    assert result.quarantined == 6
    messages = [finding.message for finding in result.findings if finding.rule == "covariate_form"]
    assert "column 'full': found 'perhaps', wanted a number" in messages[0]
    assert "a time such as 14:30 where it says when a depot sold out" in messages[0]


def test_rest_of_a_sold_out_day_is_estimated_from_other_days_half_hours(tmp_path: Path) -> None:
    rows = ["depot_id,date,sold_out"]
    for day in DAYS:
        sold_out = day.day == 5
        hours = range(8, 12) if sold_out else range(8, 18)  # ten orders per hour, until noon on the sold-out day
        rows += [
            f"A,{day}T{hour:02d}:{minute:02d}:30,{'12:00' if sold_out else ''}"
            for hour in hours
            for minute in range(0, 60, 6)
        ]
    _, panel = panel_of(tmp_path, rows, ", aggregate: count, columns: {sold_out_at: sold_out}")
    capped = panel.is_capped[0]
    assert capped_days(panel) == [day for day in DAYS if day.day == 5]
    assert panel.served[0][capped].tolist() == [40.0] * 3
    assert panel.demand[0][capped] == pytest.approx([100.0] * 3)


def test_panel_without_capped_days_is_unchanged_to_the_bit(tmp_path: Path) -> None:
    rows = [f"A,{day},{count(day)},no" for day in DAYS]
    _, declared = panel_of(tmp_path, ["depot_id,date,demand,capped", *rows], ", columns: {capped: capped}")
    assert declared.capped is None
    assert declared.demand[0].tolist() == [float(count(day)) for day in DAYS]


def test_column_declared_later_also_applies_to_past_cutoffs_of_an_archive(tmp_path: Path) -> None:
    rows = [f"A,{day},{count(day)},{'yes' if day.day == 5 else 'no'}" for day in DAYS]
    panel_of(tmp_path, ["depot_id,date,demand,sold_out", *rows], ", recorded: next_day")
    text = (
        (tmp_path / "pipeline.yaml")
        .read_text("utf-8")
        .replace("weekdays: all", "weekdays: all, columns: {capped: sold_out}")
    )
    (tmp_path / "pipeline.yaml").write_text(text, "utf-8")
    spec, later = load(tmp_path / "pipeline.yaml"), NOW + timedelta(days=1)
    assert ingest(spec, now=later).accepted == len(DAYS)
    knowledge = read_as_of(spec, as_of=later)
    tonight = build(knowledge, spec)
    assert tonight.is_capped.sum() == 3
    assert Past(knowledge, tonight, spec)(DAYS[60]).is_capped.sum() == 2
