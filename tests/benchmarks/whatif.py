"""Measure how long a what-if takes in the page's process, from the question to the JSON answer.

python -m tests.benchmarks.whatif [FILE]

FILE is a pipeline whose page shows something, by default the sample after `make run`. The first question, which reads
the night's inputs and the bundle, is measured apart.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from itertools import cycle, islice, product
from pathlib import Path

import httpx
import numpy as np

from dashboards.ops.app import create_app
from forecaster.config import Spec, load
from forecaster.ledger.store import Ledger
from tests.benchmarks.report import ROOT, Figure, below, tell

ASKED = 300
LIMIT = 200  # ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", default=ROOT / "data" / "harbor_fleet" / "pipeline.yaml", type=Path)
    spec = load(parser.parse_args().file)
    first, wall, processor = asyncio.run(what_if_latencies(spec))
    tell(
        "what-if",
        [
            Figure("first what-if of a publication, wall", first, "ms"),
            below("what-if of one depot, wall, 95 of 100 take less", float(np.quantile(wall, 0.95)), "ms", LIMIT),
            Figure("what-if of one depot, wall, median", float(np.median(wall)), "ms", n=len(wall)),
            Figure("what-if of one depot, processor time, mean", float(np.mean(processor)), "ms", n=len(wall)),
        ],
    )


async def what_if_latencies(spec: Spec) -> tuple[float, list[float], list[float]]:
    """Milliseconds of the first question, and wall and processor milliseconds of the next ones."""
    wall, processor = [], []
    transport = httpx.ASGITransport(create_app(spec.ledger_url, pipeline=spec.name, spec=spec))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for question in questions(spec):
            began, used = time.perf_counter(), time.process_time()
            answer = await client.get("/api/v1/what-if", params=question, timeout=60)
            wall.append(1000 * (time.perf_counter() - began))
            processor.append(1000 * (time.process_time() - used))
            if answer.status_code != 200:
                raise SystemExit(answer.text)
    return wall[0], wall[1:], processor[1:]


def questions(spec: Spec) -> list[dict[str, str]]:
    """Every kind of question of many depots and days, in turn."""
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        if head is None:
            raise SystemExit("nothing is published; run the night first")
        depots = ledger.depots(head.publication_id)
    days = [(depot.depot_id, str(day.target_date)) for depot in depots for day in depot.days if day.open]
    kinds = [*((name, "1") for name in spec.calendar.known_future), ("closed", "1"), ("orders", "200")]
    every = product(days[:: max(len(days) // 64, 1)], kinds)
    return [
        {"depot": depot, "date": day, "kind": kind, "value": value}
        for (depot, day), (kind, value) in islice(cycle(every), ASKED + 1)
    ]


if __name__ == "__main__":
    main()
