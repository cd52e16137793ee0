"""Earlier forecasts are compared with actuals, next to the seasonal naive on the same days."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from forecaster.config import load
from forecaster.config.operations import Schedule
from forecaster.core.knowledge import Finding
from forecaster.core.panel import Panel
from forecaster.demand.validation import external_forecasts
from forecaster.lake import TABLES, Lake
from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import ALL, DEPOT, FORECAST, HORIZON, LEGACY, NAIVE, TIER, WEEKDAY, Tally, combined
from forecaster.ledger.store import Ledger
from forecaster.publishing.track_accuracy import tally_weeks, track_accuracy
from tests.panels import bare

MONDAY = date(2024, 1, 15)
LEVELS = [0.1, 0.5, 0.9]
Row = tuple[str, str, date, int, float]  # run, depot, cutoff, days ahead, median


def archive(
    lake: Lake, *rows: Row, at: datetime = datetime(2024, 2, 1, tzinfo=UTC), width: float = 2.0, tier: str = "fresh"
) -> None:
    """Archive forecasts with a range of ± `width`."""
    forecasts = [
        {
            "run_id": run,
            "recorded_at": at,
            "bundle": None,
            "tier": tier,
            "depot_id": depot,
            "cutoff": cutoff,
            "target_date": date.fromordinal(cutoff.toordinal() + ahead),
            "horizon": ahead,
            "levels": LEVELS,
            "quantiles": [median - width, median, median + width],
        }
        for run, depot, cutoff, ahead, median in rows
    ]
    lake.append("forecasts", pa.Table.from_pylist(forecasts, schema=TABLES["forecasts"]))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


@pytest.fixture
def panel() -> Panel:
    """Depots A, B from Monday 1 January 2024 on, with 21 known days: 100 a day at A, 10 at B, in
    the last week 110 at A."""
    demand = np.tile(np.array([[100.0], [10.0]], np.float32), (1, 21))
    demand[0, 14:] = 110.0
    return replace(bare(demand), depot_ids=("A", "B"), attributes={"city": ("Town", "Port")})


def tallied(panel: Panel, lake: Lake, *weeks: date) -> dict[tuple[str, str, str], Tally]:
    return {(tally.model, tally.part, tally.label): tally for tally in tally_weeks(panel, lake, weeks or (MONDAY,))}


def test_accuracy_is_tallied_by_tier(panel: Panel, lake: Lake) -> None:
    cutoff = date(2024, 1, 14)
    archive(lake, ("n1", "A", cutoff, 1, 111.0), ("n1", "B", cutoff, 1, 9.0))
    archive(lake, ("n2", "A", cutoff, 2, 150.0), tier="fallback")
    tallies = tallied(panel, lake)
    assert tallies[FORECAST, ALL, ""].absolute == 42.0
    assert tallies[FORECAST, TIER, "fresh"] == Tally(MONDAY, FORECAST, TIER, "fresh", 2, 120.0, 0.0, 2.0, 2)
    assert tallies[FORECAST, TIER, "fallback"] == Tally(MONDAY, FORECAST, TIER, "fallback", 1, 110.0, 40.0, 40.0, 0)
    assert (FORECAST, TIER, "champion") not in tallies


def test_signed_errors_are_summed_and_compared_with_the_naive_on_the_same_days(panel: Panel, lake: Lake) -> None:
    cutoff = date(2024, 1, 14)
    archive(lake, ("n1", "A", cutoff, 1, 111.0), ("n1", "A", cutoff, 2, 113.0), ("n1", "B", cutoff, 1, 9.0))
    tallies = tallied(panel, lake)
    assert tallies[FORECAST, ALL, ""] == Tally(MONDAY, FORECAST, ALL, "", 3, 230.0, 3.0, 5.0, 2)
    assert tallies[NAIVE, ALL, ""] == Tally(MONDAY, NAIVE, ALL, "", 3, 230.0, -20.0, 20.0, None)
    assert tallies[FORECAST, HORIZON, "02"].error == 3.0
    assert tallies[FORECAST, WEEKDAY, "Mon"].days == 2
    assert tallies[FORECAST, "city", "Port"].absolute == 1.0
    assert (FORECAST, WEEKDAY, "Sun") not in tallies


def test_forecasts_of_a_former_id_count_for_the_renamed_depot(panel: Panel, lake: Lake) -> None:
    cutoff = date(2024, 1, 14)
    archive(lake, ("n1", "Old", cutoff, 1, 111.0), ("n1", "B", cutoff, 1, 9.0), ("n2", "A", cutoff, 2, 113.0))
    tallies = {(t.model, t.part, t.label): t for t in tally_weeks(panel, lake, [MONDAY], None, {"Old": "A"})}
    assert tallies[FORECAST, ALL, ""] == Tally(MONDAY, FORECAST, ALL, "", 3, 230.0, 3.0, 5.0, 2)
    assert tallies[FORECAST, "city", "Town"].days == 2


def test_last_forecast_of_a_repeated_run_counts(panel: Panel, lake: Lake) -> None:
    cutoff = date(2024, 1, 14)
    archive(lake, ("n2", "A", cutoff, 1, 110.0), at=datetime(2024, 2, 2, tzinfo=UTC))
    archive(lake, ("n1", "A", cutoff, 1, 300.0))
    assert tallied(panel, lake)[FORECAST, ALL, ""].absolute == 0.0


def test_unknown_closed_and_future_days_are_not_compared(panel: Panel, lake: Lake) -> None:
    cutoff = date(2024, 1, 14)
    archive(lake, *(("n1", "A", cutoff, ahead, 1.0) for ahead in range(1, 8)), ("n1", "A", date(2024, 1, 21), 1, 1.0))
    archive(lake, ("n1", "gone", cutoff, 1, 1.0))
    demand, is_open = panel.demand.copy(), panel.open.copy()
    demand[0, 14], is_open[0, 15] = np.nan, False
    assert tallied(replace(panel, demand=demand, open=is_open), lake)[FORECAST, ALL, ""].days == 5


def test_depots_with_enough_days_are_listed_worst_first(panel: Panel, lake: Lake) -> None:
    cutoff = date(2024, 1, 14)
    archive(lake, *((f"n{k}", depot, cutoff, k, 12.0) for k in range(1, 8) for depot in ("A", "B")))
    archive(lake, ("n9", "B", date(2024, 1, 15), 1, 12.0))
    labels = [
        tally.label for tally in tally_weeks(panel, lake, [MONDAY]) if tally.part == DEPOT and tally.model == FORECAST
    ]
    assert labels == ["A", "B"]


def test_publication_updates_earlier_accuracy_and_a_past_date_keeps_later_weeks(
    panel: Panel, lake: Lake, tmp_path: Path
) -> None:
    spec: Any = SimpleNamespace(
        name="p", ledger_url=f"sqlite:///{tmp_path / 'ledger.db'}", lake_url=lake.url, schedule=Schedule()
    )
    archive(lake, ("n1", "A", date(2024, 1, 14), 1, 111.0), ("n0", "A", date(2024, 1, 7), 1, 90.0))

    def errors_by_week() -> list[tuple[date, float]]:
        with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
            tallies = accuracy.all_tallies(connection, "p")
        return [(tally.week, tally.absolute) for tally in tallies if (tally.model, tally.part) == (FORECAST, ALL)]

    for _ in range(2):
        track_accuracy(spec, panel)
        assert errors_by_week() == [(date(2024, 1, 8), 10.0), (MONDAY, 1.0)]
    past = replace(bare(panel.demand[:, :13]), depot_ids=("A", "B"))
    track_accuracy(spec, past)
    assert errors_by_week() == [(date(2024, 1, 8), 10.0), (MONDAY, 1.0)]


NO_ALIASES = pd.DataFrame({"alias": [], "depot_id": []}, dtype="str")


def other_system(
    tmp_path: Path, panel: Panel, text: str, columns: str = ""
) -> tuple[external_forecasts.ExternalForecasts, list[Finding]]:
    """Parse a declared file of another system for a panel."""
    (tmp_path / "old.csv").write_text(text, "utf-8")
    file, findings = tmp_path / "pipeline.yaml", list[Finding]()
    source = f"legacy: {{source: {{kind: csv, path: old.csv}}{columns}}}"
    file.write_text(f"name: p\ndemand: {{source: {{kind: csv, path: d.csv}}}}\n{source}\n", "utf-8")
    rival = external_forecasts.external_forecasts(load(file), panel, NO_ALIASES, findings)
    assert rival is not None
    return rival, findings


def test_legacy_system_is_compared_on_its_forecast_days(panel: Panel, lake: Lake, tmp_path: Path) -> None:
    cutoff = date(2024, 1, 14)
    archive(lake, ("n1", "A", cutoff, 1, 111.0), ("n1", "A", cutoff, 2, 113.0), ("n1", "B", cutoff, 1, 9.0))
    rival, findings = other_system(
        tmp_path, panel, "depot_id,date,forecast\nA,2024-01-15,100\nA,2024-01-15,104\nB,2024-01-15,13\nA,2024-02-01,1\n"
    )
    tallies = {(tally.model, tally.part, tally.label): tally for tally in tally_weeks(panel, lake, [MONDAY], rival)}
    assert tallies[LEGACY, ALL, ""] == Tally(MONDAY, LEGACY, ALL, "", 2, 120.0, -3.0, 9.0, None)
    assert tallies[FORECAST, ALL, ""].days == 3
    assert (LEGACY, HORIZON, "02") not in tallies
    assert findings == []


def test_legacy_forecasts_count_as_of_the_morning_of_ours(panel: Panel, lake: Lake, tmp_path: Path) -> None:
    archive(lake, *(("n1", "A", date(2024, 1, 16 - ahead), ahead, 110.0) for ahead in (1, 2, 3)))
    rows = "A,2024-01-16,112,2024-01-15\nA,2024-01-16,109,2024-01-16\nA,2024-01-16,110,2024-01-17\n"
    text = f"depot_id,date,forecast,said\n{rows}"
    rival, _ = other_system(tmp_path, panel, text, ", columns: {made_on: said}")
    tallies = {
        (tally.part, tally.label): tally for tally in tally_weeks(panel, lake, [MONDAY], rival) if tally.model == LEGACY
    }
    assert (tallies[HORIZON, "01"].error, tallies[HORIZON, "02"].error) == (-1.0, 2.0)
    assert (HORIZON, "03") not in tallies


def test_invalid_legacy_rows_are_reported_and_dropped(panel: Panel, tmp_path: Path) -> None:
    rival, findings = other_system(
        tmp_path, panel, "depot_id,date,forecast\nA,15.1.2024,1\nA,2024-01-15,many\nA,2024-01-15,-3\nC,2024-01-15,1\n"
    )
    assert not len(rival.key)
    assert [(finding.rule, finding.severity, finding.count, finding.message) for finding in findings] == [
        ("legacy_form", "warn", 1, "old.csv:2: column 'date': found '15.1.2024', wanted a date such as 2024-03-05; "
         "the row is left out"),
        ("legacy_form", "warn", 2, "old.csv:3: column 'forecast': found 'many', wanted a number of 0 or more; "
         "the row is left out (also old.csv:4)"),
        ("legacy_depot", "warn", 1, "old.csv:5: column 'depot_id': found 'C', wanted a depot that counts; "
         "the row is left out"),
    ]  # fmt: skip


def test_newly_declared_legacy_system_is_compared_from_the_start(panel: Panel, lake: Lake, tmp_path: Path) -> None:
    spec: Any = SimpleNamespace(
        name="p", ledger_url=f"sqlite:///{tmp_path / 'ledger.db'}", lake_url=lake.url, schedule=Schedule()
    )
    archive(lake, ("n1", "A", date(2024, 1, 14), 1, 111.0))
    track_accuracy(spec, panel)
    track_accuracy(spec, panel, other_system(tmp_path, panel, "depot_id,date,forecast\nA,2024-01-15,100\n")[0])
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        models = {tally.model for tally in accuracy.all_tallies(connection, "p")}
    assert models == {FORECAST, NAIVE, LEGACY}


def test_empty_archive_gives_no_tallies(panel: Panel, lake: Lake) -> None:
    assert list(tally_weeks(panel, lake, [MONDAY])) == []


def test_weekly_sums_are_combined_into_rates() -> None:
    first = Tally(MONDAY, FORECAST, ALL, "", 2, 100.0, -10.0, 20.0, 1)
    both = combined([first, replace(first, actual=300.0, error=30.0, covered=2)])
    assert both is not None
    assert (both.wape, both.bias, both.coverage) == (0.1, 0.05, 0.75)
    assert combined([]) is None
    assert replace(first, actual=0.0).wape is None


def test_ledger_replaces_weeks_and_keeps_half_a_year(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    old, new = date(2024, 1, 1), date(2024, 7, 1)

    def tally(week: date, part: str = ALL, error: float = 0.0) -> Tally:
        return Tally(week, FORECAST, part, "", 1, 10.0, error, abs(error), None)

    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        accuracy.replace_weeks(connection, "p", [old, new], [tally(old), tally(new), tally(new, DEPOT, 1.0)])
        accuracy.replace_weeks(connection, "other", [old], [tally(old)])
        accuracy.replace_weeks(connection, "p", [new], [tally(new, error=2.0)])
        assert accuracy.all_tallies(connection, "p") == (tally(new, error=2.0),)
        assert accuracy.newest_week(connection, "p") == new
        assert accuracy.all_tallies(connection, "other") == (tally(old),)
