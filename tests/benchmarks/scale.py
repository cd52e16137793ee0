"""Measure the way in: 100,000 depots × 550 days from Parquet into the lake and back as a Panel, 1,000 nights, and
`forecaster check` on a million rows of CSV, as they should be and as they often are.

make bench-scale
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.report import ROOT, Figure, below, tell

DEPOTS, DAYS = 100_000, 550
NIGHTS, FLEET, EVERY = 1000, 2000, 100  # nights one after the other, depots of those, nights between two looks
READ = 400  # days that a look reads back
CHECKED, CHECK_LIMIT = 2000, 20.0  # depots of 500 days whose CSV is checked, a million rows; seconds for that
PIPELINE = """
name: scale
timezone: America/New_York
demand:
  source: {kind: parquet, path: demand.parquet}
  columns: {depot_id: depot, date: day, demand: orders, recorded_at: recorded_at}
depots:
  source: {kind: csv, path: depots.csv}
  columns: {depot_id: depot, opened: opened, closed: closed}
  static: [city, country, subdivision]
calendar: {events: {source: {kind: csv, path: events.csv}}, known_future: [promo, event]}
"""
NIGHTLY = """
name: nights
demand: {source: {kind: parquet, path: demand.parquet}, recorded: next_day}
calendar: {holidays: false}
"""
CHECKED_PIPELINE = """
name: checked
demand: {source: {kind: csv, path: demand.csvKEYS}, recorded: next_day}
calendar: {holidays: false}
"""


def main() -> None:
    """Each part in a process of its own, so that its peak memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depots", type=int, default=DEPOTS)
    parser.add_argument("--nights", type=int, default=NIGHTS)
    parser.add_argument("--part", choices=sorted(PARTS))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.part:
        report = PARTS[options.part](options.folder, options.nights if options.part == "nights" else options.depots)
        print(json.dumps(report | {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-scale-", dir=ROOT / "var" if (ROOT / "var").is_dir() else None))
    try:
        figures = _scale(folder, options.depots) + _nights(folder, options.nights) + _checks(folder)
        tell("scale", figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _scale(folder: Path, depots: int) -> list[Figure]:
    sample = _part("make", folder, depots)
    parts = {name: _part(part, folder, depots) for name, part in (
        ("first ingest", "ingest"), ("the same file again", "ingest"), ("read back as a Panel", "panel"),
    )}  # fmt: skip
    figures = [Figure("rows", sample["rows"] / 1e6, "M rows"), Figure("Parquet file", sample["bytes"] / 1e6, "MB")]
    for name, part in parts.items():
        rate = sample["rows"] / part["seconds"] / 1e6
        figures += [
            Figure(f"{name}", part["seconds"], "s"),
            Figure(f"{name}: rate", rate, "M rows/s", "> 1", bool(rate > 1)),
            below(f"{name}: peak memory", part["memory"], "MB", 6144),
        ]
    return figures


def _nights(folder: Path, nights: int) -> list[Figure]:
    report = _part("nights", folder, nights)
    figures = []
    for night, look in report["looks"].items():
        for name, seconds in look.items():
            figures.append(Figure(f"after {night} nights: {name}", seconds, "s" if name != "files" else "files"))
    return figures


def _checks(folder: Path) -> list[Figure]:
    report = _part("check", folder, CHECKED)
    return [
        below(f"check of 1 M rows, {name}", seconds, "s", CHECK_LIMIT) for name, seconds in report["seconds"].items()
    ]


def _part(part: str, folder: Path, size: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.scale", "--part", part, "--folder", str(folder)]
    command += ["--nights" if part == "nights" else "--depots", str(size)]
    print(f"{part} …", file=sys.stderr, flush=True)
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    report: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    print(f"{part}: {report}", file=sys.stderr, flush=True)
    return report


def make(folder: Path, depots: int) -> dict[str, Any]:
    """The simulator's feed as a Parquet file, with depots and events as CSV."""
    from forecaster.demand.sample import simulate

    sample = simulate.simulate(depots=depots, days=DAYS, flaws=False)
    demand = sample.demand
    instants = pd.to_datetime(demand["recorded_at"].cat.categories, format="ISO8601", utc=True)
    demand["recorded_at"] = np.asarray(instants, "datetime64[us]")[demand["recorded_at"].cat.codes]
    days = pd.to_datetime(demand["day"].cat.categories)
    demand["day"] = np.asarray(days, "datetime64[s]")[demand["day"].cat.codes]
    demand["recorded_at"] = demand["recorded_at"].dt.tz_localize("UTC")
    file = folder / "demand.parquet"
    demand.to_parquet(file, index=False, row_group_size=1_000_000)
    sample.depots.to_csv(folder / "depots.csv", index=False)
    sample.events.to_csv(folder / "events.csv", index=False)
    (folder / "pipeline.yaml").write_text(PIPELINE, "utf-8")
    return {"rows": len(demand), "bytes": file.stat().st_size}


def take(folder: Path, depots: int) -> dict[str, Any]:
    """One ingest of the feed."""
    from forecaster.config import load
    from forecaster.demand.ingest import ingest

    spec = load(folder / "pipeline.yaml")
    seconds, result = _timed(lambda: ingest(spec, now=datetime(2026, 11, 1, 7, tzinfo=UTC)))
    counts = {"read": result.read, "accepted": result.accepted, "quarantined": result.quarantined}
    return counts | {"seconds": seconds, "findings": [(f.rule, f.count) for f in result.findings]}


def panel(folder: Path, depots: int) -> dict[str, Any]:
    """What is known now, as a Panel."""
    from forecaster.config import load
    from forecaster.demand.history.point_in_time import read_as_of
    from forecaster.demand.panel import build as panels

    spec = load(folder / "pipeline.yaml")
    known_in, knowledge = _timed(lambda: read_as_of(spec, as_of=datetime(2026, 11, 1, 7, 15, tzinfo=UTC)))
    built_in, panel = _timed(lambda: panels.build(knowledge, spec))
    return {"seconds": known_in + built_in, "know": known_in, "build": built_in, "shape": panel.demand.shape}


def nights(folder: Path, count: int) -> dict[str, Any]:
    """A feed that brings a day a night, and some of the days before again; looks at what a night costs."""
    from forecaster.config import load
    from forecaster.demand.ingest import ingest
    from forecaster.lake import Lake

    nightly = folder / "nights"
    nightly.mkdir()
    (nightly / "pipeline.yaml").write_text(NIGHTLY, "utf-8")
    spec, random = load(nightly / "pipeline.yaml"), np.random.default_rng(0)
    ids, first, looks, lately = np.array([f"D{i:05d}" for i in range(FLEET)]), np.datetime64("2022-01-01"), {}, []
    level = random.uniform(20, 200, FLEET)
    for night in range(1, count + 1):
        late = random.choice(FLEET, FLEET // 100, replace=False)  # of the day before yesterday, restated
        depot = np.concatenate([np.arange(FLEET), late])
        day = first + night + np.concatenate([np.zeros(FLEET, int), np.full(len(late), -2)])
        counts = random.poisson(level[depot]).astype(float)
        pd.DataFrame({"depot_id": ids[depot], "date": day, "demand": counts}).to_parquet(nightly / "demand.parquet")
        now = (first + night + 1).astype(datetime)
        now = datetime(now.year, now.month, now.day, 3, tzinfo=UTC)
        lately.append(_timed(lambda: ingest(spec, now=now))[0])  # noqa: B023
        if night % EVERY == 0 or night == EVERY // 10:
            since = (now - timedelta(days=READ)).date()
            lake = Lake(spec.lake_url)
            where = [("date", ">=", since), ("recorded_at", "<=", now)]
            reads = [_timed(lambda: lake.read("demand", where=where, codes=True))[0] for _ in range(5)]  # noqa: B023
            looks[night] = {"a nightly ingest": float(np.median(lately)), f"as-of read of {READ} days": min(reads)}
            looks[night]["files"] = len(list((Path(spec.lake_url) / "demand").rglob("*.parquet")))
            lately = []
    return {"looks": looks}


def check(folder: Path, depots: int) -> dict[str, Any]:
    """What `forecaster check` takes, by the clock, on a million rows: clean, and each way that is refused whole."""
    days = pd.date_range("2025-01-01", periods=500).astype(str).to_numpy()
    demand = pd.DataFrame({
        "depot_id": np.repeat([f"D{i:05d}" for i in range(depots)], len(days)),
        "date": np.tile(days, depots),
        "demand": np.random.default_rng(0).poisson(np.repeat(np.linspace(20, 400, depots), len(days))),
    })  # fmt: skip
    half = demand[: len(demand) // 2]
    swapped = pd.to_datetime(demand["date"]).dt.strftime("%d.%m.%Y")
    batches = {
        "clean": (demand, {}),
        "nothing readable": (demand.assign(demand=demand["demand"].astype(str) + " pcs"), {}),
        "days and months swapped": (demand.assign(date=swapped), {"date_format": "'%m.%d.%Y'"}),
        "several rows a day": (pd.concat([half, half.assign(demand=half["demand"] // 3)]), {}),
    }
    seconds = {}
    for name, (batch, source) in batches.items():
        own = folder / name.replace(" ", "-")
        own.mkdir()
        batch.to_csv(own / "demand.csv", index=False)
        keys = "".join(f", {key}: {value}" for key, value in source.items())
        (own / "pipeline.yaml").write_text(CHECKED_PIPELINE.replace("KEYS", keys), "utf-8")
        command = [sys.executable, "-m", "forecaster", "check", str(own / "pipeline.yaml"), "--as-of", "2026-05-16"]
        seconds[name], result = _timed(lambda: subprocess.run(command, cwd=ROOT, capture_output=True, text=True))  # noqa: B023
        if result.returncode != (0 if name == "clean" else 4):
            raise RuntimeError(f"check of the batch '{name}' ended with {result.returncode}: {result.stderr[-2000:]}")
    return {"seconds": seconds}


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


PARTS = {"make": make, "ingest": take, "panel": panel, "nights": nights, "check": check}

if __name__ == "__main__":
    main()
