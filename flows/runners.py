"""Task runners of parallel work (fan-out): threads of this process, or processes of a Dask cluster.

`execution` of the pipeline file says which. Each part is a task of Prefect's own task runners, and
shows as such. What is sent to a cluster is pickled there and back: a cluster is as trusted as the
machine of the night itself.
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

AHEAD = 2  # parts a worker that are handed over before the oldest is done: panels are large


@task(name="part", cache_policy=NO_CACHE, persist_result=False)
def part(call: Callable[[], Any]) -> Any:
    """One call of a fan."""
    return call()


@contextmanager
def open_fan(spec: Spec, on_trouble: Callable[[str], None]) -> Iterator[Fan]:
    """The fan that the pipeline file asks for; a cluster of its own lives as long as this.

    A cluster that does not come up, or does not answer, is told of, and the work is done in turn.
    Raises MissingExtra where the runner's package is not installed.
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
        except Exception as error:  # of whatever kind a cluster may raise
            where = execution.address or sentence(N_("this machine"))
            template = N_("{runner} on {where} did not start; its work was done sequentially: {why}")
            on_trouble(sentence(template, runner=execution.runner, where=where, why=_short(error)))
        yield fan


def task_runner(execution: Execution) -> TaskRunner[Any]:
    """Prefect's task runner for a section `execution`, not started yet. Raises MissingExtra."""
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
    """The fan of a runner that is started. Raises whatever a cluster raises that does not come
    up."""
    outcome_of: Callable[[Any], Any] = methodcaller("result")
    if execution.runner == "dask":
        # The client comes up when it is first asked for.
        outcome_of = partial(plugin("groups.workers").outcome_of, client=pool.client)

    def submit(call: Callable[[], Any]) -> Any:
        # The task from which a part is handed over would be sent along, and with it the night,
        # which has locks.
        beside_task = TaskRunContext.__var__.set(None)  # type: ignore[arg-type]
        try:
            return pool.submit(part, {"call": call})
        finally:
            TaskRunContext.__var__.reset(beside_task)

    def fan(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
        waiting, done = iter(calls), list[Any]()
        submitted = deque(map(submit, islice(waiting, AHEAD * execution.workers)))
        try:
            while submitted:
                done.append(outcome_of(submitted[0]))
                submitted.popleft()
                submitted.extend(map(submit, islice(waiting, 1)))
        finally:  # of calls that nobody waits for any more, those that have not begun
            for future in submitted:
                future.wrapped_future.cancel()
        return done

    return fan


def _short(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
