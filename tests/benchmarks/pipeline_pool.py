"""Whether Prefect's limit of a work pool holds for the nights of many pipelines, which are all due at once."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
import yaml

from flows import deploy
from forecaster.config import load
from forecaster.ledger import connect, tables
from tests.benchmarks.pipelines import Place, as_of, place_of_all, write
from tests.benchmarks.report import ROOT, Figure, below, tell, working_folder
from tests.e2e.on_call import free_port

PATIENCE = 540.0  # seconds for all nights
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
Interval = tuple[datetime, datetime]


def most_at_once(intervals: Sequence[Interval]) -> int:
    """How many intervals share an instant at the most; one that ends as another begins shares none with it."""
    steps = sorted([(begun, 1) for begun, _ in intervals] + [(ended, -1) for _, ended in intervals])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


@contextmanager
def prefect_server(folder: Path) -> Iterator[httpx.Client]:
    """Prefect's own server, and its API; the environment leads there meanwhile."""
    port = free_port()
    settings = {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_UI_ENABLED": "0",
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
    }
    os.environ |= settings
    with (
        _running(folder / "server", "server", "start", "--host", "127.0.0.1", "--port", str(port)),
        httpx.Client(base_url=settings["PREFECT_API_URL"], timeout=60) as api,
    ):
        deadline = time.monotonic() + 180
        while True:
            try:
                api.get("/health").raise_for_status()
                break
            except httpx.HTTPError:
                assert time.monotonic() < deadline, "Prefect's server does not answer"
                time.sleep(0.2)
        yield api


@contextmanager
def _running(log: Path, *words: str) -> Iterator[None]:
    """`prefect …`, which is told to end when this is left."""
    with log.with_suffix(".log").open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "prefect", *words], cwd=ROOT, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def deploy_all(folder: Path, files: Sequence[Path]) -> None:
    """What `forecaster deploy` declares of each pipeline, in one file."""
    contents = [deploy.deployment_file(file, load(file)) for file in files]
    merged = {**contents[0], "deployments": [each for content in contents for each in content["deployments"]]}
    (folder / "prefect.yaml").write_text(yaml.safe_dump(merged, sort_keys=False), "utf-8")
    words = ("--no-prompt", "deploy", "--all", "--prefect-file", str(folder / "prefect.yaml"))
    subprocess.run([sys.executable, "-m", "prefect", *words], cwd=ROOT, check=True, capture_output=True)


def ask_for_nights(api: httpx.Client, numbers: Sequence[int]) -> None:
    """A refresh of each pipeline, all due now."""
    for number in numbers:
        deployment = api.get(f"/deployments/name/predict-only/fleet-{number}").raise_for_status().json()
        wanted = {"parameters": {"as_of": as_of(0).isoformat()}, "state": {"type": "SCHEDULED"}}
        api.post(f"/deployments/{deployment['id']}/create_flow_run", json=wanted).raise_for_status()


def ended_runs(api: httpx.Client, count: int) -> list[dict[str, Any]]:
    """The flow runs, once all have ended."""
    deadline = time.monotonic() + PATIENCE
    while True:
        wanted = {"flows": {"name": {"any_": ["predict-only"]}}}
        runs: list[dict[str, Any]] = api.post("/flow_runs/filter", json=wanted).raise_for_status().json()
        runs = [run for run in runs if run["state_type"] in ENDED]
        if len(runs) >= count or time.monotonic() > deadline:
            return runs
        time.sleep(1)


def measure(folder: Path, count: int, limit: int) -> list[Figure]:
    """All figures of one pool."""
    numbers = range(count)
    with place_of_all(folder) as (place, _), prefect_server(folder) as api:
        for number in numbers:
            write(place, number)
        pool = {"name": deploy.POOL, "type": "process", "concurrency_limit": limit}
        api.post("/work_pools/", json=pool).raise_for_status()
        deploy_all(folder, [place.file(number) for number in numbers])
        ask_for_nights(api, numbers)
        begun = time.monotonic()
        with _running(folder / "worker", "worker", "start", "--pool", deploy.POOL, "--type", "process"):
            runs = ended_runs(api, count)
        took = time.monotonic() - begun
        kept = api.get(f"/work_pools/{deploy.POOL}").json()["concurrency_limit"]
        in_prefect = [(_instant(run["start_time"]), _instant(run["end_time"])) for run in runs if run["start_time"]]
        in_ledger, outcomes = _ledger_runs(place)
        good = sum(outcome in ("published", "degraded") for outcome in outcomes)
        return [
            Figure("pipelines, all due at once", count, ""),
            Figure("limit of the pool, after they were deployed", kept, "", f"{limit}", kept == limit),
            below("nights at once, by Prefect", most_at_once(in_prefect), "", limit + 1),
            below("nights at once, by the ledger", most_at_once(in_ledger), "", limit + 1),
            below("nights that published nothing", count - good, "", 1),
            Figure("all of them", took, "s"),
        ]


def _ledger_runs(place: Place) -> tuple[list[Interval], list[str]]:
    runs = tables.runs.c
    engine = connect.reader(str(place.ledger))
    with engine.begin() as connection:
        rows = connection.execute(sa.select(runs.started_at, runs.finished_at, runs.outcome)).tuples().all()
    engine.dispose()
    return [(begun, ended) for begun, ended, _ in rows if ended], [outcome for *_, outcome in rows]


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=6)
    parser.add_argument("--limit", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a folder that stays")
    chosen = parser.parse_args()
    with working_folder(chosen.keep, "pipeline-pool-") as folder:
        tell("pipeline_pool", measure(folder, chosen.pipelines, chosen.limit))


if __name__ == "__main__":
    main()
