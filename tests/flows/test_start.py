"""Prerequisites of a run."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from datetime import date
from pathlib import Path

import pytest

from flows import prefect_server, start
from flows.night import Night
from forecaster.config import Spec, load
from forecaster.errors import ForecasterError, MissingExtra, SpecError
from forecaster.ledger.store import Ledger
from tests.flows.tiny import NIGHT, pipeline, pipeline_for_prefect

ROOT = Path(__file__).resolve().parents[2]


def test_names_a_missing_package_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "prefect" else real(name))
    spec = Spec.model_validate({"name": "x", "demand": {"source": {"kind": "csv", "path": "x.csv"}}})
    with pytest.raises(MissingExtra, match=r"a night needs prefect, .*forecaster\[train,flows\]"):
        start.nightly(Path("x.yaml"), spec)


def test_all_declared_entry_points_exist() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    for place in declared["forecaster.lines"].values():
        module, _, name = place.partition(":")
        assert callable(getattr(importlib.import_module(module), name)), place


def test_keeps_the_users_own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(prefect_server.URL, "http://127.0.0.1:1/api")
    with prefect_server.running() as ready:
        with pytest.raises(ForecasterError, match=r"nothing that speaks HTTP answers at http://127\.0\.0\.1:1/api"):
            ready(prefect_server.PATIENCE)
        assert os.environ[prefect_server.URL] == "http://127.0.0.1:1/api"
    assert os.environ[prefect_server.URL] == "http://127.0.0.1:1/api"


def test_reports_and_discards_a_server_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with prefect_server.running() as ready, pytest.raises(ForecasterError, match="stopped at once with exit code"):
        ready(prefect_server.PATIENCE)
    assert prefect_server.URL not in os.environ


@pytest.mark.long
def test_the_server_ends_when_the_run_is_killed(tmp_path: Path) -> None:
    """SIGKILL leaves the run no chance to end its server."""
    night = (
        "import os, time; from pathlib import Path; from flows import environment, prefect_server; "
        f"environment.prepare(Path({str(tmp_path)!r})); context = prefect_server.running(); "
        "ready = context.__enter__(); ready(120); print(os.environ[prefect_server.URL], flush=True); time.sleep(300)"
    )
    process = subprocess.Popen([sys.executable, "-c", night], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().split(":")[-1].split("/")[0])
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 120
    while answers(port) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not answers(port)


@pytest.mark.long
def test_the_server_ends_when_the_run_was_killed_before_the_server_began(tmp_path: Path) -> None:
    night = (
        "import os, signal; from pathlib import Path; from flows import environment, prefect_server; "
        f"environment.prepare(Path({str(tmp_path)!r})); context = prefect_server.running(); context.__enter__(); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    process = subprocess.Popen([sys.executable, "-c", night], start_new_session=True)
    assert process.wait() == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    is_left = group_lives(process.pid)
    if is_left:
        os.killpg(process.pid, signal.SIGKILL)
    assert not is_left
    assert not list(tmp_path.rglob("prefect.db"))


def group_lives(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
def test_a_run_that_ends_early_waits_for_the_current_import_and_starts_no_other(tmp_path: Path) -> None:
    """Modules that register an exit handler, such as JAX, cannot do so while the process ends: it
    would end with a traceback."""
    registers = "import threading, time; time.sleep(1); threading._register_atexit(print, 'imported')"
    (tmp_path / "heavy.py").write_text(registers, "utf-8")
    (tmp_path / "next.py").write_text("print('never')", "utf-8")
    (tmp_path / "later.py").write_text("print('later')", "utf-8")
    (tmp_path / "broken.py").write_text("import nothing_of_this_name", "utf-8")
    code = (
        "import time; from flows import start\n"
        "with start._imported_ahead(('broken',)): time.sleep(0.3)\n"  # reported by the user of the module
        "with start._imported_ahead((), ('next',)): time.sleep(0.1)\n"  # never waits for another process
        "with start._imported_ahead(('heavy', 'next')): time.sleep(0.3)\n"
        "waits = start.threading.Event(); waits.set()\n"
        "with start._imported_ahead((), ('later',), waits): time.sleep(0.3)"
    )
    path = os.pathsep.join((str(Path(__file__).parents[2]), str(tmp_path)))
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "later\nimported\n", "")


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((prefect_server.HOST, port)) == 0


@pytest.mark.parametrize("module", ["lines", "nightly", "predict_only", "backfill", "maintain", "deadline"])
def test_each_flow_reads_on_one_page(module: str) -> None:
    assert len((ROOT / "flows" / f"{module}.py").read_text("utf-8").splitlines()) < 80


def test_a_concurrent_run_reports_the_other_and_exits_with_five(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    first = Night.begin(str(file))
    command = [sys.executable, "-m", "forecaster", "predict-only", str(file), "--plain"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 5
    assert f"not begun: run {first.run_id} has been active since " in process.stderr
    process = subprocess.run(
        [*command[:3], "predict", str(file)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 5
    assert f"run {first.run_id} has been active since " in process.stderr


def test_rejects_dates_without_a_night_before_prefect_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pipeline(tmp_path)
    monkeypatch.setattr(prefect_server, "running", None)
    with pytest.raises(SpecError, match="from 2024-03-20 to 2024-03-10 no night is scheduled"):
        start.backfill(file, load(file), date(2024, 3, 20), date(2024, 3, 10))


def test_the_run_continues_plainly_without_prefects_server(tmp_path: Path) -> None:
    """The row exists before Prefect does; a server that does not come up is reported, without other
    effects.

    Runs in its own process, since Prefect keeps the environment that it read on import.
    """
    file = pipeline_for_prefect(tmp_path)
    refresh = (
        "import sys; from datetime import datetime; from pathlib import Path; "
        "from flows import prefect_server, start; from forecaster.config import load; prefect_server.PATIENCE = -1; "
        f"file = Path({str(file)!r}); sys.exit(start.refresh(file, load(file), datetime.fromisoformat({str(NIGHT)!r})))"
    )
    process = subprocess.run([sys.executable, "-c", refresh], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 3, process.stderr
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        [run] = ledger.runs()
        assert ledger.current("tiny") is not None
    assert "; Prefect did not start; the run continued without it: " in str(run.message)
