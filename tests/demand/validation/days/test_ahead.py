"""Zero counts on days that are not over, in rows with values known ahead."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.lake import Lake

NOW = datetime(2026, 6, 10, 4, tzinfo=UTC)
FIRST = date(2026, 5, 20)  # 21 days before


def came(folder: Path, ahead: str, covariate: str = "regen", calendar: str = "", rules: str = "") -> IngestResult:
    """Result of a feed that ends a week ahead, with this count on each day that is not over."""
    days = [FIRST + timedelta(days=n) for n in range(28)]
    rows = [
        f"{depot},{day},{(40 + day.day % 7) if day < NOW.date() else ahead},{day.day / 10 if covariate else ''}"
        for day in days
        for depot in ("Alder", "Birch")
    ]
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand,regen", *rows]) + "\n", "utf-8")
    (folder / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}{rules}}}\n"
        f"calendar: {{holidays: false{calendar}}}\n",
        "utf-8",
    )
    return ingest(load(folder / "pipeline.yaml"), now=NOW)


KNOWN = ", known_future: [regen]"


def test_zero_count_ahead_is_set_aside_and_its_covariates_are_kept(tmp_path: Path) -> None:
    result = came(tmp_path, "0", calendar=KNOWN)
    assert (result.accepted, result.quarantined) == (56, 0)
    [finding] = result.findings
    assert (finding.rule, finding.severity, finding.count) == ("day_not_over", "warn", 14)
    assert finding.places[0] == ("Alder", "2026-06-10")
    assert finding.message == (
        "demand.csv:44: depot Alder on 2026-06-10: found 0, which is set aside, while the covariates count; wanted no "
        "count of a day that is not over"
    )
    readings = Lake.of(load(tmp_path / "pipeline.yaml")).read("demand", columns=["date", "demand", "regen"]).to_pandas()
    ahead = readings[readings["date"] >= NOW.date()]
    assert ahead["demand"].isna().all()
    assert ahead["regen"].notna().all()


def test_same_feed_again_adds_nothing(tmp_path: Path) -> None:
    came(tmp_path, "0", calendar=KNOWN)
    assert came(tmp_path, "0", calendar=KNOWN).unchanged == 56


@pytest.mark.parametrize(
    ("ahead", "covariate", "calendar", "rules"),
    [
        ("0", "regen", "", ""),  # nothing is known ahead
        ("0", "", KNOWN, ""),
        ("7", "regen", KNOWN, ""),
        ("0", "regen", KNOWN, ", rules: {severity: {day_not_over: quarantine}}"),
    ],
)
def test_other_rows_of_days_ahead_are_quarantined(
    tmp_path: Path, ahead: str, covariate: str, calendar: str, rules: str
) -> None:
    result = came(tmp_path, ahead, covariate, calendar, rules)
    assert (result.accepted, result.quarantined) == (42, 14)
    [finding] = [finding for finding in result.findings if finding.rule == "day_not_over"]
    assert finding.severity == "quarantine"
    assert finding.message.endswith("; an empty count keeps the covariates of the row") == bool(calendar)


def test_empty_count_ahead_gives_no_finding(tmp_path: Path) -> None:
    assert came(tmp_path, "", calendar=KNOWN).findings == ()
