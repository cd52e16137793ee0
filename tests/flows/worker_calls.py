"""Calls for the workers of a cluster, which import them by name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forecaster.publishing.groups import group_work


def after_dying_once(marker: Path, call: Callable[[], Any]) -> Any:
    """Return the result of a call, but kill the first process that runs it, as if it ran out of
    memory."""
    try:
        with marker.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return call()
    os.kill(os.getpid(), signal.SIGKILL)
    return None


def too_large_above(depots: int, call: partial[Any]) -> Any:
    """Return the result of a call, but kill the worker each time for a group with more IDs."""
    if call.func is group_work.see and call.args[2].last - call.args[2].first > depots:
        os.kill(os.getpid(), signal.SIGKILL)
    return call()


def pauses_at() -> float | bool:
    """Return the share of its memory at which Dask pauses the current worker."""
    from distributed import get_worker

    fraction: float | bool = get_worker().memory_manager.memory_pause_fraction
    return fraction


def pause() -> None:
    """Pause the current worker, as Dask does when its memory is nearly full."""
    from distributed import Status, get_worker

    worker = get_worker()
    worker.loop.add_callback(setattr, worker, "status", Status.paused)
    while worker.status != Status.paused:
        time.sleep(0.01)
