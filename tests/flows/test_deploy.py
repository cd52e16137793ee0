"""One command starts everything, with deployed and scheduled flows, and stops everything."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows import deploy, local_stack
from forecaster.config import Spec, load
from forecaster.errors import SpecError
from tests.flows.stack_start import lines_until_up
from tests.flows.tiny import pipeline, pipeline_for_prefect
from tests.ports import free_ports

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("prefect", "mlflow", "page", "worker")
SCHEDULE = 'timezone: America/New_York\nschedule: {cron: "15 3 * * *", refresh: "0 8 * * 1-5"}\n'


@dataclass(frozen=True)
class Running:
    """A running `forecaster up`."""

    file: Path
    spec: Spec
    process: subprocess.Popen[str]
    api: str
    metrics_port: int

    def ask(self, path: str, **body: Any) -> Any:
        content = json.dumps(body).encode()
        request = urllib.request.Request(f"{self.api}{path}", content, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def stack_state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.spec.paths.local_stack.read_text("utf-8"))
        return state


def forecaster(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forecaster", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    file = pipeline_for_prefect(tmp_path_factory.mktemp("up"), SCHEDULE)
    ports = free_ports(4)
    names = ("prefect", "mlflow", "page", "metrics")
    options = [f"--{name}-port={port}" for name, port in zip(names, ports, strict=True)]
    command = [sys.executable, "-X", "faulthandler", "-m", "forecaster", "up", str(file), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        lines_until_up(process, load(file))
        yield Running(file, load(file), process, f"http://127.0.0.1:{ports[0]}/api", ports[3])
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(90)
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_the_scheduler_plans_the_night_in_the_pipelines_time_zone(running: Running) -> None:
    """Prefect's scheduler looks for due runs at least once a minute."""
    deadline = time.monotonic() + 300
    expected = {"nightly", "deadline", "predict-only", "maintain"}
    start_times: dict[str, list[str]] = {}
    flows = {flow["id"]: flow["name"] for flow in running.ask("/flows/filter")}
    while start_times.keys() != expected and time.monotonic() < deadline:
        time.sleep(1)
        runs = running.ask("/flow_runs/filter", flow_runs={"state": {"type": {"any_": ["SCHEDULED"]}}})
        start_times = {}
        for run in runs:
            start_times.setdefault(flows[run["flow_id"]], []).append(run["expected_start_time"])
    assert start_times.keys() == expected
    assert {instant[11:16] for instant in start_times["nightly"]} <= {"07:15", "08:15"}  # summer and winter, in UTC


def test_deploying_again_changes_nothing(running: Running) -> None:
    keys = ("id", "name", "entrypoint", "parameters", "schedules", "work_pool_name", "concurrency_limit", "pull_steps")

    def deployments() -> list[dict[str, Any]]:
        rows = running.ask("/deployments/filter", sort="NAME_ASC")
        plain = [{key: row[key] for key in keys} for row in rows]
        for row in plain:
            row["schedules"] = [schedule["schedule"] | {"slug": schedule["slug"]} for schedule in row["schedules"]]
        return sorted(plain, key=lambda row: str(row["entrypoint"]))

    before = deployments()
    process = forecaster("deploy", running.file)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == [
        "nightly/tiny: 15 3 * * * America/New_York",
        "deadline/tiny: 30 5 * * * America/New_York",
        "predict-only/tiny: 0 8 * * 1-5 America/New_York",
        "maintain/tiny: 0 12 * * 0 America/New_York",
        "backfill/tiny: by hand",
    ]
    assert deployments() == before
    assert len(before) == 5


def test_status_shows_running_parts_and_the_next_night(running: Running) -> None:
    lines: dict[str, str] = {}
    while not all(lines.get(part, "").startswith("up, ") for part in PARTS):  # a deployment restarts the page
        assert running.process.poll() is None
        process = forecaster("status", running.file)
        lines = {line[:10].strip(): line[10:].strip() for line in process.stdout.splitlines()}
    assert process.returncode == 0, process.stderr
    assert lines["next night"].endswith(" 03:15 America/New_York")
    assert lines["last run"].startswith("none")


