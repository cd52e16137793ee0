"""The leaderboard with rosters, on a small feed, as the command prints it."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from forecaster import cli
from forecaster.errors import SpecError
from forecaster.spec import load
from forecaster.stages.ingest import ingest
from tests.panels import quickly
from tests.stages.test_past import TONIGHT, days, write

SMALL = """
name: t
horizon: 7
demand: {source: {kind: csv, path: demand.csv}, recorded: next_day}
calendar: {holidays: false}
model: {layers: 1, hidden: 8, quantiles: [0.1, 0.3, 0.5, 0.7, 0.9]}
training: {epochs: 2, members: 1, batch_depots: 4}
backtest: {days: 7}
"""
COSTS = "staffing: {orders_per_driver: 10, cost_short: 30, cost_idle: 10}\n"


def pipeline(folder: Path, more: str) -> Path:
    random = np.random.default_rng(0)
    told = days(date(2023, 10, 2))[:-1]
    rows = [f"{depot},{day},{random.poisson(40 + 10 * (day.weekday() == 5))}" for day in told for depot in "AB"]
    write(folder, "demand", "depot_id,date,demand", *rows)
    (folder / "pipeline.yaml").write_text(SMALL + more, "utf-8")
    return folder / "pipeline.yaml"


def test_the_command_tells_what_rosters_would_have_cost(tmp_path: Path) -> None:
    file = pipeline(tmp_path, COSTS)
    ingest(load(file), now=TONIGHT)
    asked = ["backtest", str(file), "--as-of", "2024-03-11T06:00:00+00:00", "--staffing", "--days", "14"]
    with quickly():
        plain = CliRunner().invoke(cli.app, asked, catch_exceptions=False)
        as_json = CliRunner().invoke(cli.app, [*asked, "--json"], catch_exceptions=False)
    assert plain.exit_code == 0
    lines = plain.stdout.splitlines()
    at = lines.index("What rosters would have cost, 2024-02-25 to 2024-03-09")
    assert {line.split("  ")[0] for line in lines[at + 2 : at + 6]} == {
        "ours",
        "median plus buffer",
        "same as last week",
        "perfect foresight",
    }
    assert lines[-1].startswith("Buffers, chosen on the days before: ")
    told = json.loads(as_json.stdout)["staffing"]
    assert len(told["buffers"]) == 2  # one for each of two weeks
    assert {bill["days"] for bill in told["bills"]} == {2 * 14}
    assert {bill["roster"]: bill["cost"] for bill in told["bills"]}["perfect foresight"] == 0


def test_rosters_without_declared_costs_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    file = pipeline(tmp_path, "")
    with pytest.raises(SpecError, match="backtest --staffing: found no section staffing in the pipeline file"):
        CliRunner().invoke(cli.app, ["backtest", str(file), "--staffing"], catch_exceptions=False)
