"""Task runners of parallel work (fan-out): threads of this process, or processes of a Dask cluster.

`execution` of the pipeline file selects the runner. Each part is a task of Prefect's own task
runners, and shown as such. Arguments and results of a cluster are pickled: a cluster is as trusted
as the machine of the run itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from operator import methodcaller
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.context import TaskRunContext
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from forecaster.config import Spec
from forecaster.config.execution import Execution
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.core.parallel import Fan, in_turn
from forecaster.errors import MissingExtra
from forecaster.plugins import plugin

AHEAD = 2  # parts per worker submitted before the oldest is done; bounds memory, as panels are large


@task(name="part", cache_policy=NO_CACHE, persist_result=False)
def part(call: Callable[[], Any]) -> Any:
    """Run one call of a fan."""
    return call()


@contextmanager
def open_fan(spec: Spec, on_trouble: Callable[[str], None]) -> Iterator[Fan]:
    """Open the fan selected by the pipeline file; its own cluster lives as long as this context.

    If a cluster does not come up or does not answer, that is reported, and the work is done
    sequentially. Raises MissingExtra if the runner's package is not installed.
    """
    execution = spec.execution
    if execution.runner == "threads" and execution.workers == 1:
        yield in_turn
        return
    pool = task_runner(execution)
    with ExitStack() as stack:
        fan = in_turn
        try:
            stack.enter_context(pool)
            fan = _handing_to(pool, execution)
        except Exception as error:  # of any kind that a cluster may raise
            where = execution.address or sentence(N_("this machine"))
            template = N_("{runner} on {where} did not start; its work was done sequentially: {why}")
            on_trouble(sentence(template, runner=execution.runner, where=where, why=_short(error)))
        yield fan


def task_runner(execution: Execution) -> TaskRunner[Any]:
    """Return Prefect's task runner for a section `execution`, not started yet. Raises MissingExtra."""
    if execution.runner == "threads":
        return ThreadPoolTaskRunner(max_workers=execution.workers)
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"execution.runner is dask, which needs {error.name}, not installed here: "
            "pip install 'harbor-forecaster[cluster]'"
        ) from error
    if execution.address:
        return DaskTaskRunner(address=execution.address)
    return DaskTaskRunner(cluster_kwargs=plugin("groups.workers").cluster_arguments(execution.workers))


def _handing_to(pool: Any, execution: Execution) -> Fan:
    """Return the fan of a started runner. Raises whatever a cluster that does not come up raises."""
    outcome_of: Callable[[Any], Any] = methodcaller("result")
    if execution.runner == "dask":
        # The client is created on first access.
        outcome_of = partial(plugin("groups.workers").outcome_of, client=pool.client)

    def submit(call: Callable[[], Any]) -> Any:
        # The submitting task would be pickled as well, and with it the run, which has locks.
        beside_task = TaskRunContext.__var__.set(None)  # type: ignore[arg-type]
        try:
            return pool.submit(part, {"call": call})
        finally:
            TaskRunContext.__var__.reset(beside_task)

    def fan(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
        waiting, results = iter(calls), list[Any]()
        submitted = deque(map(submit, islice(waiting, AHEAD * execution.workers)))
        try:
            while submitted:
                results.append(outcome_of(submitted[0]))
                submitted.popleft()
                submitted.extend(map(submit, islice(waiting, 1)))
        finally:  # cancel submitted calls that have not begun and are no longer needed
            for future in submitted:
                future.wrapped_future.cancel()
        return results

    return fan


def _short(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
