"""Calls for the workers of a cluster, which find them by name."""

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
    """What a call gives; the first process that is asked is killed, as by a machine that runs out of memory."""
    try:
        with marker.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return call()
    os.kill(os.getpid(), signal.SIGKILL)
    return None


def too_large_above(depots: int, call: partial[Any]) -> Any:
    """What a call gives; one that looks at a group of more ids kills its worker, each time."""
    if call.func is group_work.see and call.args[2].last - call.args[2].first > depots:
        os.kill(os.getpid(), signal.SIGKILL)
    return call()


def pauses_at() -> float | bool:
    """The share of its memory at which Dask pauses the worker that is asked."""
    from distributed import get_worker

    fraction: float | bool = get_worker().memory_manager.memory_pause_fraction
    return fraction


def pause() -> None:
    """Pause the worker that is asked, as Dask does where its memory is nearly full."""
    from distributed import Status, get_worker

    worker = get_worker()
    worker.loop.add_callback(setattr, worker, "status", Status.paused)
    while worker.status != Status.paused:
        time.sleep(0.01)
