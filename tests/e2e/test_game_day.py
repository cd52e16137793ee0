"""A small part of the game days: a real page, Prometheus, Alertmanager and webhook, and their
alerts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from forecaster.config import load
from forecaster.ledger.store import Ledger
from tests.benchmarks.game_day import pages
from tests.benchmarks.game_day.__main__ import judged, table
from tests.benchmarks.game_day.installation import zone
from tests.benchmarks.game_day.patience import divided
from tests.benchmarks.game_day.results import Result
from tests.benchmarks.game_day.scenarios import SCENARIOS
from tests.benchmarks.game_day.stage import Stage, staged
from tests.dashboards.seed import publication
from tests.e2e.on_call import FILES, PROGRAMS
from tests.flows.tiny import PIPELINE

QUICK = 100  # divisor of durations: a quarter of an hour becomes nine seconds
ALERTS = {
    rule["alert"].removeprefix("Forecaster")
    for group in yaml.safe_load((FILES / "forecaster.rules.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Pipeline whose nightly run has just published, with no process running."""
    if absent := [program for program in PROGRAMS if shutil.which(program) is None]:
        pytest.skip(f"{', '.join(absent)} not installed: apt-get install prometheus prometheus-alertmanager faketime")
    (tmp_path / "fleet").mkdir()
    file = tmp_path / "fleet" / "pipeline.yaml"
    schedule = "schedule: {cron: '0 9 * * *', deadline: '10:00'}"
    file.write_text(f"{PIPELINE}timezone: {zone()}\n{schedule}\n", "utf-8")
    now = datetime.now(UTC)
    night = publication(pipeline="tiny", as_of=now, published_at=now)
    with Ledger.open(load(file).ledger_url) as ledger:
        ledger.start_run(night.run_id, pipeline="tiny", as_of=now, spec_digest="5pec")
        ledger.publish(night)
        ledger.finish_run(night.run_id, "published", 0, None)
    with staged(file, tmp_path, QUICK) as made:
        yield made


@pytest.mark.parametrize(
    ("play", "alerts"),
    [(pages.killed, {"ForecasterSilent"}), (pages.ledger_away, {"ForecasterSilent"}), (pages.alarm_killed, set())],
)
@pytest.mark.long
def test_on_call_gets_exactly_the_expected_alerts(
    stage: Stage, play: Callable[[Stage], None], alerts: set[str]
) -> None:
    play(stage)
    assert stage.heard() - {"ForecasterPageBurns"} == alerts  # its errors depend on the load of the machine
    assert stage.answers(), "the forecast is out again"


def test_scenarios_name_existing_alerts_and_templates() -> None:
    for scenario in SCENARIOS.values():
        assert {*scenario.must, *scenario.held_back, *scenario.may} <= ALERTS, scenario.name
        assert scenario.template in ("done", "due", "old")
    assert len({scenario.play for scenario in SCENARIOS.values()}) == len(SCENARIOS)


def test_only_durations_are_divided() -> None:
    rules = "  for: 15m\n  interval: 1m\n  expr: rate(x[1h]) > 26 * 3600 and y[3d] > 5\n"
    divided_rules = "  for: 15s\n  interval: 1s\n  expr: rate(x[60s]) > 26 * 3600 and y[4320s] > 5\n"
    assert divided(60)(rules) == divided_rules
    routes = "group_wait: 0s, group_interval: 1m, repeat_interval: 12h"
    assert divided(120)(routes) == "group_wait: 0s, group_interval: 1s, repeat_interval: 360s"


def test_missing_and_unexpected_alerts_are_faults() -> None:
    missed = SCENARIOS["two nights missed, nothing runs"]
    well = {"NightMissing"}
    assert judged(missed, well, {*well, "ForecastStale"}, is_out=True) == []
    assert judged(missed, set(), set(), is_out=False) == [
        "NightMissing did not come",
        "ForecastStale did not fire",
        "no forecast is out",
    ]
    assert judged(missed, {*well, "ForecastStale", "Silent"}, {*well, "ForecastStale"}, is_out=True) == [
        "ForecastStale came",
        "Silent came",
    ]


def test_table_counts_the_last_result_of_each_scenario() -> None:
    about = {"held back": [], "is out": True, "seconds": 3, "seen": {}}
    name = next(iter(SCENARIOS))
    rows = table([Result(name, 0, 0, faults, "none", about) for faults in (["a fault"], [])])
    assert [row for row in rows if row.startswith(f"| {name}")] == [rows[2]]
    assert rows[-1] == f"1 of {len(SCENARIOS)} scenarios passed."
