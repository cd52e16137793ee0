"""Faults of a nightly run: its training, schedule, model, rows and compiled programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from forecaster.config import load
from tests.benchmarks.game_day.commands import expect, forecaster
from tests.benchmarks.game_day.installation import AMPLE, due_now, today, write_demand
from tests.benchmarks.game_day.stage import NotSeen, Stage, until

LIMIT = 120 << 20  # bytes; a training needs three times as many
GROUPS = Path("/sys/fs/cgroup/memory")  # cgroups version 1
HOURS = 0.045  # maximum of a training, beyond the deadline
BAD_ROWS = 200
NEW_JAXLIB = """
import importlib.metadata
known = importlib.metadata.version
importlib.metadata.version = lambda name: "99.0" if name == "jaxlib" else known(name)
"""


def training_killed(stage: Stage) -> None:
    """Let the kernel kill the training of two runs for lack of memory: the champion forecasts, and
    an alert reports it."""
    due_now(stage.file, least=AMPLE)
    stage.serve_and_watch()
    group = _memory_group(stage)
    for _ in range(2):
        begun = time.monotonic()
        process, output = stage.begin("run", str(stage.file), "--plain")
        stage.seen["limit"] = _limit_memory(group, stage.training(process))
        end = stage.ended(process, output, begun, 3)
        if "training process" not in end.err:
            raise NotSeen(f"the run does not report that its training was killed: {end.sentence}")
    stage.hears("ForecasterNightDegraded")


def _memory_group(stage: Stage) -> Path | None:
    """Return a control group whose processes the kernel kills above the memory limit; None if none
    can be made."""
    group = GROUPS / f"game-day-{os.getpid()}"
    with suppress(OSError):
        group.mkdir(exist_ok=True)
        stage.stack.callback(_remove, group)
        (group / "memory.limit_in_bytes").write_text(str(LIMIT), "ascii")
        return group
    return None


def _limit_memory(group: Path | None, pid: int) -> str:
    """Limit the memory of a process; return a description of the limit."""
    if group is not None:
        (group / "cgroup.procs").write_text(str(pid), "ascii")
        return f"control group, {LIMIT >> 20} MiB"
    subprocess.run(["prlimit", "--pid", str(pid), f"--as={LIMIT}"], check=True, timeout=10)
    return f"address space, {LIMIT >> 20} MiB"


def _remove(group: Path) -> None:
    with suppress(OSError, NotSeen):
        until(lambda: not group.joinpath("cgroup.procs").read_text("ascii"), "the group is empty", 10)
        group.rmdir()


def killed_twice(stage: Stage) -> None:
    """Kill two runs: the second closes the ledger's row of the first, a third that of the second,
    and succeeds."""
    due_now(stage.file)
    stage.serve_and_watch()
    for _ in range(2):
        process, _ = stage.begin("run", str(stage.file), "--plain")
        stage.training(process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    stage.night(0, 3)
    stage.hears("ForecasterOutOfMemory")


def training_hangs(stage: Stage) -> None:
    """Suspend a training: it is ended at its time limit, and the champion forecasts."""
    due_now(stage.file, f", max_training_hours: {HOURS}")
    stage.serve_and_watch()
    begun = time.monotonic()
    process, output = stage.begin("run", str(stage.file), "--plain")
    os.kill(stage.training(process), signal.SIGSTOP)
    stage.hears("ForecasterNightMissing")
    end = stage.ended(process, output, begun, 3)
    if "max_training_hours" not in end.err:
        raise NotSeen(f"the run does not report that its training was ended: {end.sentence}")
    stage.is_over("ForecasterNightMissing")


def missed(stage: Stage) -> None:
    """Start from an installation made with a clock two days behind: the page shows its last
    forecast, and an alert reports the missing runs."""
    stage.serve_and_watch()
    stage.hears("ForecasterNightMissing")
    if not stage.answers():
        raise NotSeen("the page does not show the forecast of two days ago")
    until(lambda: "ForecasterForecastStale" in stage.fired(), "ForecasterForecastStale fires")
    stage.night(0, 3)
    stage.is_over("ForecasterNightMissing")


def registry_away(stage: Stage) -> None:
    with stage.file.open("a", encoding="utf-8") as file:
        file.write("registry: http://127.0.0.1:9\n")
    stage.serve_and_watch()
    for _ in range(4):
        stage.night(3, MLFLOW_HTTP_REQUEST_TIMEOUT="2", MLFLOW_HTTP_REQUEST_MAX_RETRIES="0")
    stage.hears("ForecasterRegistryBehind")


def no_model(stage: Stage) -> None:
    """Remove the champion's bundle: the next refresh forecasts by the seasonal naive, and by the
    champion again after the bundle is back."""
    bundles, aside = load(stage.file).paths.bundles, stage.folder / "bundles"
    stage.serve_and_watch()
    bundles.rename(aside)
    expect(forecaster(stage.file.parent, "predict", str(stage.file)), 3)
    stage.hears("ForecasterFallback")
    if bundles.exists():
        shutil.rmtree(bundles)
    aside.rename(bundles)
    expect(forecaster(stage.file.parent, "predict", str(stage.file)))
    stage.is_over("ForecasterFallback")


def bad_rows(stage: Stage) -> None:
    due_now(stage.file, least=AMPLE)
    yesterday = today(stage.file) - timedelta(days=1)
    rows = tuple(f"D{number % 4},{yesterday - timedelta(days=number // 4)},-{number + 1}" for number in range(BAD_ROWS))
    write_demand(stage.file.parent, until=yesterday, more=rows)
    stage.serve_and_watch()
    stage.night(0, 3)
    stage.hears("ForecasterQuarantineFlood")


def empty_cache(stage: Stage) -> None:
    due_now(stage.file, least=AMPLE)
    stage.serve_and_watch()
    shutil.rmtree(load(stage.file).paths.jax_cache)
    stage.night(0)
    stage.hears("ForecasterCompilesAnew")


def empty_cache_deploying(stage: Stage) -> None:
    due_now(stage.file, least=AMPLE)
    stage.serve_and_watch()
    expect(forecaster(stage.file.parent, "deploy", str(stage.file)))
    until(lambda: stage.value("forecaster_deploy_window == 1"), "the deploy window is open")
    shutil.rmtree(load(stage.file).paths.jax_cache)
    stage.night(0)
    until(lambda: "ForecasterCompilesAnew" in stage.fired(), "ForecasterCompilesAnew fires")
    stage.quiet(15)


def new_jaxlib(stage: Stage) -> None:
    """Train with a patched version of jaxlib: no program is in the cache, which is expected."""
    due_now(stage.file, least=AMPLE)
    stage.serve_and_watch()
    patch = stage.folder / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(NEW_JAXLIB, "utf-8")
    shutil.rmtree(load(stage.file).paths.jax_cache)
    stage.night(0, PYTHONPATH=str(patch))
    until(lambda: stage.value("forecaster_compile_cache_misses > 0"), "the compiled programs are scraped")
    if not stage.value("forecaster_run_versions_changed == 1"):
        raise NotSeen("the metrics do not show the changed versions")
    stage.quiet(15)