def test_the_running_page_follows_an_edited_schedule_after_a_deployment(running: Running) -> None:
    def deadline() -> str:
        """Return the local time of the newest night's deadline, as Prometheus reads it; empty while
        the page starts."""
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{running.metrics_port}/metrics") as answer:
            found = re.search(r"forecaster_night_deadline_timestamp_seconds\{\S* (\S+)", answer.read().decode())
            return f"{datetime.fromtimestamp(float(found[1]), running.spec.zone):%H:%M}" if found else ""
        return ""

    before = running.file.read_text("utf-8")
    assert deadline() == "05:30"
    try:
        running.file.write_text(before.replace('refresh: "0', 'deadline: "06:40", refresh: "0'), "utf-8")
        assert forecaster("deploy", running.file).returncode == 0
        while deadline() != "06:40":
            assert running.process.poll() is None
            time.sleep(0.5)
    finally:
        running.file.write_text(before, "utf-8")


def test_an_invalid_pipeline_file_is_reported_in_state_log_and_page(running: Running) -> None:
    before = running.file.read_text("utf-8")
    nightly = running.ask("/deployments/filter", flows={"name": {"any_": ["nightly"]}})[0]
    try:
        running.file.write_text(before.replace("training: {", "training: {epoch: 3, "), "utf-8")
        with pytest.raises(SpecError) as refused:
            load(running.file)
        sentence = str(refused.value)
        flow_run = running.ask(f"/deployments/{nightly['id']}/create_flow_run", state={"type": "SCHEDULED"})
        while (state := flow_run["state"])["type"] in ("SCHEDULED", "PENDING", "RUNNING"):
            assert running.process.poll() is None
            time.sleep(0.5)
            flow_run = running.ask("/flow_runs/filter", flow_runs={"id": {"any_": [flow_run["id"]]}})[0]
    finally:
        running.file.write_text(before, "utf-8")
    assert (state["type"], state["message"]) == ("FAILED", sentence)
    first_line = sentence.splitlines()[0]
    assert first_line in (running.spec.paths.logs / "worker.log").read_text("utf-8")
    with urllib.request.urlopen(running.stack_state()["health"]["page"].replace("healthz", "health")) as answer:
        assert first_line in html.unescape(answer.read().decode())


def test_rejects_a_second_start(running: Running) -> None:
    process = forecaster("up", running.file)
    assert process.returncode == 5
    assert "tiny is up already" in process.stderr


def test_stopping_it_leaves_no_process_behind(running: Running) -> None:
    """Must be the last test of this file, since it stops the stack used by the others."""
    state = running.stack_state()
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(90) == 0
    assert not running.spec.paths.local_stack.exists()
    assert not any(local_stack.answers(url) for url in state["health"].values())
    for pid in state["pids"].values():
        with pytest.raises(ProcessLookupError):
            os.killpg(pid, 0)
    assert forecaster("status", running.file).stdout.startswith("parts      nothing is up; ")


def test_the_declaration_names_every_flow_and_every_variable(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    spec = load(file)
    filled = deploy.deployment_file(file, spec)
    assert [deployment["entrypoint"].split(":")[1].replace("_", "-") for deployment in filled["deployments"]] == [
        "nightly",
        "deadline",
        "predict-only",
        "maintain",
        "backfill",
    ]
    assert "FORECASTER_" not in yaml.safe_dump(filled)
    for deployment in filled["deployments"]:
        assert deployment["parameters"]["file"] == str(file)
        assert (ROOT / deployment["entrypoint"].split(":")[0]).exists()
    assert filled["deployments"][2]["schedules"] == []  # no refresh is declared


def test_rejects_a_schedule_at_a_skipped_hour_before_deploying(tmp_path: Path) -> None:
    file = pipeline(tmp_path, 'timezone: Europe/Berlin\nschedule: {cron: "30 2 * * *"}\n')
    with pytest.raises(
        SpecError, match=r"schedule.cron is '30 2 \* \* \*', and 02:30 does not exist on .* Europe/Berlin"
    ):
        deploy.deployment_file(file, load(file))
    process = forecaster("deploy", file)
    assert process.returncode == 2
    assert not (tmp_path / "var" / "prefect").exists()
