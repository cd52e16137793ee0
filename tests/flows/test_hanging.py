"""Unresponsive dependencies of a run (a source, a database, the registry) cost no more than their
share of the time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.ledger.records import Run
from forecaster.ledger.store import Ledger
from tests.databases import Postgres, postgres  # noqa: F401 (a fixture)
from tests.flows.tiny import NIGHT, PIPELINE, pipeline_that_knows_its_model, pipeline_with_readings

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
A_MINUTE = "schedule: {cron: '0 3 * * *', deadline: '03:01'}\n"
"""Between start and deadline, so that a source may be silent for ten seconds."""


@pytest.fixture
def silent() -> Iterator[str]:
    """Run a server that accepts connections and never answers; yields its host and port."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def forecaster(command: str, file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "forecaster", command, "--plain", str(file), "--as-of", NIGHT.isoformat()],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


def last_run(file: Path) -> Run:
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        assert ledger.current("tiny") is not None
        return ledger.runs()[0]


def test_gives_up_on_a_source_that_never_opens_and_publishes(tmp_path: Path) -> None:
    file = pipeline_with_readings(tmp_path, A_MINUTE)
    (tmp_path / "demand.csv").unlink()
    os.mkfifo(tmp_path / "demand.csv")
    process = forecaster("predict-only", file)
    assert process.returncode == 3, process.stderr
    assert (
        "the sources could not be read: the source demand.csv gave nothing for 10 s, of the 60 s between schedule.cron "
        "and schedule.deadline"
    ) in str(last_run(file).message)


def test_gives_up_on_a_silent_database_and_publishes(tmp_path: Path, silent: str) -> None:
    file = pipeline_with_readings(tmp_path, A_MINUTE)
    source = f"{{kind: sql, url: 'postgresql+psycopg://reader@{silent}/orders', table: demand}}"
    file.write_text(PIPELINE.replace("{kind: csv, path: demand.csv}", source) + A_MINUTE, "utf-8")
    assert forecaster("predict-only", file).returncode == 3
    assert "the source demand gave nothing for 10 s" in str(last_run(file).message)


def test_gives_up_on_a_sleeping_view_and_publishes(
    tmp_path: Path,
    postgres: Postgres,  # noqa: F811
) -> None:
    postgres.run(
        "create table counts (depot_id text, date date, demand int)",
        "insert into counts values ('D0', '2026-05-10', 3)",
        "create view sleeping as select depot_id, date, demand from counts, pg_sleep(600)",
    )
    file = pipeline_with_readings(tmp_path, A_MINUTE)
    url = postgres.url().render_as_string(hide_password=False).replace("'", "''")
    source = (
        f"{{kind: sql, url: '{url.replace(url.split(':')[2].rpartition('@')[0], '${PASSWORD}')}', table: sleeping}}"
    )
    file.write_text(PIPELINE.replace("{kind: csv, path: demand.csv}", source) + A_MINUTE, "utf-8")
    process = forecaster("predict-only", file, PASSWORD=postgres.url().password or "")
    assert process.returncode == 3, process.stderr
    assert "the source sleeping gave nothing for 10 s" in str(last_run(file).message)


@pytest.mark.parametrize("hangs", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_reports_an_unavailable_registry_after_publishing(tmp_path: Path, silent: str, hangs: bool) -> None:
    registry = f"http://{silent}" if hangs else "http://127.0.0.1:9"
    file = pipeline_that_knows_its_model(tmp_path, f"registry: {registry}\n")
    limits = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "2", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
    process = forecaster("run", file, **limits)
    assert process.returncode == 3, process.stderr
    run = last_run(file)
    assert str(run.message).startswith(
        f"the run could not be recorded in the registry; a later night will record it: {registry}: MlflowException: "
        f"API request to"
    )
    assert "Retrying (" not in process.stderr
    assert process.stderr.index("as publication 1") < process.stderr.index("the run into MLflow")
    assert "The run:  MLflow was not told of it yet" in process.stdout
    assert run.tier == "fresh"
