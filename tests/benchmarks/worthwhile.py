"""Measure what `training.when: worthwhile` skips, and what that costs in accuracy and money, night after night.

python -m tests.benchmarks.worthwhile [--datasets bayarea_bikeshare14,muenster_bike_counters] [--nights 11]

The nights of two pipelines that differ in this key alone run one after the other on the last days of a dataset, with
`preset: quick` and one member, and without a registry. Both are the same until one first skips. Crews and costs are
made up, as in `benchmarks.staffing`.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import yaml

from flows import lines, steps
from flows.night import Night
from forecaster.config import Spec, load
from forecaster.core.forecast import Fold, Forecast
from forecaster.core.panel import Panel
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel.build import build
from forecaster.lake import Lake
from forecaster.ledger.store import Ledger
from forecaster.staffing import newsvendor
from forecaster.staffing.cost_backtest import costs_paid
from tests.benchmarks.report import ROOT, Figure, tell

ORDERS = {"bayarea_bikeshare14": 4, "muenster_bike_counters": 300}
LAST = {"bayarea_bikeshare14": date(2014, 10, 31), "muenster_bike_counters": date(2026, 8, 20)}
EVERY, WORTHWHILE = "every_night", "worthwhile"
_WORK = ("ingest", "panel", "preview", "weigh", "train", "backtest", "gate", "export", "promote", "predict")
STEPS = SimpleNamespace(
    **{name: getattr(steps, name) for name in _WORK}, record=lambda *_: None, register=lambda *_: None
)


@dataclass(frozen=True)
class Nights:
    """What came of the nights of one pipeline, on the day after each."""

    trained: int
    training_seconds: float
    wape: float
    cost: float
    messages: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(ORDERS))
    parser.add_argument("--nights", type=int, default=11)
    arguments = parser.parse_args()
    figures: list[Figure] = []
    for name in arguments.datasets.split(","):
        with tempfile.TemporaryDirectory() as folder:
            compared = replayed(name, Path(folder), arguments.nights)
        for when, nights in compared.items():
            print(f"{name}, {when}: {nights}", flush=True)
        figures += of_dataset(name, compared, arguments.nights)
    tell("worthwhile", figures)


def replayed(name: str, folder: Path, count: int) -> dict[str, Nights]:
    """The nights of both pipelines over the same days."""
    days = [LAST[name] - timedelta(days=back) for back in range(count, 0, -1)]
    both = {when: _pipeline(name, folder / when, when) for when in (WORTHWHILE, EVERY)}
    first_skip = _run(both[WORTHWHILE], days, until_skip=True)
    shutil.copytree(both[WORTHWHILE].parent / "state", both[EVERY].parent / "state")
    _run(both[WORTHWHILE], days[first_skip + 1 :])
    _run(both[EVERY], days[first_skip:])
    return {when: _outcome(load(file), days) for when, file in both.items()}


def of_dataset(name: str, compared: dict[str, Nights], count: int) -> list[Figure]:
    """The figures that are reported: what was skipped, and what that cost."""
    every, some = compared[EVERY], compared[WORTHWHILE]
    return [
        Figure(f"{name}: nights that skipped their training", 1 - some.trained / count, "share", n=count),
        Figure(f"{name}: WAPE, trained every night", every.wape, "share", n=count),
        Figure(f"{name}: WAPE, where worthwhile", some.wape, "share", n=count),
        Figure(f"{name}: cost of rosters, where worthwhile over every night", some.cost / every.cost, "ratio", n=count),
        Figure(f"{name}: seconds of training saved", every.training_seconds - some.training_seconds, "s", n=count),
    ]


def _pipeline(name: str, folder: Path, when: str) -> Path:
    """A pipeline file of its own, whose state is in the folder."""
    folder.mkdir(parents=True)
    content = yaml.safe_load((ROOT / f"data/real/{name}.yaml").read_text("utf-8"))
    content["training"] = {"preset": "quick", "members": 1, "when": when}
    content["staffing"] = {"orders_per_driver": ORDERS[name], "cost_short": 38, "cost_idle": 22, "currency": "EUR"}
    content["execution"] = {"cost_per_hour": 1.0}
    content["state"] = str(folder / "state")
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
    return file


def _as_of(spec: Spec, day: date) -> datetime:
    return datetime.combine(day, time(3, 15), spec.zone).astimezone(UTC)


def _run(file: Path, days: list[date], *, until_skip: bool = False) -> int:
    """Run the nights of these days; how many had run when the first one skipped its training."""
    for number, day in enumerate(days):
        night = Night.begin(str(file), _as_of(load(file), day))
        night.run(partial(lines.nightly, night, STEPS))
        print(f"{file.parent.name} {day}: {night.outcome}, {night.message}", flush=True)
        if until_skip and not night.trains:
            return number
    return len(days)


def _outcome(spec: Spec, days: list[date]) -> Nights:
    """What the forecasts of each night said of the day itself, and what rosters of them cost."""
    assert spec.staffing is not None
    knowledge = read_as_of(spec, as_of=_as_of(spec, days[-1] + timedelta(days=2)))
    panel = build(knowledge, spec)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        runs = [run for run in ledger.runs(spec.name, limit=400) if run.kind == "night" and run.outcome != "busy"]
    archive = Lake(spec.lake_url).read("forecasts", where=[("horizon", "=", 1)])
    error, actual, cost, messages = 0.0, 0.0, 0.0, []
    for day in days:
        run = next(run for run in runs if run.as_of == _as_of(spec, day))  # the newest first
        rows = archive.filter(pc.equal(archive["run_id"], run.run_id))
        fold = _fold(panel, rows.to_pydict(), day)
        known = np.isfinite(fold.actuals)
        error += float(np.abs(fold.forecast.median - fold.actuals)[known].sum())
        actual += float(fold.actuals[known].sum())
        crew = newsvendor.roster(fold.forecast, spec.staffing).drivers
        cost += float(np.nansum(costs_paid(crew, fold, spec.staffing)))
        messages.append(run.message or "")
    of_days = [next(run for run in runs if run.as_of == _as_of(spec, day)) for day in days]
    trained = [run for run in of_days if run.verdict is not None]
    seconds = sum(run.timings[stage] for run in trained for stage in ("train", "backtest") if stage in run.timings)
    return Nights(len(trained), seconds, error / actual, cost, tuple(messages))


def _fold(panel: Panel, rows: dict[str, list[Any]], day: date) -> Fold:
    levels = tuple(rows["levels"][0])
    quantiles = np.zeros((len(panel.depot_ids), 1, len(levels)), np.float32)
    place = {depot: row for row, depot in enumerate(panel.depot_ids)}
    for depot, values in zip(rows["depot_id"], rows["quantiles"], strict=True):
        quantiles[place[depot], 0] = values
    column = (day - panel.days[0].astype(object)).days
    actuals = np.where(panel.open[:, [column]], panel.demand[:, [column]], np.nan).astype(np.float32)
    open_ = np.any(quantiles > 0, axis=2)
    forecast = Forecast(panel.depot_ids, day - timedelta(days=1), (day,), levels, quantiles, open_)
    return Fold(forecast, actuals)


if __name__ == "__main__":
    main()
