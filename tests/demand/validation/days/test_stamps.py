from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from forecaster.config import load
from forecaster.core.knowledge import Finding
from forecaster.demand.ingest import ingest
from forecaster.demand.validation.days.stamps import zone_of_days
from forecaster.errors import SpecError
from forecaster.lake import Lake

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
DAYS = pd.date_range("2026-08-01", "2026-11-23")


def day_stamps(folder: Path, stamps: Any, zone: str, demand: str = "", source: str = "") -> Finding | None:
    folder.mkdir(exist_ok=True)
    rows = pd.DataFrame(
        {"depot_id": "A", "date": stamps, "demand": [90 + 7 * (n % 7) + n % 5 for n in range(len(stamps))]}
    )
    kind = "csv" if rows["date"].dtype == "str" else "parquet"
    if kind == "csv":
        rows.to_csv(folder / "demand.csv", index=False)
    else:
        rows.to_parquet(folder / "demand.parquet", index=False)
    (folder / "pipeline.yaml").write_text(
        f"name: t\ntimezone: {zone}\ndemand: {{source: {{kind: {kind}, path: demand.{kind}{source}}}{demand}}}\n"
        "calendar: {holidays: false}\n"
    )
    result = ingest(load(folder / "pipeline.yaml"), now=NOW)
    return next((finding for finding in result.findings if finding.rule == "day_stamps"), None)


def text(form: str, zone: str = "UTC", days: pd.DatetimeIndex = DAYS) -> pd.Series[str]:
    return pd.Series([day.tz_localize(zone).tz_convert("UTC").strftime(form) for day in days], dtype="str")


def first_day(folder: Path) -> str:
    spec = load(folder / "pipeline.yaml")
    return str(Lake(spec.lake_url).read("demand", columns=["date"])["date"].to_pandas().min())


UTC_FORMS = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.000Z", "%Y-%m-%d %H:%M:%S+00:00", "%Y-%m-%dT%H:%MZ")


@pytest.mark.parametrize("zone", ["America/New_York", "America/Sao_Paulo"])
def test_utc_midnights_are_days_and_the_finding_names_the_key(tmp_path: Path, zone: str) -> None:
    finding = day_stamps(tmp_path, text(UTC_FORMS[0]), zone)
    assert finding is not None
    assert finding.severity == "stop"
    assert "found only midnights in UTC, such as 2026-11-23, which is 2026-11-22 " in finding.message
    assert "set demand.date_zone: UTC" in finding.message
    assert day_stamps(tmp_path, text(UTC_FORMS[0]), zone, ", date_zone: UTC") is None
    assert first_day(tmp_path) == "2026-08-01"


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_utc_midnights_of_a_typed_column_are_days_too(tmp_path: Path, unit: str) -> None:
    stamps = pd.Series(DAYS.tz_localize("UTC").as_unit(unit))
    finding = day_stamps(tmp_path, stamps, "America/New_York")
    assert finding is not None
    assert finding.severity == "stop"
    assert day_stamps(tmp_path, stamps, "America/New_York", ", date_zone: UTC") is None
    assert first_day(tmp_path) == "2026-08-01"


@pytest.mark.parametrize("typed", [True, False])
def test_midnights_of_another_zone_are_days_of_that_zone(tmp_path: Path, typed: bool) -> None:
    stamps: Any = text("%Y-%m-%dT%H:%M:%SZ", "Europe/Berlin")
    if typed:
        stamps = pd.Series(DAYS.tz_localize("Europe/Berlin").tz_convert("UTC"))
    finding = day_stamps(tmp_path, stamps, "America/New_York")
    assert finding is not None
    assert "set demand.date_zone: Europe/Berlin" in finding.message
    assert day_stamps(tmp_path, stamps, "America/New_York", ", date_zone: Europe/Berlin") is None
    assert first_day(tmp_path) == "2026-08-01"


def test_written_midnights_with_an_offset_are_days(tmp_path: Path) -> None:
    stamps = pd.Series([day.tz_localize("Europe/Berlin").isoformat() for day in DAYS], dtype="str")
    finding = day_stamps(tmp_path, stamps, "America/New_York")
    assert finding is not None
    assert "demand.date_zone: Europe/Berlin" in finding.message


@pytest.mark.parametrize(
    ("stamps", "zone"),
    [
        (text("%Y-%m-%dT%H:%M:%SZ"), "Europe/Berlin"),  # the day is the same
        (text("%Y-%m-%dT%H:%M:%SZ"), "Asia/Tokyo"),
        (text("%Y-%m-%dT%H:%M:%SZ"), "UTC"),
        (text("%Y-%m-%dT%H:%M:%SZ", "America/New_York"), "America/New_York"),  # midnights of the depot
        (text("%Y-%m-%dT%H:%M:%SZ", days=DAYS[:2]), "America/New_York"),  # too few to decide
        (text("%Y-%m-%dT12:00:00Z"), "America/New_York"),
        (text("%Y-%m-%d"), "America/New_York"),
        (text("%Y-%m-%dT%H:%M:%S"), "America/New_York"),
        (pd.Series([f"{day:%Y-%m-%d}T23:00:00-05:00" for day in DAYS], dtype="str"), "America/Chicago"),
        (pd.Series(DAYS), "America/New_York"),
        (pd.Series(pd.date_range("2026-08-01", periods=600, freq="5h", tz="UTC")), "America/New_York"),
    ],
)
def test_accepts_days_that_match_or_are_no_midnights(tmp_path: Path, stamps: Any, zone: str) -> None:
    assert day_stamps(tmp_path, stamps, zone) is None


