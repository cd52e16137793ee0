"""Faults of the page, its ledger and its alarm."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from forecaster.config import load
from forecaster.ledger.store import Ledger
from tests.benchmarks.game_day.installation import due_now, night
from tests.benchmarks.game_day.readers import reading
from tests.benchmarks.game_day.stage import NotSeen, Stage, until
from tests.e2e.on_call import running

HOUR = 60.0  # seconds that an hour of the alert rules takes
RATE, SECONDS, EVERY = 50, 60, 10
MIB = 1 << 20


def nothing(stage: Stage) -> None:
    stage.serve_and_watch()
    stage.quiet(HOUR)
    if not stage.person.heard.get("heartbeat"):
        raise NotSeen("no heartbeat")


def killed(stage: Stage) -> None:
    stage.serve_and_watch().kill()
    stage.hears("ForecasterSilent")
    stage.serve()
    stage.is_over("ForecasterSilent")


def one_of_two(stage: Stage) -> None:
    """Kill one page of two pipelines: the other's metrics must not hide that this one is silent."""
    other = stage.folder / "other"
    other.mkdir()
    shutil.copy(stage.file.parent / "demand.csv", other)
    file = other / "pipeline.yaml"
    file.write_text(stage.file.read_text("utf-8").replace("name: tiny", "name: other"), "utf-8")
    shutil.copytree(stage.state / "jax_cache", other / "var" / "jax_cache")
    night(file)
    command = (sys.executable, "-m", "forecaster", "metrics", str(file), "--port", str(stage.other_port))
    stage.stack.enter_context(running(command, stage.folder, "other"))
    page = stage.serve_and_watch(stage.other_port)
    of_other = 'forecaster_publication_timestamp_seconds{pipeline="other"}'
    until(lambda: stage.value(of_other), "both are scraped")
    page.kill()
    stage.hears("ForecasterSilent")
    stage.serve()
    stage.is_over("ForecasterSilent")


def alarm_killed(stage: Stage) -> None:
    """Kill Alertmanager: the receiver of the heartbeat notices that it stops."""
    stage.serve_and_watch()
    beats = stage.person.heard.setdefault("heartbeat", [])
    until(lambda: len(beats) > 2, "heartbeats arrive")
    stage.person.processes["prometheus-alertmanager"].kill()
    stage.quiet(2)
    before = len(beats)
    stage.quiet(10)  # long enough for ten heartbeats
    stage.seen["heartbeats"] = f"{before}, then {len(beats) - before}"
    if len(beats) > before:
        raise NotSeen("heartbeats continue without Alertmanager")


def ledger_away(stage: Stage) -> None:
    stage.serve_and_watch()
    away = stage.folder / "away"
    away.mkdir()
    with reading(stage.page_port, 5) as answers:
        for file in stage.state.glob("ledger.db*"):
            file.rename(away / file.name)
        stage.hears("ForecasterSilent")
        for file in away.iterdir():
            file.rename(stage.state / file.name)
        stage.is_over("ForecasterSilent")
    stage.seen["readers"] = f"{answers.error_share:.0%} errors in {answers.statuses.total()} answers"


def ledger_full(stage: Stage) -> None:
    """Put the state folder on a disk of its own, and fill the disk to the last byte."""
    state, aside = stage.state, stage.folder / "aside"
    shutil.copytree(state, aside)
    size = sum(path.stat().st_size for path in aside.rglob("*") if path.is_file()) + 16 * MIB
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "game-day", str(state)], check=True, timeout=30)
    stage.stack.callback(subprocess.run, ["umount", "-l", str(state)], check=True, timeout=30)
    shutil.copytree(aside, state, dirs_exist_ok=True)
    due_now(stage.file)
    stage.serve_and_watch()
    filling = state / "logs-of-something-else"
    _fill(filling)
    stage.night(1, 2, 3)
    stage.hears("ForecasterNightMissing")
    if not stage.answers():
        raise NotSeen("the page does not answer while the disk is full")
    filling.unlink()
    stage.night(0, 3)
    stage.is_over("ForecasterNightMissing")


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as full:
        for piece in (MIB, 4096, 1):
            try:
                while full.write(b"0" * piece):
                    pass
            except OSError:
                continue


def flood(stage: Stage) -> None:
    """Read at the rate of a large fleet at five in the morning, while publications arrive."""
    stage.serve_and_watch()
    with reading(stage.page_port, RATE) as answers:
        published = _publish_every(stage.file, EVERY, SECONDS)
    p50, p95, p99 = (round(1000 * answers.percentile(share)) for share in (0.5, 0.95, 0.99))
    stage.seen["readers"] = (
        f"{answers.statuses.total()} answers, {answers.error_share:.2%} errors, p50 {p50}, p95 {p95}, p99 {p99} ms, "
        f"{published} publications"
    )
    stage.quiet(5)
    if answers.error_share > 0.001:
        raise NotSeen(f"{answers.error_share:.2%} of the answers were errors")


def _publish_every(file: Path, pause: float, seconds: float) -> int:
    """Publish the current publication again under a new run every `pause` seconds; return the
    number of publications."""
    spec, begun = load(file), time.monotonic()
    with Ledger.open(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None, f"{file}: nothing is published"
        publication = ledger.whole(head)
        for number in range(1, int(seconds // pause) + 1):
            time.sleep(max(0.0, begun + number * pause - time.monotonic()))
            run_id, now = f"again-{number}", datetime.now(UTC)
            ledger.start_run(run_id, pipeline=spec.name, as_of=publication.as_of, spec_digest=spec.digest)
            ledger.publish(replace(publication, run_id=run_id, published_at=now))
            ledger.finish_run(run_id, "published", 0, None)
    return int(seconds // pause)
