"""A minimal pipeline whose whole run takes seconds: four depots, 130 days, a model of one narrow
layer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from tests import prefect_home, shared

ROOT = Path(__file__).resolve().parents[2]

FIRST, DAYS, DEPOTS = date(2026, 1, 1), 130, 4
WEEK = (1.0, 1.1, 1.2, 1.1, 1.4, 1.8, 0.7)
LAST = FIRST + timedelta(days=DAYS - 1)
NIGHT = datetime(LAST.year, LAST.month, LAST.day, 3, 15, tzinfo=UTC) + timedelta(days=1)
PIPELINE = """
name: tiny
demand: {source: {kind: csv, path: demand.csv}, recorded: next_day}
calendar: {holidays: false}
model: {layers: 1, hidden: 4, quantiles: [0.1, 0.5, 0.9], boosted: false}
training: {epochs: 3, members: 1, batch_depots: 8, learning_rate: 0.01}
backtest: {days: 7}
gate: {beat: [], coverage: [0.0, 1.0], max_bias: 9.0}
staffing: {orders_per_driver: 20, cost_short: 38, cost_idle: 22}
"""


def pipeline(folder: Path, more: str = "", *, days: int = DAYS) -> Path:
    """Write a pipeline file with its source into a folder; `more` are additional lines."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"D{depot},{FIRST + timedelta(day)},{round(30 * (1 + depot) * WEEK[day % 7]) + (day * 7 + depot) % 5}"
        for day in range(days)
        for depot in range(DEPOTS)
    ]
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows]) + "\n", "utf-8")
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE + more, "utf-8")
    return file


def pipeline_for_prefect(folder: Path, more: str = "") -> Path:
    """Return a pipeline before its first run, with a prepared Prefect database."""
    prefect_home.put_into(folder / "var")
    return pipeline(folder, more)


def after_a_night(folder: Path) -> Path:
    """Return the pipeline file of an installation after one run, with a champion: a copy of the
    session's."""
    shutil.copytree(_installation("run", 0), folder, dirs_exist_ok=True)
    return folder / "pipeline.yaml"


def pipeline_that_knows_its_model(folder: Path, more: str = "") -> Path:
    """Return a pipeline before its first run, with cached training and export from a run of the
    same days; for tests of the other steps."""
    file = pipeline_for_prefect(folder, more)
    for name in ("checkpoints", "graphs"):
        shutil.copytree(_installation("run", 0) / "var" / name, folder / "var" / name)
    return file


def pipeline_with_readings(folder: Path, more: str = "") -> Path:
    """Return a pipeline with readings in its lake, but without a model."""
    file = pipeline(folder, more)
    shutil.copytree(_installation("predict-only", 3) / "var", folder / "var")
    return file


def _installation(command: str, code: int) -> Path:
    """Run a command on a pipeline once per session, checking its exit code; returns the folder."""
    with shared.locked(command) as once:
        if not (once / "made").exists():
            words = [command, "--plain", str(pipeline_for_prefect(once / "fleet")), "--as-of", NIGHT.isoformat()]
            process = subprocess.run(
                [sys.executable, "-m", "forecaster", *words],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
            )
            assert process.returncode == code, process.stderr
            (once / "made").touch()
    return once / "fleet"
