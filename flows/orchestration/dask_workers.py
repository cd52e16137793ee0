"""Workers of a Dask cluster, and what comes of a call that they have too little memory for (failure
detection).

Dask's own setting is to pause a worker at 80 % of its memory: it then neither works nor gives its
calls away, and where all are paused nothing goes on. The workers of a cluster that a night starts
are never paused: one that grows on is killed at 95 % of its limit, and its calls are made again by
others. Those of a cluster that is up already are watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any

from forecaster.errors import TimeLimitExceeded, WorkersKilled

LOOK = 15.0  # seconds between two looks at the workers that a call is waited for from
# seconds for which none of them may be at work: a new one may take minutes to come up
STILL = 600.0
NEVER_PAUSED = {"distributed": {"worker": {"memory": {"target": False, "spill": False, "pause": False}}}}


def cluster_arguments(workers: int) -> dict[str, Any]:
    """Arguments of Dask's cluster of this machine; the night itself has as much memory as a
    worker."""
    import dask.config
    from distributed.system import MEMORY_LIMIT

    return {
        "n_workers": workers,
        "threads_per_worker": 1,
        "processes": True,
        "memory_limit": MEMORY_LIMIT // (workers + 1),
        # Its HTTP server takes any free port: on Dask's own another night's cluster may be.
        "scheduler_kwargs": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        # Whole, as workers take each section for all of it; theirs alone, so that those started
        # later have it as well.
        "config": dask.config.merge(dask.config.config, NEVER_PAUSED),
    }


def outcome_of(future: Any, client: Any) -> Any:
    """Result of a call that Prefect submitted to Dask.

    Raises WorkersKilled where it killed as many workers as Dask allows for, TimeLimitExceeded where
    no worker has been at work for `STILL` seconds, and whatever the call raised.
    """
    from distributed.scheduler import KilledWorker

    last_work = monotonic()
    while not _is_done(future):
        workers = client.scheduler_info()["workers"]
        if any(map(_is_at_work, workers.values())):
            last_work = monotonic()
        elif monotonic() - last_work >= STILL:
            raise TimeLimitExceeded(_standstill(workers))
    try:
        return future.result()
    except KilledWorker as error:
        limit = error.last_worker.memory_limit
        raise WorkersKilled(
            f"{error.allowed_failures + 1} workers of {limit / 1e9:.3g} GB ended, one after the other, in the same "
            "part of the work, as one that they have too little memory for; set `execution.depots_at_a_time` lower, or "
            "`execution.workers` where the night starts them, or give those of a cluster more (`--memory-limit`)"
        ) from None


def _is_done(future: Any) -> bool:
    future.wait(LOOK)  # which swallows that the time is over
    return bool(future.wrapped_future.done())


def _is_at_work(worker: Mapping[str, Any]) -> bool:
    executing: int = worker["metrics"]["task_counts"].get("executing", 0)
    return worker["status"] == "running" or executing > 0


def _standstill(workers: Mapping[str, Any]) -> str:
    if not workers:
        return f"the Dask cluster has had no worker for {STILL:.0f} s; wanted at least one (`dask worker ADDRESS`)"
    states = ", ".join(sorted({str(worker["status"]) for worker in workers.values()}))
    return (
        f"no worker of the Dask cluster has been at work for {STILL:.0f} s, all {len(workers)} are {states}: Dask "
        "pauses one at 80 % of its memory; set `distributed.worker.memory.pause: false` for its workers, and "
        "`execution.depots_at_a_time` lower or their `--memory-limit` higher"
    )
