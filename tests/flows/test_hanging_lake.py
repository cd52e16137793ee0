"""An unresponsive lake costs a run its share of the time; a forecast that does not need the lake is
published."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest

from flows import lines, steps
from flows.night import Night
from forecaster.config import load
from forecaster.ledger.records import Head, Run
from forecaster.ledger.store import Ledger
from tests.flows.tiny import NIGHT, pipeline, pipeline_with_readings
from tests.stores import Gateway, gateway, s3  # noqa: F401 (fixtures)

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
A_MINUTE = "schedule: {cron: '0 3 * * *', deadline: '03:01'}\n"
"""Between start and deadline, so that the lake may be silent for ten seconds, and twenty in all."""
KEYS = {"ACCESS_KEY_ID": "testing-key", "SECRET_ACCESS_KEY": "testing-secret", "REGION": "us-east-1"}


@dataclass(frozen=True)
class Pipeline:
    """A pipeline with readings in its lake, and the gateway to the lake's bucket."""

    file: Path
    store: Gateway | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables for access to the store."""
        names = {**KEYS, "ENDPOINT_URL": self.store.address, "ALLOW_HTTP": "true"} if self.store else {}
        return {f"AWS_{name}": value for name, value in names.items()}

    def run(self, command: str = "predict-only") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "forecaster", command, "--plain", str(self.file), "--as-of", NIGHT.isoformat()],
            cwd=ROOT,
            env={**os.environ, **self.variables},
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
    file = pipeline_with_readings(tmp_path, f"lake: s3://{name}/lake\n{A_MINUTE}")
    store = fsspec.filesystem("s3", key="testing-key", secret="testing-secret", endpoint_url=s3)
    store.mkdir(name)
    store.put(str(tmp_path / "var" / "lake"), f"{name}/lake", recursive=True)
    shutil.rmtree(tmp_path / "var" / "lake")
    return Pipeline(file, gateway)


def more_readings(file: Path) -> None:
    with (file.parent / "demand.csv").open("a", encoding="utf-8") as source:
        source.write("".join(f"D{depot},2026-05-11,31\n" for depot in range(4)))


@pytest.mark.parametrize("trickles", [False, True])
def test_a_silent_or_trickling_store_ends_the_run_and_leaves_the_page(
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
def test_publishes_if_the_store_hangs_on_writes(
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


@pytest.mark.parametrize("where", ["store", "folder"])
def test_publishes_if_the_lake_hangs_after_the_panel(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    here: Pipeline = request.getfixturevalue("tiny") if where == "store" else Pipeline(pipeline(tmp_path, A_MINUTE))
    for name, value in here.variables.items():
        monkeypatch.setenv(name, value)

    def panel(night: Night) -> object:
        result = steps.panel(night)
        if here.store is not None:
            here.store.hangs = lambda method, path: True
        for data in (load(here.file).paths.lake / "demand").rglob("*.parquet"):
            data.unlink()
            os.mkfifo(data)
        return result

    more_readings(here.file)
    night = Night.begin(str(here.file), NIGHT + timedelta(1), trains=False)
    night.run(lambda: lines.nightly(night, SimpleNamespace(**{**vars(steps), "panel": panel})))  # type: ignore[arg-type]
    run, head = here.last_run()
    print(run.message, run.timings)
    assert (night.exit_code, run.outcome, head.run_id) == (3, "degraded", run.run_id)
    assert "the prediction failed, and was made from what the night had read before: the lake at " in str(run.message)
    assert str(head.cutoff) == "2026-05-11"


def test_a_hanging_prediction_is_ended_and_repeated_from_the_data_already_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Pipeline(pipeline(tmp_path, A_MINUTE))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncase "$3" in\npredict) exec sleep 300;;\n*) exec {sys.executable} "$@";;\nesac\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr("flows.night.PREDICTION", 10.0)
    night = Night.begin(str(here.file), NIGHT, trains=False)
    night.run(lambda: lines.nightly(night, steps))
    run, head = here.last_run()
    assert (night.exit_code, head.run_id) == (3, run.run_id)
    assert "read before: the prediction took longer than 10 s and was ended" in str(run.message)


def test_a_folder_that_hangs_ends_the_run_and_leaves_the_page(tmp_path: Path) -> None:
    here = Pipeline(pipeline_with_readings(tmp_path, A_MINUTE))
    _, before = here.last_run()
    [data] = (load(here.file).paths.lake / "demand").rglob("*.parquet")
    data.unlink()
    os.mkfifo(data)  # opening it blocks forever, like a file on a dead mount
    process = here.run()
    run, after = here.last_run()
    print(run.message, run.timings)
    assert (process.returncode, after) == (1, before)
    assert "did not answer within 10 s (table 'demand')" in str(run.message)
