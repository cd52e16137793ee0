"""What a scrape costs: a ledger of 5,000 depots and 1,000 nights, read afresh, and again while nothing has changed.

`python -m tests.benchmarks.scrape` makes the ledger in a temporary folder, and prints medians of twenty by the clock
and by the processor. It also scrapes while another connection holds the lock for writing.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from prometheus_client.exposition import generate_latest

from forecaster.config import Spec, load
from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import Tally
from forecaster.ledger.store import Ledger
from forecaster.monitoring import exposition, readings, slo
from tests.dashboards.seed import CUTOFF, PUBLISHED, fill, publication

DEPOTS, NIGHTS, TIMES, PUBLICATIONS = 5000, 1000, 20, 3
STAGES = ("ingest", "panel", "train", "backtest", "gate", "export", "promote", "predict", "record", "register")
FINDINGS = [
    {
        "rule": f"rule_{number}",
        "severity": "quarantine",
        "count": 7,
        "message": "rows without a count " * 8,
        "places": [],
    }
    for number in range(6)
]
MEASURES = {"compile_hits": 19, "compile_misses": 0, "versions": {"jax": "0"}, "peak_memory_bytes": {"night": 1.5e9}}


def ledger_of_nights(folder: Path) -> Spec:
    """A pipeline's ledger with `NIGHTS` nights, `PUBLICATIONS` publications of all depots, and half a year of
    hindsight."""
    file = folder / "pipeline.yaml"
    file.write_text(
        "name: harbor-fleet\ntimezone: America/New_York\ndemand: {source: {kind: csv, path: d.csv}}\n", "utf-8"
    )
    spec = load(file)
    for number in range(PUBLICATIONS):
        fill(spec.ledger_url, publication(DEPOTS, run_id=f"shown-{number}"))
    weeks = [accuracy.monday(CUTOFF) - timedelta(weeks=number) for number in range(26)]
    tallies = [
        Tally(week, model, part, label, 40, 4000.0, 1.0, 400.0, 32)
        for week in weeks
        for model in accuracy.MODELS
        for part, label in ((accuracy.ALL, ""), *((accuracy.CITY, f"city {number}") for number in range(40)))
    ] + [
        Tally(week, model, accuracy.DEPOT, f"D{number}", 7, 700.0, 1.0, 70.0, 5)
        for week in weeks[:4]
        for model in accuracy.MODELS
        for number in range(DEPOTS)
    ]
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        accuracy.replace_weeks(connection, spec.name, weeks, tallies)
        row = {
            "spec_digest": "5pec",
            "lake_versions": {"demand": 3},
            "outcome": "published",
            "findings": FINDINGS,
            "timings": dict.fromkeys(STAGES, 1.0),
            "verdict": {"admitted": True, "objections": [], "compared": {"candidate": {"wape": 0.1}}},
            "kind": "night",
            "measures": MEASURES,
            "pipeline": spec.name,
        }
        nights = [
            row
            | {
                "run_id": f"night-{number}",
                "started_at": PUBLISHED - timedelta(days=number, minutes=2),
                "finished_at": PUBLISHED - timedelta(days=number),
                "as_of": PUBLISHED - timedelta(days=number, minutes=2),
            }
            for number in range(NIGHTS)
        ]
        connection.execute(readings.tables.runs.insert(), nights)
        connection.execute(readings.tables.runs.update().values(measures={**MEASURES, "depots": {"fresh": DEPOTS}}))
    return spec


def read(spec: Spec, ledger: Ledger) -> list[readings.Reading]:
    """What a scrape reads where nothing is remembered."""
    return [*readings.read(spec, ledger, PUBLISHED), *slo.numbers(spec, ledger, PUBLISHED)]


def medians(work: Callable[[], object]) -> dict[str, float]:
    """Milliseconds by the clock and by the processor."""
    clock, processor = [], []
    for _ in range(TIMES):
        before = time.perf_counter(), time.process_time()
        work()
        clock.append(1000 * (time.perf_counter() - before[0]))
        processor.append(1000 * (time.process_time() - before[1]))
    return {"clock_ms": round(statistics.median(clock), 1), "processor_ms": round(statistics.median(processor), 1)}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spec = ledger_of_nights(Path(folder))
        path = Path(spec.ledger_url.removeprefix("sqlite:///"))
        with Ledger.open_reader(spec.ledger_url) as ledger:
            fresh = medians(lambda: read(spec, ledger))
        collectors = exposition.registry(spec)
        generate_latest(collectors)
        saved = medians(lambda: generate_latest(collectors))
        with (
            closing(sqlite3.connect(path, isolation_level=None)) as writer,
            Ledger.open_reader(spec.ledger_url) as ledger,
        ):
            writer.execute("begin immediate")
            writer.execute("update runs set message = 'x'")
            locked = medians(lambda: read(spec, ledger))
            writer.execute("rollback")
        size = round(path.stat().st_size / 1e6)
        result = {"ledger_mb": size, "fresh": fresh, "while_another_writes": locked, "unchanged": saved}
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
