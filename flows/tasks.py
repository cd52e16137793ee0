"""The stages as Prefect tasks: which are tried again, which are not, and how long each may take.

A stage that reaches out (a source, the registry) is tried again; one that computes is not, since the same numbers
would come out. The stages themselves are plain functions in `forecaster.stages`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import exponential_backoff

from flows import secrets
from flows.night import Night
from forecaster.errors import MissingExtra, NoUsableData, SourceUnreachable, SpecError
from forecaster.stages import ingest as ingests
from forecaster.stages.know import know
from forecaster.values import Candidate, Knowledge, Panel, Scores, Verdict

Given = ParamSpec("Given")
Made = TypeVar("Made")

PAUSE = "FORECASTER_PAUSE"
"""Environment variable: seconds before the second try of what reaches out, twice as many before each further one."""


def _worth_another_try(_: Task[..., Any], __: TaskRun, state: State[Any]) -> bool:
    """A wrong file stays wrong; a busy disk or a network may have recovered, a missing export may be there by then."""
    try:
        state.result()
    except SourceUnreachable:
        return True
    except (SpecError, NoUsableData, MissingExtra):
        return False
    except Exception:
        return True
    return False


def computes(stage: Callable[Given, Made]) -> Task[Given, Made]:
    """Never tried again, never cached: what it takes and gives stays in memory."""
    return task(cache_policy=NO_CACHE, persist_result=False, timeout_seconds=4 * 3600)(stage)


def reaches_out(stage: Callable[Given, Made]) -> Task[Given, Made]:
    """Tried three more times, with growing and jittered pauses."""
    policy = task(
        retries=3,
        retry_delay_seconds=exponential_backoff(backoff_factor=float(os.environ.get(PAUSE, "2"))),
        retry_jitter_factor=0.5,
        retry_condition_fn=_worth_another_try,
        cache_policy=NO_CACHE,
        persist_result=False,
        timeout_seconds=3600,
    )
    return policy(stage)


@reaches_out
def ingest(night: Night) -> None:
    """Bring the declared sources into the lake."""
    with night.stage("ingest"):
        secrets.provide(night.spec)
        # Arrived when the night began, so that a night as of now knows what it has just read.
        done = ingests.ingest(
            night.spec, now=night.begun, on_rows=lambda rows: night.progress.advance(0, f"{rows:,} rows read")
        )
    night.note(findings=done.findings, lake_versions=done.versions)
    night.progress.say(
        f"           {done.read:,} rows read: {done.accepted:,} accepted, {done.unchanged:,} unchanged, "
        f"{done.quarantined:,} quarantined"
    )
    if done.stopped:
        night.trouble(f"the batch was stopped and is in quarantine: {done.stopped}")


@computes
def panel(night: Night) -> tuple[Knowledge, Panel]:
    """What is known as of tonight, as dense arrays."""
    from forecaster.demand import covariates
    from forecaster.demand import panel as panels

    with night.stage("panel"):
        knowledge = know(night.spec, as_of=night.as_of)
        built = panels.build(knowledge, night.spec)
    night.note(findings=covariates.missing_ahead(knowledge, built, night.spec), lake_versions=knowledge.versions)
    night.progress.say(
        f"           {len(built.depot_ids):,} depots, {built.history:,} days up to {built.cutoff}, "
        f"{len(built.encoding.covariates)} known-future covariates"
    )
    return knowledge, built


@computes
def train(night: Night, panel: Panel, knowledge: Knowledge) -> Candidate:
    """Fit and calibrate tonight's candidate."""
    from forecaster.stages import learn
    from forecaster.stages.past import Past

    with night.stage("train"):
        candidate = learn.fit(
            panel,
            night.spec,
            seen=Past(knowledge, panel, night.spec),
            profile=night.profile,
            on_epoch=lambda e: night.progress.advance(
                e.number / e.of,
                f"epoch {e.number}/{e.of}  loss {e.loss:.4f}  validation {e.validation:.4f}  "
                f"{e.depot_days_a_second:,.0f} depot-days/s",
            ),
            on_trouble=lambda message: night.note(message=message),
        )
    if night.profile is not None:
        found = f"in {night.profile}" if night.profile.exists() else "missing: fewer than two epochs were left to train"
        night.note(message=f"the trace of training is {found}")
    return candidate


@computes
def backtest(night: Night, candidate: Candidate, panel: Panel, knowledge: Knowledge) -> dict[str, Scores]:
    """Score candidate, champion and baselines on the same unseen days."""
    from forecaster.lake import Lake
    from forecaster.stages import learn
    from forecaster.stages.past import Past

    with night.stage("backtest"):
        scores, troubles = learn.backtest(
            learn.models(candidate),
            night.champion(),
            panel,
            knowledge,
            night.spec,
            seen=Past(knowledge, panel, night.spec),
            on_model=lambda name: night.progress.advance(0, name),
        )
        learn.keep_scores(scores, Lake(night.spec.lake_url), run_id=night.run_id, now=datetime.now(UTC))
    if troubles:
        night.note(message="; ".join(troubles))
    return scores


@computes
def gate(night: Night, scores: Mapping[str, Scores]) -> Verdict:
    """May the candidate go out?"""
    from forecaster.stages import learn

    with night.stage("gate"):
        verdict = learn.judge(scores, night.spec)
    night.judged(verdict)
    return verdict


@computes
def export(night: Night, candidate: Candidate, panel: Panel, scores: Mapping[str, Scores], knowledge: Knowledge) -> Any:
    """ONNX, compared with NumPy and JAX before anything may be promoted."""
    from forecaster.stages import learn

    with night.stage("export"):
        exported = learn.to_bundle(candidate, panel, scores, knowledge, night.spec)
    night.progress.say(
        f"           bundle {exported.folder.name}, within {exported.parity.largest:.1e} of JAX and NumPy"
    )
    return exported


@computes
def record(
    night: Night, candidate: Candidate, panel: Panel, scores: Mapping[str, Scores], verdict: Verdict, exported: Any
) -> None:
    """What the registry is to be told of the night, written down."""
    from forecaster.stages.record import record

    with night.stage("record"):
        record(
            candidate,
            panel,
            scores,
            verdict,
            exported,
            night.spec,
            run_id=night.run_id,
            as_of=night.as_of,
            versions=night.versions,
        )


@reaches_out
def register(night: Night) -> str | None:
    """The registry hears of this night, and of earlier ones that it missed; the version of tonight's model."""
    from forecaster.stages import remember

    with night.stage("register"):
        told = remember.tell(night.spec)
        if told.keys() - {night.run_id}:
            night.align()  # of whom an earlier night crowned while the registry was down
        return told.get(night.run_id)


@computes
def promote(night: Night, exported: Any, version: str | None) -> None:
    """The champion moves: in the ledger, and the registry's aliases after it."""
    with night.stage("promote"):
        night.promote(exported.folder.name, version)


@computes
def predict(night: Night) -> None:
    """Forecast on CPU and publish, in a process of its own that never imports JAX."""
    with night.stage("predict"):
        published = night.predict_in_its_own_process()
    night.published(published)
