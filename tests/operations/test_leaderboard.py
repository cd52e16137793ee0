"""The leaderboard on a small feed: its table of rosters, and the training that it needs."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from forecaster.cli import app
from forecaster.config import load
from forecaster.core.forecast import Candidate
from forecaster.core.panel import Panel
from forecaster.core.progress import NightProgress
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.errors import SpecError
from forecaster.model.export import serialization
from forecaster.model.fitting import train
from forecaster.operations import leaderboard
from forecaster.training import fit_candidate
from forecaster.training import train as train_process
from tests.demand.history.test_past_panels import TONIGHT, days, write
from tests.panels import quickly

SMALL = """
name: t
horizon: 7
demand: {source: {kind: csv, path: demand.csv}, recorded: next_day}
calendar: {holidays: false}
model: {layers: 1, hidden: 8, quantiles: [0.1, 0.3, 0.5, 0.7, 0.9], boosted: false}
training: {epochs: 2, members: 1, batch_depots: 4}
backtest: {days: 7}
"""
COSTS = "staffing: {orders_per_driver: 10, cost_short: 30, cost_idle: 10}\n"


def pipeline(folder: Path, more: str) -> Path:
    random = np.random.default_rng(0)
    dates = days(date(2023, 10, 2))[:-1]
    rows = [f"{depot},{day},{random.poisson(40 + 10 * (day.weekday() == 5))}" for day in dates for depot in "AB"]
    write(folder, "demand", "depot_id,date,demand", *rows)
    (folder / "pipeline.yaml").write_text(SMALL + more, "utf-8")
    return folder / "pipeline.yaml"


def test_backtest_command_prints_roster_costs(tmp_path: Path) -> None:
    file = pipeline(tmp_path, COSTS)
    ingest(load(file), now=TONIGHT)
    arguments = ["backtest", str(file), "--as-of", "2024-03-11T06:00:00+00:00", "--staffing", "--days", "14"]
    with quickly():
        plain = CliRunner().invoke(app.app, arguments, catch_exceptions=False)
        as_json = CliRunner().invoke(app.app, [*arguments, "--json"], catch_exceptions=False)
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
    report = json.loads(as_json.stdout)["staffing"]
    assert len(report["buffers"]) == 2  # one for each of two weeks
    assert {bill["days"] for bill in report["bills"]} == {2 * 14}
    assert {bill["roster"]: bill["cost"] for bill in report["bills"]}["perfect foresight"] == 0


def test_rejects_staffing_without_costs_before_training(tmp_path: Path) -> None:
    file = pipeline(tmp_path, "")
    with pytest.raises(SpecError, match="backtest --staffing: found no section staffing in the pipeline file"):
        CliRunner().invoke(app.app, ["backtest", str(file), "--staffing"], catch_exceptions=False)


def test_leaderboard_retrains_locally_without_touching_the_nightly_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pipeline(tmp_path, "")
    hosts = "batch_depots: 4, hosts: {coordinator: nowhere.invalid:8476, count: 2}"
    file.write_text(file.read_text("utf-8").replace("batch_depots: 4", hosts), "utf-8")
    spec = load(file)
    ingest(spec, now=TONIGHT)
    night = spec.paths.checkpoints / f"{train_process.TRAINED}of-another-panel.npz"
    night.parent.mkdir(parents=True)
    night.touch()
    days_of = {"backtest": spec.backtest.model_copy(update={"days": 14, "retrain_days": 7})}
    trained: list[date] = []
    real = train.fit

    def counted(panel: Panel, *args: object, **more: Any) -> Candidate:
        trained.append(panel.cutoff)
        return real(panel, *args, **more)

    monkeypatch.setattr(train, "fit", counted)
    with quickly():
        ranking = leaderboard.board(spec.model_copy(update=days_of), as_of=TONIGHT, progress=NightProgress({}))
    assert {"candidate", "retrained", "seasonal_naive"} <= {scores.model for scores in ranking.scores}
    assert trained == [date(2024, 2, 24), date(2024, 3, 2)]
    first, again = ({s.model: s for s in ranking.scores}[name].folds for name in ("candidate", "retrained"))
    assert np.array_equal(first[0].forecast.quantiles, again[0].forecast.quantiles)  # until a week has passed
    assert not np.array_equal(first[1].forecast.quantiles, again[1].forecast.quantiles)
    assert sorted(path.name for path in night.parent.iterdir()) == [night.name]


def test_leaderboard_reuses_the_nightly_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pipeline(tmp_path, "")
    spec = load(file)
    ingest(spec, now=TONIGHT)
    knowledge = read_as_of(spec, as_of=TONIGHT)
    panel = panels.build(knowledge, spec)
    panel_at, before = Past(knowledge, panel, spec), date(2024, 3, 2)

    def here(*_: object) -> bytes:  # in this process, since compiling in a child takes half a minute
        return serialization.to_bytes(fit_candidate.train_uncalibrated(panel_at(before), spec))

    monkeypatch.setattr(train_process, "_run_child", here)
    messages = []
    monkeypatch.setattr(NightProgress, "advance", lambda _, share, what: messages.append(what))
    with quickly():
        train_process.fit_in_child_process(panel, spec, file, panel_at=panel_at)
        ranking = leaderboard.board(spec, as_of=TONIGHT, progress=NightProgress({}))
    assert "candidate" in {scores.model for scores in ranking.scores}
    assert [what for what in messages if what.startswith("epoch")] == []
    assert not (spec.paths.folder / "backtest").exists()
