"""Measure a fleet from its feed to its publication: ingest, then groups of depots on a Dask
cluster.

    make bench-cluster
    make bench-cluster ARGS="--depots 100000 --days 550 --folder /tmp/large"
    make bench-cluster ARGS="--depots 1000000 --days 120 --groups 8"

The cluster has 1, 2 and 4 workers, each limited to 2 GB. The feed arrives in batches of days, one
Parquet file after another. The champion is an untrained network of the default size: its forecasts
cost as much as a trained one's. Each batch is ingested in its own process, as in a nightly run, and
the driver is a process of its own. Peaks are those of the operating system (VmHWM): each worker
reports its own, and the driver too. With `--groups`, all depots are surveyed, but only that number
of groups is forecast and published, and their number of depots is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.report import ROOT, Figure, below, working_folder, write_report

DEPOTS, DAYS, WORKERS = 20_000, 200, (1, 2, 4)
LIMIT = 2.0  # GB per worker
LAST = date(2026, 10, 31)
AS_OF = datetime(2026, 11, 1, 7, tzinfo=UTC)
CITIES = 40
BATCH = 10.0  # million readings per batch
DEPOTS_PER_GROUP = 4096
PIPELINE = """
name: cluster
horizon: 14
demand: {source: {kind: parquet, path: demand.parquet}, columns: {recorded_at: recorded_at}}
depots: {source: {kind: csv, path: depots.csv}, static: [city]}
calendar: {country: DE}
staffing: {orders_per_driver: 20, cost_short: 38, cost_idle: 22}
state: var
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depots", type=int, default=DEPOTS)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--batch", type=float, default=BATCH, help="million readings per ingested batch")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--groups", type=int, help="number of groups of depots to forecast; default: all")
    parser.add_argument("--without-ledger", action="store_true", help="skip the publication in the ledger")
    parser.add_argument("--kill", action="store_true", help="kill a worker while it forecasts")
    parser.add_argument("--limit", type=float, default=LIMIT, help="memory limit of a worker in GB")
    parser.add_argument("--folder", type=Path, help="folder that keeps the lake; an existing lake is used")
    parser.add_argument("--part", choices=sorted(PARTS))
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part](options)))
        return
    with working_folder(options.folder, "bench-cluster-") as folder:
        figures: list[Figure] = []
        if not (folder / "bundle").exists():
            figures += [Figure("readings", _part("make", folder, options, 0)["rows"] / 1e6, "M rows")]
            batches = [_part("ingest", folder, options, 0) for _ in [*(folder / "feed").iterdir()]]
            figures += [
                Figure(f"ingest in {len(batches)} batches", sum(batch["seconds"] for batch in batches), "s"),
                Figure("ingest of the last batch", batches[-1]["seconds"], "s"),
                Figure("ingest, processor time", sum(batch["processor"] for batch in batches), "s"),
                below("ingest: peak memory", max(batch["memory"] for batch in batches), "GB", options.limit),
                Figure("lake", _size(folder / "var" / "lake") / 1e6, "MB"),
            ]
        for workers in options.workers:
            figures += _figures(_part("publish", folder, options, workers), workers, options.limit)
        write_report("cluster", figures)


def _figures(report: dict[str, Any], workers: int, limit: float) -> Iterator[Figure]:
    name = f"{workers} worker{'s' * (workers > 1)}"
    for step, seconds in report["steps"].items():
        yield Figure(f"{name}: {step}", seconds, "s")
    for step, seconds in report["processor"].items():
        yield Figure(f"{name}: {step}, processor time", seconds, "s")
    for step, peak in report["peaks"].items():
        yield Figure(f"{name}: largest worker after {step}", peak, "GB")
    yield Figure(f"{name}: depots forecast", report["depots"], "depots")
    yield below(f"{name}: peak of a worker", max(report["peaks"].values()), "GB", limit)
    yield Figure(f"{name}: peak of the driver", report["driver"], "GB")
    yield Figure(f"{name}: largest folder of the run", report["folder"], "GB")
    yield Figure(f"{name}: workers that ended", report["ended"], "workers")


