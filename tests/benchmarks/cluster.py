"""Measure a publication by groups of depots on a Dask cluster of 1, 2 and 4 workers, each limited to 2 GB.

make bench-cluster
make bench-cluster ARGS="--depots 100000 --days 550 --folder /tmp/large"

The lake is filled piece by piece, past `ingest`, whose own memory `make bench-scale` measures; the champion is a
network of the default size that was never trained, so that a forecast costs what it costs. The driver is a process of
its own. Peaks are those that the operating system saw: each worker's, asked of it at the end (VmHWM), and the driver's.
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
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.report import ROOT, Figure, below, tell, working_folder

DEPOTS, DAYS, WORKERS = 20_000, 200, (1, 2, 4)
LIMIT = 2.0  # GB a worker
LAST = date(2026, 10, 31)
AS_OF = datetime(2026, 11, 1, 7, tzinfo=UTC)
BLOCK = 20_000  # depots made at once
CITIES = 40
PIPELINE = """
name: cluster
horizon: 14
demand: {source: {kind: parquet, path: none.parquet}, columns: {recorded_at: recorded_at}}
depots: {source: {kind: csv, path: none.csv}, static: [city]}
calendar: {country: DE}
staffing: {orders_per_driver: 20, cost_short: 38, cost_idle: 22}
state: var
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depots", type=int, default=DEPOTS)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--without-ledger", action="store_true", help="stop before the publication in the ledger")
    parser.add_argument("--kill", action="store_true", help="kill a worker while it forecasts")
    parser.add_argument("--limit", type=float, default=LIMIT, help="GB a worker may have")
    parser.add_argument("--folder", type=Path, help="keep the lake there; one that is there is used")
    parser.add_argument("--part", choices=("make", "publish"))
    options = parser.parse_args()
    if options.part:
        report = make(options) if options.part == "make" else publish(options)
        print(json.dumps(report))
        return
    with working_folder(options.folder, "bench-cluster-") as folder:
        figures: list[Figure] = []
        if not (folder / "bundle").exists():
            report = _part("make", folder, options, 0)
            figures += [Figure("readings", report["rows"] / 1e6, "M rows"), Figure("lake", report["bytes"] / 1e6, "MB")]
        for workers in options.workers:
            report = _part("publish", folder, options, workers)
            name = f"{workers} worker{'s' * (workers > 1)}"
            for step, seconds in report["steps"].items():
                figures.append(Figure(f"{name}: {step}", seconds, "s"))
            figures += [
                below(f"{name}: peak of a worker", report["worker"], "GB", options.limit),
                Figure(f"{name}: peak of the driver", report["driver"], "GB"),
                Figure(f"{name}: workers that ended", report["ended"], "workers"),
            ]
        tell("cluster", figures)


