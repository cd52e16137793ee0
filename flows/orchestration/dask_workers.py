"""Workers of a Dask cluster, and the handling of calls that exceed their memory (failure
detection).

By default Dask pauses a worker at 80 % of its memory: it then neither works nor returns its calls,
and once all are paused nothing proceeds. Workers of a cluster started by a run are never paused:
one that grows further is killed at 95 % of its limit, and its calls are repeated by others. Those
of an existing cluster are monitored.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any

from forecaster.errors import TimeLimitExceeded, WorkersKilled

LOOK = 15.0  # seconds between two checks of the workers
# seconds without an active worker until giving up: a new one may take minutes to come up
STILL = 600.0
NEVER_PAUSED = {"distributed": {"worker": {"memory": {"target": False, "spill": False, "pause": False}}}}


def cluster_arguments(workers: int) -> dict[str, Any]:
    """Return the arguments of Dask's cluster on this machine; the run itself gets as much memory as
    a worker."""
    import dask.config
    from distributed.system import MEMORY_LIMIT

    return {
        "n_workers": workers,
        "threads_per_worker": 1,
        "processes": True,
        "memory_limit": MEMORY_LIMIT // (workers + 1),
        # Its HTTP server takes any free port: Dask's default may be in use by another run's
        # cluster.
        "scheduler_kwargs": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        # Complete, as workers replace each section; only for this cluster, so that workers started
        # later have it as well.
        "config": dask.config.merge(dask.config.config, NEVER_PAUSED),
    }


def outcome_of(future: Any, client: Any) -> Any:
    """Return the result of a call that Prefect submitted to Dask.

    Raises WorkersKilled if it killed as many workers as Dask allows, TimeLimitExceeded if no worker
    has been active for `STILL` seconds, and whatever the call raised.
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
    future.wait(LOOK)  # swallows its own timeout
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