@pytest.mark.parametrize("typed", [False, True])
def test_local_midnights_written_in_utc_without_a_zone_stop_the_batch(tmp_path: Path, typed: bool) -> None:
    stamps: Any = text("%Y-%m-%d %H:%M:%S", "Europe/Berlin")
    finding = day_stamps(tmp_path, pd.Series(pd.to_datetime(stamps)) if typed else stamps, "Europe/Berlin")
    assert finding is not None
    assert finding.severity == "stop"
    assert "midnights in Europe/Berlin if they are in UTC, as 2026-11-22 23:00 is of 2026-11-23" in finding.message
    assert "write them with their zone, as in 2026-11-22T23:00:00Z" in finding.message
    assert day_stamps(tmp_path, text("%Y-%m-%dT%H:%M:%SZ", "Europe/Berlin"), "Europe/Berlin") is None
    assert first_day(tmp_path) == "2026-08-01"


@pytest.mark.parametrize(
    ("form", "zone", "written_in"),
    [
        ("unix", "America/New_York", "UTC"),
        ("unix_ms", "America/New_York", "UTC"),
        ("%d.%m.%Y %H:%M", "Europe/Berlin", "Europe/Berlin"),
    ],
)
def test_midnights_in_a_declared_form_are_days_too(tmp_path: Path, form: str, zone: str, written_in: str) -> None:
    instants = [day.tz_localize(written_in).tz_convert("UTC") for day in DAYS]
    seconds = {"unix": 1, "unix_ms": 1000}.get(form)
    stamps = [str(int(at.timestamp()) * seconds) if seconds else at.strftime(form) for at in instants]
    source = f', date_format: "{form}"'
    finding = day_stamps(tmp_path, pd.Series(stamps, dtype="str"), zone, source=source)
    assert finding is not None
    assert finding.severity == "stop"
    at_noon = [str(int(at.timestamp() + 43_200) * seconds) if seconds else at.strftime(form) for at in instants]
    assert day_stamps(tmp_path / "other", pd.Series(at_noon, dtype="str"), "UTC", source=source) is None


def test_days_in_a_declared_form_are_not_midnights(tmp_path: Path) -> None:
    stamps = pd.Series([f"{day:%d.%m.%Y}" for day in DAYS])
    assert day_stamps(tmp_path, stamps, "America/New_York", source=', date_format: "%d.%m.%Y"') is None


def test_one_time_without_a_zone_may_be_the_time_of_counting(tmp_path: Path) -> None:
    finding = day_stamps(tmp_path, text("%Y-%m-%d %H:%M:%S", "Asia/Tokyo"), "Asia/Tokyo")
    assert finding is not None
    assert finding.severity == "warn"
    assert day_stamps(tmp_path / "west", text("%Y-%m-%d %H:%M", "America/New_York"), "America/New_York") is None
    assert (
        day_stamps(tmp_path / "at_six", pd.Series([f"{day:%Y-%m-%d} 18:00" for day in DAYS]), "Europe/Berlin") is None
    )


def test_declared_zone_decides_about_one_time_without_a_zone(tmp_path: Path) -> None:
    closing = text("%Y-%m-%d %H:%M", "Asia/Kolkata")
    finding = day_stamps(tmp_path, closing, "Asia/Kolkata")
    assert finding is not None
    assert finding.severity == "warn"
    assert day_stamps(tmp_path / "said", closing, "Asia/Kolkata", ", date_zone: Asia/Kolkata") is None


def test_plain_days_do_not_hide_utc_midnights(tmp_path: Path) -> None:
    stamps = pd.Series([*text("%Y-%m-%dT%H:%M:%SZ", days=DAYS[:60]), *[f"{day:%Y-%m-%d}" for day in DAYS[60:]]])
    finding = day_stamps(tmp_path, stamps, "America/New_York")
    assert finding is not None
    assert "found only midnights in UTC" in finding.message
    assert day_stamps(tmp_path / "days", pd.Series([f"{day:%Y-%m-%d}" for day in DAYS]), "America/New_York") is None


def test_one_local_time_may_be_the_closing_time(tmp_path: Path) -> None:
    closing = pd.Series([day.replace(hour=23).tz_localize("America/Chicago") for day in DAYS]).dt.tz_convert("UTC")
    finding = day_stamps(tmp_path, closing, "America/Chicago")
    assert finding is not None
    assert finding.severity == "warn"


def test_one_utc_time_may_be_the_time_of_counting(tmp_path: Path) -> None:
    finding = day_stamps(tmp_path, text("%Y-%m-%dT%H:%M:%SZ", "Asia/Kolkata"), "America/New_York")
    assert finding is not None
    assert finding.severity == "warn"
    assert "demand.date_zone: Asia/Kolkata" in finding.message


def test_rejects_an_unknown_zone_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown time zone 'Europe/Berlim'"):
        day_stamps(tmp_path, text("%Y-%m-%d"), "UTC", ", date_zone: Europe/Berlim")


@pytest.mark.parametrize(
    ("stamps", "zone", "other"),
    [
        *((text(form), zone, "UTC") for form in UTC_FORMS for zone in ("America/New_York", "America/Los_Angeles")),
        (text("%Y-%m-%dT%H:%M:%SZ"), "Europe/Berlin", None),
        (text("%Y-%m-%dT05:30:00Z"), "America/New_York", None),
        (text("%Y-%m-%d"), "America/New_York", None),
        (pd.Series(DAYS.tz_localize("UTC")), "America/New_York", "UTC"),
        (pd.Series(DAYS[:2].tz_localize("UTC")), "America/New_York", None),
    ],
)
def test_finds_the_zone_in_which_instants_are_days(stamps: Any, zone: str, other: str | None) -> None:
    assert zone_of_days(stamps, ZoneInfo(zone)) == other
