"""A lake in an object store that hangs costs a night its share of the time: what can be had without it goes out."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pytest

from forecaster.config import load
from forecaster.ledger.records import Head, Run
from forecaster.ledger.store import Ledger
from tests.flows.tiny import NIGHT, pipeline
from tests.stores import Gateway, gateway, s3  # noqa: F401 (fixtures)

ROOT = Path(__file__).resolve().parents[2]
A_MINUTE = "schedule: {cron: '0 3 * * *', deadline: '03:01'}\n"
"""Between start and deadline, so that the lake may be silent for ten seconds, and twenty in all."""
KEYS = {"ACCESS_KEY_ID": "testing-key", "SECRET_ACCESS_KEY": "testing-secret", "REGION": "us-east-1"}


@dataclass(frozen=True)
class Pipeline:
    """A pipeline whose lake holds readings, and the gateway to the bucket that it is in."""

    file: Path
    store: Gateway | None = None

    def run(self, command: str = "predict-only") -> subprocess.CompletedProcess[str]:
        variables = {**KEYS, "ENDPOINT_URL": self.store.address, "ALLOW_HTTP": "true"} if self.store else {}
        return subprocess.run(
            [sys.executable, "-m", "forecaster", command, "--plain", str(self.file), "--as-of", NIGHT.isoformat()],
            cwd=ROOT,
            env={**os.environ, **{f"AWS_{name}": value for name, value in variables.items()}},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )

    def last_run(self) -> tuple[Run, Head]:
        with Ledger.open_reader(load(self.file).ledger_url) as ledger:
            head = ledger.current("tiny")
            assert head is not None
            return ledger.runs()[0], head


@pytest.fixture
def tiny(tmp_path: Path, s3: str, gateway: Gateway) -> Pipeline:  # noqa: F811
    name = tmp_path.name.strip("_").replace("_", "-")
    fsspec.filesystem("s3", key="testing-key", secret="testing-secret", endpoint_url=s3).mkdir(name)
    there = Pipeline(pipeline(tmp_path, f"lake: s3://{name}/lake\n{A_MINUTE}"), gateway)
    process = there.run()
    assert process.returncode == 3, process.stderr  # the fallback: no model yet
    return there


def more_readings(file: Path) -> None:
    with (file.parent / "demand.csv").open("a", encoding="utf-8") as source:
        source.write("".join(f"D{depot},2026-05-11,31\n" for depot in range(4)))


@pytest.mark.parametrize("trickles", [False, True])
def test_a_store_that_says_nothing_or_a_byte_a_second_ends_the_run_and_leaves_the_page(
    tiny: Pipeline,
    gateway: Gateway,  # noqa: F811
    trickles: bool,
) -> None:
    _, before = tiny.last_run()
    gateway.trickles = trickles
    gateway.hangs = lambda method, path: not trickles
    process = tiny.run()
    run, after = tiny.last_run()
    print(run.message, run.timings)
    assert (process.returncode, run.outcome) == (1, "failed")
    assert "/lake did not answer within" in str(run.message)
    assert "of the 60 s between schedule.cron and schedule.deadline" in str(run.message)
    assert after == before


@pytest.mark.parametrize(
    ("table", "lacking"),
    [
        ("demand", "the sources could not be read: the lake at "),
        ("forecasts", "the archive does not have these forecasts: the lake at "),
    ],
)
def test_a_store_that_hangs_where_something_is_written_lets_the_forecast_out(
    tiny: Pipeline,
    gateway: Gateway,  # noqa: F811
    table: str,
    lacking: str,
) -> None:
    more_readings(tiny.file)
    gateway.hangs = lambda method, path: method in ("PUT", "POST") and f"/{table}/" in path
    process = tiny.run()
    run, head = tiny.last_run()
    print(run.message, run.timings)
    assert (process.returncode, run.outcome) == (3, "degraded"), process.stderr
    assert lacking in str(run.message)
    assert head.run_id == run.run_id


def test_a_folder_that_hangs_ends_the_run_and_leaves_the_page(tmp_path: Path) -> None:
    here = Pipeline(pipeline(tmp_path, A_MINUTE))
    assert here.run().returncode == 3
    _, before = here.last_run()
    [data] = (load(here.file).paths.lake / "demand").rglob("*.parquet")
    data.unlink()
    os.mkfifo(data)  # which is never through with being opened, as a file of a dead mount
    process = here.run()
    run, after = here.last_run()
    print(run.message, run.timings)
    assert (process.returncode, after) == (1, before)
    assert "did not answer within 10 s (table 'demand')" in str(run.message)