def _part(part: str, folder: Path, options: argparse.Namespace, workers: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.cluster", "--part", part, "--folder", str(folder)]
    command += ["--depots", str(options.depots), "--days", str(options.days), "--workers", str(workers)]
    command += ["--limit", str(options.limit), *(["--without-ledger"] * options.without_ledger)]
    command += ["--kill"] * options.kill + ["--batch", str(options.batch)]
    command += ["--groups", str(options.groups)] if options.groups else []
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    report: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    print(f"{part}, {workers} workers: {report}", file=sys.stderr, flush=True)
    return report


def make(options: argparse.Namespace) -> dict[str, Any]:
    """Write a feed of simulated counts in batches of days, the depots, and a bundle."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    from forecaster.config import load

    options.folder.joinpath("pipeline.yaml").write_text(PIPELINE, "utf-8")
    spec = load(options.folder / "pipeline.yaml")
    ids = [f"D{number:08d}" for number in range(options.depots)]
    cities = [f"city {number % CITIES}" for number in range(options.depots)]
    pc.write_csv(pa.table({"depot_id": pa.array(ids), "city": pa.array(cities)}), spec.folder / "depots.csv")
    feed, rows = spec.folder / "feed", 0
    feed.mkdir()
    in_batch = max(int(options.batch * 1e6 / options.depots), 1)
    days = _readings(ids, options.days)
    while batch := list(islice(days, in_batch)):
        day, tables = batch[-1][0], [table for _, table in batch]
        rows += sum(map(len, tables))
        with pq.ParquetWriter(feed / f"{day}.parquet", tables[0].schema) as file:
            for table in tables:
                file.write_table(table)
    _write_bundle(spec, ids, cities)
    return {"rows": rows}


def _readings(ids: list[str], days: int) -> Iterator[tuple[date, Any]]:
    """Yield counts with a weekly rhythm, day by day; one depot in fifty is young."""
    import pyarrow as pa

    random, words = np.random.default_rng(0), pa.array(ids)
    level = random.uniform(20, 200, len(ids))
    first = np.where(np.arange(len(ids)) % 50 == 7, max(days - 60, 0), 0)
    week = np.array([1.0, 1.1, 1.2, 1.1, 1.4, 1.8, 0.7])
    for day in range(days):
        on = LAST - timedelta(days=days - 1 - day)
        depots = np.flatnonzero(first <= day).astype(np.int32)
        instant = datetime(on.year, on.month, on.day, 3, tzinfo=UTC) + timedelta(days=1)
        yield on, pa.table({
            "depot_id": pa.DictionaryArray.from_arrays(pa.array(depots), words).cast(pa.string()),
            "date": pa.repeat(pa.scalar(on, pa.date32()), len(depots)),
            "demand": pa.array(random.poisson(level[depots] * week[on.weekday()])),
            "recorded_at": pa.repeat(pa.scalar(instant, pa.timestamp("us", "UTC")), len(depots)),
        })  # fmt: skip


def ingest(options: argparse.Namespace) -> dict[str, Any]:
    """Ingest the oldest remaining batch, on the morning after its last day."""
    from forecaster.config import load
    from forecaster.demand import ingest

    spec, start, processor = load(options.folder / "pipeline.yaml"), time.perf_counter(), time.process_time()
    file = min((spec.folder / "feed").iterdir())
    last = date.fromisoformat(file.stem)
    file.replace(spec.folder / "demand.parquet")
    outcome = ingest.ingest(spec, now=datetime(last.year, last.month, last.day, 4, tzinfo=UTC) + timedelta(days=1))
    if outcome.stopped or outcome.quarantined:
        raise RuntimeError(f"{outcome.stopped or outcome.quarantined}: {outcome.findings}")
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    return {"last": str(last), "seconds": seconds, "processor": processor, "memory": _peak()}


def _write_bundle(spec: Any, ids: list[str], cities: list[str]) -> None:
    """Write and promote an untrained network of the default size."""
    from forecaster.core.panel import Encoding
    from forecaster.demand.panel import calendar
    from forecaster.ledger.store import Ledger
    from forecaster.model.export import to_onnx
    from forecaster.serving import bundle, keys
    from tests.fleets import untrained_network

    encoding, model = Encoding((), {"city": tuple(sorted(set(cities)))}), spec.model
    candidate = untrained_network(
        encoding, calendar.NAMES, spec.horizon, tuple(model.quantiles), layers=model.layers, hidden=model.hidden
    )
    about = {**to_onnx.about(candidate), "depots": ids[: len(ids) // 2]}
    graph, weights = to_onnx.to_graph(candidate), to_onnx.weights(candidate)
    written = bundle.write(spec.paths.bundles, graph, weights, about, keys.signer(spec.paths.folder))
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
        ledger.promote(spec.name, run_id="first", bundle_digest=written.name, by="benchmark", reason="the first")
    (spec.folder / "bundle").write_text(written.name, "utf-8")


def publish(options: argparse.Namespace) -> dict[str, Any]:
    """Publish once by groups, on a cluster of this machine."""
    import distributed

    from flows.orchestration import dask_workers
    from forecaster.config import load
    from forecaster.ledger.store import Ledger
    from forecaster.publishing.groups import publish_groups

    spec, [workers] = load(options.folder / "pipeline.yaml"), options.workers
    run_id = f"run-{workers}-{os.getpid()}"
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run(run_id, pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
    _leave_out(publish_groups, options)
    steps, current = defaultdict[str, float](float), ["cluster start", time.perf_counter()]
    peaks, sizes, processor, used = dict[str, float](), [0], dict[str, float](), [0.0]

    def on_step(name: str) -> None:
        ended = str(current[0])
        steps[ended] += time.perf_counter() - float(current[1])
        peaks[ended] = max(client.run(_peak).values())
        sizes.append(_size(spec.paths.groups / run_id))
        used.append(time.process_time() + sum(client.run(time.process_time).values()))
        processor[ended] = used[-1] - used[-2]
        figures = f"{steps[ended]:.1f} s, {processor[ended]:.1f} s of processor time"
        print(f"{ended}: {figures}, worker {peaks[ended]:.2f} GB, driver {_peak():.2f} GB", file=sys.stderr, flush=True)
        current[:] = [name, time.perf_counter()]

    arguments = dask_workers.cluster_arguments(workers) | {"memory_limit": f"{options.limit}GB"}
    cluster = distributed.LocalCluster(**arguments)
    with cluster, distributed.Client(cluster) as client:
        first = {*client.run(os.getpid).values()}

        def fan(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
            return client.gather(client.map(_called, list(calls), pure=False))  # type: ignore[no-any-return]

        def step(name: str) -> None:
            on_step(name)
            if options.kill and name == "forecasts and rosters":
                threading.Timer(5, partial(os.kill, min(first), signal.SIGKILL)).start()

        outcome = publish_groups.publish_groups(
            spec, as_of=AS_OF, run_id=run_id, note=None, fan=fan, depots=DEPOTS_PER_GROUP, on_step=step
        )
        on_step("done")
        if isinstance(outcome, str):
            raise RuntimeError(outcome)
        ended = len(first - {*client.run(os.getpid).values()})
    steps["all"] = sum(steps.values())
    processor["all"] = sum(processor.values())
    report = {
        "steps": steps,
        "processor": processor,
        "peaks": peaks,
        "driver": _peak(),
        "ended": ended,
        "depots": outcome.depots,
    }
    return report | {"folder": max(sizes) / 1e9}


def _leave_out(publish_groups: Any, options: argparse.Namespace) -> None:
    """Leave out the excluded parts: the publication in the ledger, and depots beyond the first
    groups."""
    from forecaster.ledger.store import Ledger

    survey = publish_groups.survey

    def of_first_groups(*arguments: Any) -> Any:
        surveyed = survey(*arguments)
        return replace(surveyed, groups=surveyed.groups[: options.groups])

    publish_groups.survey = of_first_groups
    if options.without_ledger:
        Ledger.publish = lambda ledger, publication, **options: 0  # type: ignore[method-assign]


def _called(call: Callable[[], Any]) -> Any:
    return call()


def _peak() -> float:
    """Return the peak memory of this process in GB."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text("utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024 / 1e9
    return float("nan")


def _size(folder: Path) -> int:
    """Return the bytes of a folder's files, some of which may be removed meanwhile."""
    size = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


PARTS = {"make": make, "ingest": ingest, "publish": publish}

if __name__ == "__main__":
    main()
