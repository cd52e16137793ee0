"""Drift is computed run by run from the archive, stored in the ledger, and reported in the run's
outcome."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from flows import lines, steps
from flows.night import Night
from flows.outcome.night_facts import measured_drift
from forecaster.config import Spec, load
from forecaster.core.panel import Panel
from forecaster.evaluation import drift as tests_of_drift
from forecaster.lake import TABLES, Lake
from forecaster.ledger import drift, tables
from forecaster.ledger.store import Ledger
from forecaster.monitoring import exposition
from forecaster.publishing import track_drift as tracking
from forecaster.publishing.track_drift import track_drift
from forecaster.reports import run_notes
from tests.dashboards.visitor import text, visitor
from tests.panels import FIRST, bare
from tests.staffing.test_rosters import spec_of

LEVELS = [0.1, 0.3, 0.5, 0.7, 0.9]
SPREAD = np.array([-1.2816, -0.5244, 0.0, 0.5244, 1.2816]) * 0.08
DEPOTS, DAYS = 12, 150
START: date = FIRST.astype(object)
NEVER_BEFORE = {"above": 1, "below": 0, "too_narrow": 0, "too_wide": 0}


def counts(seed: int = 0, depots: int = DEPOTS, days: int = DAYS) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.rint(200 * np.exp(0.08 * random.normal(size=(depots, days)))).astype(np.float32)


def panel_of(demand: np.ndarray) -> Panel:
    depots = len(demand)
    cities = tuple("Bonn" if number % 2 else "Ulm" for number in range(depots))
    return replace(bare(demand), depot_ids=tuple(f"D{n}" for n in range(depots)), attributes={"city": cities})


def archive(spec: Spec, days: range, depots: int = DEPOTS, horizon: int = 1, first: date = START) -> None:
    """Archive nights that forecast 200 for every depot and day, each with a run."""
    table, runs = [], []
    for number in days:
        morning = first + timedelta(days=number)
        as_of = datetime.combine(morning, datetime.min.time(), UTC) + timedelta(hours=3)
        run_id = f"night-{number}"
        runs.append(
            {
                "run_id": run_id,
                "pipeline": spec.name,
                "started_at": as_of,
                "finished_at": as_of,
                "as_of": as_of,
                "spec_digest": spec.digest,
                "lake_versions": {},
                "outcome": "published",
                "exit_code": 0,
                "findings": [],
                "timings": {},
            }
        )
        table += [
            {
                "run_id": run_id,
                "recorded_at": as_of,
                "bundle": None,
                "tier": "champion",
                "depot_id": f"D{depot}",
                "cutoff": morning - timedelta(days=1),
                "target_date": morning + timedelta(days=ahead - 1),
                "horizon": ahead,
                "levels": LEVELS,
                "quantiles": (200 * np.exp(SPREAD)).tolist(),
            }
            for depot in range(depots)
            for ahead in range(1, horizon + 1)
        ]
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        connection.execute(tables.runs.insert(), runs)
    Lake(spec.lake_url).append("forecasts", pa.Table.from_pylist(table, schema=TABLES["forecasts"]))


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    made = spec_of(tmp_path, "")
    with Ledger.open(made.ledger_url) as ledger:
        ledger.start_run("tonight", pipeline=made.name, as_of=datetime.now(UTC), spec_digest=made.digest)
    return made


@pytest.fixture(autouse=True)
def _all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "MOST_WEEKS", 60)


def drifts(spec: Spec) -> list[drift.Drift]:
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        return list(drift.drifts(connection, spec.name))


def measures(spec: Spec, run_id: str = "tonight") -> Mapping[str, object]:
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        row = connection.execute(tables.runs.select().where(tables.runs.c.run_id == run_id)).mappings().one()
        return dict(row["measures"] or {})


def test_empty_archive_reports_no_drift(spec: Spec) -> None:
    assert track_drift(spec, panel_of(counts()), "tonight") is None
    assert drifts(spec) == []
    assert not {"depots_drifted", "depots_drift_tested"} & measures(spec).keys()


def test_renamed_depot_is_compared_with_its_own_past(spec: Spec) -> None:
    """Days scored earlier have its former id, and so has the archive of those scored now."""
    demand = counts()
    demand[3, -20:] *= 1.5
    archive(spec, range(DAYS))
    track_drift(spec, panel_of(demand[:, :-5]), "tonight")
    row = {"alias": "D3", "depot_id": "New", "retracted": False, "recorded_at": datetime(2023, 1, 1, tzinfo=UTC)}
    Lake(spec.lake_url).append("aliases", pa.Table.from_pylist([row], schema=TABLES["aliases"]))
    panel = panel_of(demand)
    track_drift(spec, replace(panel, depot_ids=("D0", "D1", "D2", "New", *panel.depot_ids[4:])), "tonight")
    assert measures(spec)["depots_drift_tested"] == DEPOTS
    assert [drifted.label for drifted in drifts(spec) if drifted.part == drift.DEPOT] == ["New"]


def test_accurate_forecasts_show_no_drift_and_count_the_tested_depots(spec: Spec) -> None:
    archive(spec, range(DAYS))
    assert track_drift(spec, panel_of(counts()), "tonight") is None
    assert drifts(spec) == []
    assert measures(spec)["depots_drift_tested"] == DEPOTS
    assert measures(spec)["depots_drifted"] == NEVER_BEFORE | {"above": 0}


def test_level_drift_of_a_depot_keeps_its_beginning_in_later_runs(spec: Spec) -> None:
    archive(spec, range(DAYS))
    demand = counts()
    demand[3, -14:] = np.rint(demand[3, -14:] * 1.3)
    early = panel_of(demand[:, : DAYS - 2])
    assert track_drift(spec, early, "tonight") is not None
    [first] = [row for row in drifts(spec) if row.part == drift.DEPOT]
    assert (first.label, first.kind, first.direction) == ("D3", drift.LEVEL, 1)
    assert abs((first.since - (START + timedelta(days=DAYS - 14))).days) <= 1
    assert first.value == pytest.approx(1.3, abs=0.06)
    assert measures(spec)["depots_drifted"] == NEVER_BEFORE
    sentence = track_drift(spec, panel_of(demand), "tonight")
    [second] = [row for row in drifts(spec) if row.part == drift.DEPOT]
    assert (second.since, second.days) == (first.since, first.days + 2)
    assert sentence is not None
    assert sentence.startswith("drift, shown on /health: ")
    assert f"1 depot (D3 +{100 * (second.value - 1):.0f} % for {second.days} days)" in sentence


def test_network_wide_drift_is_not_attributed_to_depots(spec: Spec) -> None:
    archive(spec, range(DAYS))
    demand = counts()
    demand[:, -14:] = np.rint(demand[:, -14:] * 0.8)
    assert track_drift(spec, panel_of(demand), "tonight") is not None
    found = {(row.part, row.label): row.direction for row in drifts(spec)}
    assert found == {(drift.ALL, ""): -1, (drift.CITY, "Bonn"): -1, (drift.CITY, "Ulm"): -1}
    assert measures(spec)["network_drifted"] == {"above": 0, "below": 1, "too_narrow": 0, "too_wide": 0}


def test_run_scores_new_days_and_those_that_late_counts_may_change(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(spec, range(DAYS))
    track_drift(spec, panel_of(counts()[:, : DAYS - 1]), "tonight")
    asked: list[date] = []
    score = tracking._score

    def noted(panel: Panel, lake: Lake, due: list[date], former: Mapping[str, str]) -> object:
        asked.extend(due)
        return score(panel, lake, due, former)

    monkeypatch.setattr(tracking, "_score", noted)
    track_drift(spec, panel_of(counts()), "tonight")
    last = START + timedelta(days=DAYS - 1)
    assert asked == [last - timedelta(days=back) for back in reversed(range(14))]
    asked.clear()
    track_drift(spec, panel_of(counts()[:, : DAYS - 5]), "tonight")  # a past date run again
    assert asked == []


def test_newest_forecast_counts_and_closed_or_unknown_days_are_skipped(spec: Spec) -> None:
    archive(spec, range(DAYS), horizon=3)
    demand = counts()
    demand[0, -1] = np.nan
    panel = panel_of(demand)
    closed = panel.open.copy()
    closed[1, DAYS - 1] = False
    track_drift(spec, replace(panel, open=closed), "tonight")
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        newest = drift.scored_days(connection, spec.name, START + timedelta(days=DAYS - 1))
    assert sorted(newest[0].depots, key=lambda name: int(name[1:])) == [f"D{number}" for number in range(2, DEPOTS)]
    assert newest[0].median == [200.0] * (DEPOTS - 2)


def test_unknown_days_and_a_constant_covariate_are_reported(spec: Spec) -> None:
    random = np.random.default_rng(2)
    demand = counts(days=450)
    demand[:4, -20:] = np.nan
    whole = panel_of(demand)
    rain = random.random((DEPOTS, len(whole.days), 1)).astype(np.float32)
    rain[:, -40:] = 0.25
    encoding = replace(whole.encoding, covariates=("rain",))
    sentence = track_drift(spec, replace(whole, covariates=rain, encoding=encoding), "tonight")
    found = {(row.part, row.label, row.kind): row for row in drifts(spec)}
    assert found[drift.ALL, "", drift.UNKNOWN].value == pytest.approx(4 * 20 / (DEPOTS * 28), abs=0.01)
    assert found[drift.ALL, "", drift.UNKNOWN].usual == 0
    assert found[drift.COVARIATE, "rain", drift.INPUT].direction == 0
    assert measures(spec)["covariates_drifted"] == 1
    assert measures(spec)["days_lacking"] == {"unknown": pytest.approx(0.238, abs=0.001), "closed": 0.0}
    assert sentence is not None
    assert "24 % of days unknown, 0 % in the year before" in sentence
    assert "covariate rain at a standstill" in sentence


def test_number_of_kept_days_is_bounded(spec: Spec) -> None:
    archive(spec, range(DAYS + 60))
    track_drift(spec, panel_of(counts()), "tonight")
    track_drift(spec, panel_of(counts(days=DAYS + 60)), "tonight")
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        days = drift.scored_days(connection, spec.name, START)
    assert len(days) == tests_of_drift.DAYS


def test_run_reports_a_planted_drift_on_page_in_outcome_and_metrics(tmp_path: Path) -> None:
    demand = counts()
    demand[3, -14:] = np.rint(demand[3, -14:] * 1.3)
    lines_of_csv = [
        f"D{depot},{START + timedelta(days=day)},{demand[depot, day]:.0f}"
        for day in range(DAYS)
        for depot in range(DEPOTS)
    ]
    (tmp_path / "demand.csv").write_text("\n".join(["depot_id,date,demand", *lines_of_csv]) + "\n", "utf-8")
    before = spec_of(tmp_path, "")
    archive(before, range(DAYS))
    with Ledger.open(before.ledger_url) as ledger:
        ledger.start_run("the night before", pipeline="t", as_of=datetime.now(UTC), spec_digest="5pec")
        ledger.finish_run("the night before", "published", 0)
    track_drift(before, panel_of(demand[:, : DAYS - 12]), "the night before")
    file = tmp_path / "pipeline.yaml"
    at = datetime.combine(START + timedelta(days=DAYS), datetime.min.time(), UTC) + timedelta(hours=3)
    night = Night.begin(str(file), at)
    night.run(lambda: lines.predict_only(night, steps))
    spec = load(file)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        message = next(iter(ledger.runs())).message or ""
    assert "drift, shown on /health: 1 depot (D3 +2" in message, message
    told = exposition.text(spec)
    assert 'forecaster_depots_drifted{direction="above",pipeline="t"} 1.0' in told
    assert 'forecaster_depots_drift_tested{pipeline="t"} 12.0' in told
    assert measured_drift(night) is None  # repeated, it reports the same as before
    night.as_of = at + timedelta(days=1)
    card = run_notes.card(None, panel_of(demand), measured_drift(night))
    assert f"measured on {at.date()}" in card
    assert "| depots | 1 (1 above) | 5% of 12 tested |" in card
    get = visitor(spec.ledger_url, at)
    page = get("/health")
    assert "Drift" in text(page)
    assert '<a href="/depot/D3">D3</a>' in page.text
    assert re.search(r"D3 Actuals are 2\d\s?% above the forecast for 1[345] days\.", text(page))
    assert "above the forecast for 1" in text(get("/depot/D3"))
    assert "the forecast for" not in text(get("/depot/D2"))
