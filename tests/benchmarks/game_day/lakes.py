"""Faults of a lake in an object store: moto's server behind a gateway that is slow, fails or hangs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import fsspec

from tests.benchmarks.game_day.installation import AMPLE, due_now
from tests.benchmarks.game_day.stage import NotSeen, Stage
from tests.stores import Gateway, s3_server

BUCKET, DELAY = "game-day", 0.3
KEYS = {"ACCESS_KEY_ID": "testing-key", "SECRET_ACCESS_KEY": "testing-secret", "REGION": "us-east-1"}


def slow(stage: Stage) -> None:
    gateway, environment = _in_a_bucket(stage)
    due_now(stage.file, least=AMPLE)
    stage.serve_and_watch()
    gateway.delay = DELAY
    stage.night(0, **environment)
    stage.seen["requests"] = gateway.requests
    stage.quiet(10)


def refuses(stage: Stage) -> None:
    _while_due(stage, lambda gateway, wrong: setattr(gateway, "fails", lambda method, path: wrong))


def hangs(stage: Stage) -> None:
    _while_due(stage, lambda gateway, wrong: setattr(gateway, "hangs", lambda method, path: wrong))


def _while_due(stage: Stage, make: Callable[[Gateway, bool], None]) -> None:
    """Make the lake unreadable until the deadline: yesterday's forecast stays, on-call staff are
    alerted, and a later run publishes."""
    gateway, environment = _in_a_bucket(stage)
    due_now(stage.file)
    stage.serve_and_watch()
    make(gateway, True)
    stage.night(1, **environment)
    stage.hears("ForecasterNightMissing")
    if not stage.answers():
        raise NotSeen("the page does not answer without the lake")
    make(gateway, False)
    stage.night(0, 3, **environment)
    stage.is_over("ForecasterNightMissing")


def _in_a_bucket(stage: Stage) -> tuple[Gateway, dict[str, str]]:
    """Move the installation's lake into a bucket; return the gateway, and the environment variables
    of a run."""
    address = stage.stack.enter_context(s3_server())
    store = fsspec.filesystem("s3", key="testing-key", secret="testing-secret", endpoint_url=address)
    store.mkdir(BUCKET)
    lake: Path = stage.state / "lake"
    store.put(f"{lake}/", f"{BUCKET}/lake/", recursive=True)
    lake.rename(stage.folder / "lake-before")
    with stage.file.open("a", encoding="utf-8") as file:
        file.write(f"lake: s3://{BUCKET}/lake\n")
    gateway = Gateway(address)
    stage.stack.callback(gateway.close)
    variables = {**KEYS, "ENDPOINT_URL": gateway.address, "ALLOW_HTTP": "true"}
    environment = {f"AWS_{name}": value for name, value in variables.items()}
    os.environ |= environment  # for the page
    return gateway, environment
