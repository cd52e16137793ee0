"""The steps as Prefect tasks: the retry policy and time limit of each.

A step that reaches out (a source, the registry) is retried; one that computes is not, since it
would give the same numbers. The steps themselves are plain functions, in `flows.steps`.

Prefect's own cache is off. The finished work of a killed run is already stored, in one place each:
the lake's batches, the checkpoints with the digest of their training input (panel, model, training,
version), graphs by the sizes of their network, bundles by the digest of their weights, the ledger's
rows. All of it works without Prefect too. A cache would be a second source of truth, unaware of a
restored lake or a removed checkpoint; and its results, panels and models of any size, would be
pickled, which this product never does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import exponential_backoff

from flows import runners, steps
from flows.night import Night
from forecaster.core.forecast import Candidate, Scores
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.errors import MissingExtra, NoUsableData, SourceUnreachable, SpecError, TimeLimitExceeded

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

PAUSE = "FORECASTER_PAUSE"
"""Environment variable: seconds before the first retry of a step that reaches out; each further
pause doubles."""


def _worth_another_try(_: Task[..., Any], __: TaskRun, state: State[Any]) -> bool:
    try:
        state.result()
    except Exception as error:
        return _may_recover(error)
    return False


def _may_recover(error: Exception) -> bool:
    """Return whether a retry may succeed: an invalid file stays invalid, and a hung call has used
    its time; a busy disk or a network may recover, a missing export may arrive."""
    lost_for_tonight = SpecError, NoUsableData, MissingExtra, TimeLimitExceeded
    return isinstance(error, SourceUnreachable) or not isinstance(error, lost_for_tonight)


def computes(step: Callable[Arguments, Result]) -> Task[Arguments, Result]:
    """Wrap a step that is never retried and never cached: its arguments and results stay in memory."""
    return task(cache_policy=NO_CACHE, persist_result=False, timeout_seconds=4 * 3600)(step)


def reaches_out(step: Callable[Arguments, Result]) -> Task[Arguments, Result]:
    """Wrap a step that is retried three times, with growing and jittered pauses."""
    policy = task(
        retries=3,
        retry_delay_seconds=exponential_backoff(backoff_factor=float(os.environ.get(PAUSE, "2"))),
        retry_jitter_factor=0.5,
        retry_condition_fn=_worth_another_try,
        cache_policy=NO_CACHE,
        persist_result=False,
        timeout_seconds=3600,
    )
    return policy(step)


_backtest = computes(steps.backtest)


def backtest(
    night: Night, candidate: Candidate, panel: Panel, knowledge: Knowledge
) -> tuple[Candidate, dict[str, Scores]]:
    """Run `steps.backtest`, parallelized as declared in `execution`."""
    with runners.open_fan(night.spec, lambda trouble: night.note(message=trouble)) as fan:
        return _backtest(night, candidate, panel, knowledge, fan=fan)


_predict = computes(steps.predict)


def predict(night: Night) -> None:
    """Run `steps.predict`; groups of depots are parallelized as declared in `execution`."""
    if night.spec.execution.depots_at_a_time is None:
        return _predict(night)
    with runners.open_fan(night.spec, lambda trouble: night.note(message=trouble)) as fan:
        return _predict(night, fan=fan)


ingest = reaches_out(steps.ingest)
panel = computes(steps.panel)
judge = computes(steps.judge)
preview = computes(steps.preview)
weigh = computes(steps.weigh)
train = computes(steps.train)
gate = computes(steps.gate)
export = computes(steps.export)
record = computes(steps.record)
register = reaches_out(steps.register)
promote = computes(steps.promote)
archive = computes(steps.archive)
tidy = computes(steps.tidy)


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="{stage}, done in {seconds:.0f} s without Prefect")
def ended_stage(stage: str, seconds: float) -> None:
    """Represent a stage of a run that ended before its flow began."""


def show_ended(timings: Mapping[str, float]) -> None:
    """Show the stages of an ended run in the flow, with their seconds."""
    for stage, seconds in timings.items():
        ended_stage(stage, seconds)