def _part(part: str, folder: Path, options: argparse.Namespace, workers: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.cluster", "--part", part, "--folder", str(folder)]
    command += ["--depots", str(options.depots), "--days", str(options.days), "--workers", str(workers)]
    command += ["--limit", str(options.limit), *(["--without-ledger"] * options.without_ledger)]
    command += ["--kill"] * options.kill
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    report: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    print(f"{part}, {workers} workers: {report}", file=sys.stderr, flush=True)
    return report


def make(options: argparse.Namespace) -> dict[str, Any]:
    """A lake of made-up counts in order of days, as one night's batch has them, and a bundle."""
    import pyarrow as pa

    from forecaster.config import load
    from forecaster.lake import Lake

    options.folder.joinpath("pipeline.yaml").write_text(PIPELINE, "utf-8")
    spec = load(options.folder / "pipeline.yaml")
    lake, ids = Lake.of(spec), [f"D{number:08d}" for number in range(options.depots)]
    cities = [f"city {number % CITIES}" for number in range(options.depots)]
    size, epoch = options.depots, pa.scalar(datetime(1970, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC"))
    unknown = {"opened": pa.date32(), "closed": pa.date32(), "timezone": pa.string()}
    columns = {"depot_id": pa.array(ids), "city": pa.array(cities)}
    columns |= {name: pa.nulls(size, kind) for name, kind in unknown.items()}
    columns |= {"retracted": pa.repeat(False, size), "recorded_at": pa.repeat(epoch, size)}
    lake.append("depots", pa.table(columns))
    lake.append("demand", _readings(ids, options.days))
    _write_bundle(spec, ids, cities)
    size = sum(file.stat().st_size for file in (options.folder / "var" / "lake").rglob("*") if file.is_file())
    return {"rows": options.depots * options.days, "bytes": size}


def _readings(ids: list[str], days: int) -> Iterator[Any]:
    """Counts with a weekly rhythm, a day after the other; one depot in fifty is young."""
    import pyarrow as pa

    random, words = np.random.default_rng(0), pa.array(ids)
    level = random.uniform(20, 200, len(ids))
    first = np.where(np.arange(len(ids)) % 50 == 7, max(days - 60, 0), 0)
    week = np.array([1.0, 1.1, 1.2, 1.1, 1.4, 1.8, 0.7])
    for day in range(days):
        on = LAST - timedelta(days=days - 1 - day)
        depots = np.flatnonzero(first <= day).astype(np.int32)
        counts = random.poisson(level[depots] * week[on.weekday()]).astype(float)
        instant = datetime(on.year, on.month, on.day, 22, tzinfo=UTC)
        size = len(depots)
        yield pa.table({
            "depot_id": pa.DictionaryArray.from_arrays(pa.array(depots), words),
            "date": pa.repeat(pa.scalar(on, pa.date32()), size),
            "demand": pa.array(counts),
            "open": pa.nulls(size, pa.bool_()),
            "source": pa.repeat("made up", size),
            "batch": pa.repeat("0", size),
            "row": pa.array(np.arange(size) + day * len(ids)),
            "recorded_at": pa.repeat(pa.scalar(instant, pa.timestamp("us", "UTC")), size),
        })  # fmt: skip


def _write_bundle(spec: Any, ids: list[str], cities: list[str]) -> None:
    """A network of the default size, as it is before training."""
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
    """One publication by groups on a cluster of this machine."""
    import distributed

    from forecaster.config import load
    from forecaster.ledger.store import Ledger
    from forecaster.publishing.groups import publish_groups

    spec, [workers] = load(options.folder / "pipeline.yaml"), options.workers
    run_id = f"run-{workers}-{os.getpid()}"
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run(run_id, pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
    if options.without_ledger:
        publish_groups.publish_parts = lambda ledger, publication, depots, keep: 0  # type: ignore[attr-defined]
    steps, current = defaultdict[str, float](float), ["cluster comes up", time.perf_counter()]

    def on_step(name: str) -> None:
        now = time.perf_counter()
        steps[str(current[0])] += now - float(current[1])
        current[:] = [name, now]

    cluster = distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=f"{options.limit}GB",
        dashboard_address=None,
    )
    with cluster, distributed.Client(cluster) as client:
        first = {*client.run(os.getpid).values()}

        def fan(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
            return client.gather(client.map(_called, list(calls), pure=False))  # type: ignore[no-any-return]

        def step(name: str) -> None:
            on_step(name)
            if options.kill and name == "forecasts and rosters":
                threading.Timer(5, partial(os.kill, min(first), signal.SIGKILL)).start()

        outcome = publish_groups.publish_groups(
            spec, as_of=AS_OF, run_id=run_id, note=None, fan=fan, depots=4096, on_step=step
        )
        on_step("done")
        if isinstance(outcome, str):
            raise RuntimeError(outcome)
        peaks = client.run(_peak)
        ended = len(first - {*client.run(os.getpid).values()})
    steps["all"] = sum(steps.values())
    return {"steps": steps, "worker": max(peaks.values()), "driver": _peak(), "ended": ended, "depots": outcome.depots}


def _called(call: Callable[[], Any]) -> Any:
    return call()


def _peak() -> float:
    """The largest that this process ever was, in GB."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text("utf-8").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024 / 1e9
    return float("nan")


if __name__ == "__main__":
    main()
