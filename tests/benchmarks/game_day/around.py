"""Faults of `forecaster up` and of the processes that it started."""

from __future__ import annotations

import os
import signal

from forecaster.ledger import lease
from tests.benchmarks.game_day.stage import PARTS, Stage, until

WAIT = 20.0  # seconds in which an unexpected alert would arrive


def parts_killed(stage: Stage) -> None:
    """Kill the parts one after another, each after all are up again."""
    stage.up()
    stage.watch()
    until(lambda: stage.value("forecaster_publication_timestamp_seconds"), "the ledger was scraped")
    for name in ("page", "mlflow", "prefect", "worker"):
        os.kill(lease.process_id(str(stage.part(name)["process"])), signal.SIGKILL)
        until(lambda part=name: _is_up_again(stage, part), f"{name} is up again")  # type: ignore[misc]
    stage.seen["started again"] = {name: stage.part(name)["restarts"] for name in PARTS}
    stage.quiet(WAIT)


def _is_up_again(stage: Stage, name: str) -> bool:
    part = stage.part(name)
    return bool(part["state"] == "up" and part["restarts"])


def up_killed(stage: Stage) -> None:
    """Kill `up`: its parts keep running; the next `up` stops them and starts its own."""
    process = stage.up()
    stage.watch()
    until(lambda: stage.value("forecaster_publication_timestamp_seconds"), "the ledger was scraped")
    process.kill()
    process.wait()
    stage.quiet(WAIT)
    stage.seen["page without `up`"] = "answers" if stage.answers() else "does not answer"
    stage.up()
    stage.quiet(WAIT)
