"""Instants fall on days of the pipeline's zone, unless all are midnights in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from forecaster.config import Spec, load
from forecaster.onboarding import start

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAYS = [date(2026, 2, 28) - timedelta(days=back) for back in range(60)]


def made(folder: Path, file: Path, country: str) -> tuple[start.Start, Spec, str]:
    outcome = start.create([file], folder / "fleet", country=country, ask=None, now=NOW)
    return outcome, load(folder / "fleet" / start.PIPELINE), (folder / "fleet" / start.PIPELINE).read_text("utf-8")


def text_of(folder: Path, moments: list[str]) -> Path:
    file = folder / "counts.csv"
    rows = [f"{site},{moment},{90 + place}" for place, moment in enumerate(moments) for site in "AB"]
    file.write_text("site,ts,orders\n" + "\n".join(rows) + "\n", "utf-8")
    return file


def parquet_of(folder: Path) -> Path:
    rows = [(site, pd.Timestamp(day, tz="UTC"), 90 + day.day) for day in DAYS for site in "AB"]
    pd.DataFrame(rows, columns=["site", "ts", "orders"]).to_parquet(folder / "counts.parquet")
    return folder / "counts.parquet"


@pytest.mark.parametrize("form", ["{}T00:00:00Z", "{} 00:00:00+00:00", "parquet"])
def test_midnights_in_utc_are_days_of_utc(tmp_path: Path, form: str) -> None:
    file = parquet_of(tmp_path) if form == "parquet" else text_of(tmp_path, [form.format(day) for day in DAYS])
    outcome, spec, text = made(tmp_path, file, "US")
    reason = "all timestamps are at the same time of day in UTC, and some fall on another day in America/New_York"
    assert spec.demand.date_zone == "UTC"
    assert f"# {reason}\n" in text
    assert f"note      {reason}: read as days in UTC" in outcome.lines
    assert "seen      2 depots, 60 days, 2025-12-31 to 2026-02-28, 120 readings" in outcome.lines
    assert outcome.fault is None


def test_midnights_in_utc_on_the_same_days_need_no_zone(tmp_path: Path) -> None:
    _, spec, _ = made(tmp_path, text_of(tmp_path, [f"{day}T00:00:00Z" for day in DAYS]), "DE")
    assert spec.demand.date_zone is None


def test_instants_fall_on_days_of_the_pipelines_zone(tmp_path: Path) -> None:
    evenings = [f"{day}T{hour:02d}:30:00-05:00" for day in DAYS for hour in (9, 20)]
    outcome, spec, _ = made(tmp_path, text_of(tmp_path, evenings), "US")
    assert (spec.demand.date_zone, spec.demand.aggregate) == (None, "sum")
    assert "seen      2 depots, 60 days, 2025-12-31 to 2026-02-28, 240 readings" in outcome.lines
