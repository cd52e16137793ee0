"""Prefect artifacts and state of a run: its name with date and outcome, a report, its depots, and a
link to its model.

A failure here never affects a run: it is reported on the screen, and the outcome stays the same.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from prefect import get_run_logger, runtime
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.states import Completed, Crashed, Failed

from flows import notify, report, tasks
from flows.digests import sending
from flows.night import Night
from flows.orchestration import flow_run
from flows.protocol import Steps
from forecaster.config import load
from forecaster.core.language.sentences import of_error
from forecaster.core.time_limits import Budget
from forecaster.errors import OUR_FAULT, PUBLISHED, ForecasterError
from forecaster.ledger import lease
from forecaster.ledger.records import Kind
from forecaster.ledger.store import Ledger
from forecaster.operations import plan
from forecaster.registry import addresses

Flow = Callable[..., State[Any]]
AT_ONCE = 200  # flow runs per request
RUN, PROCESS = "forecaster.run", "forecaster.process"  # labels of a flow run


def flow_run_name() -> str:
    """Return the name of a flow run before its outcome: flow and day."""
    parameters, zone = runtime.flow_run.parameters, None
    with suppress(ForecasterError):  # the flow reports the error
        zone = load(parameters["file"]).zone
    day = str(parameters.get("as_of") or datetime.now(zone).isoformat())[:10]
    return f"{runtime.flow_run.flow_name} {day}"


def backfill_run_name() -> str:
    parameters = runtime.flow_run.parameters
    return f"backfill {parameters['first']} to {parameters['last']}"


def reports_refusals(kind: Kind | None) -> Callable[[Flow], Flow]:
    """Decorate a flow's function: an error before a run begins, such as an invalid pipeline file,
    ends in a failed state, in Prefect's log, and, as a failed run of this kind, in the ledger."""

    def decorate(function: Flow) -> Flow:
        @functools.wraps(function)
        def reporting(file: str, *arguments: Any, **parameters: Any) -> State[Any]:
            try:
                return function(file, *arguments, **parameters)
            except ForecasterError as error:
                # the log level that is kept by an installation
                get_run_logger().critical(str(error))
                with suppress(ForecasterError):
                    _record_refusal(Path(file), kind, error)
                return Failed(message=str(error), data=error.exit_code)

        return reporting

    return decorate


def _record_refusal(file: Path, kind: Kind | None, error: ForecasterError) -> None:
    """Record a run that could not begin, using the last valid pipeline file, and notify its
    `notify.blocks`."""
    spec, now = plan.last_valid_spec(file), datetime.now(UTC)
    if spec is None:
        return
    if kind is not None:
        run_id = f"{now.astimezone(spec.zone):%Y-%m-%d}-refused-{uuid.uuid4().hex[:8]}"
        with Ledger.open(spec.ledger_url) as ledger:
            ledger.start_run(run_id, pipeline=spec.name, as_of=now, spec_digest=spec.digest, kind=kind)
            ledger.finish_run(run_id, "failed", error.exit_code, of_error(error))
    notify.send(spec, "failed", f"{spec.name}: {error}")


def begun_night(run_id: str | None) -> Night | None:
    """Return the run that this process already began; None if the flow begins its own."""
    begun = flow_run.begun_here(run_id)
    return begun.night if begun else None


def run_line(night: Night, line: Callable[[Night, Steps], None]) -> None:
    """Run a line with Prefect's tasks; for a run that has ended, show its stages."""
    with _best_effort(night, "named to Prefect"), get_client(sync_client=True) as client:
        client.update_flow_run_labels(runtime.flow_run.id, {RUN: night.run_id, PROCESS: lease.this_process()})
    if night.outcome != "running":
        tasks.show_ended(night.progress.timings)
    elif begun := flow_run.begun_here(night.run_id):
        begun.take(lambda: line(night, tasks))
    else:
        night.run(lambda: line(night, tasks))


def report_run(night: Night) -> State[Any]:
    """Create the artifacts of a run, rename the flow run, and send notifications; returns the
    flow's final state."""
    with _best_effort(night, "shown in Prefect"):
        day = f"{night.as_of.astimezone(night.spec.zone):%Y-%m-%d}"
        _rename(f"{runtime.flow_run.flow_name} {day} {night.outcome}")
        _artifacts(night, f"{night.spec.name}-{night.kind}".replace("_", "-"))
    _close_killed(night)
    within = Budget(notify.ALL)
    for occasion, sentence in notify.occasions(night).items():
        with _best_effort(night, f"told of ({occasion})"):
            notify.send(night.spec, occasion, sentence, within=within)
    with _best_effort(night, "followed by its digests"):
        sending.send_after(night)
    return _state(night)


def report_runs(nights: Sequence[Night]) -> State[Any]:
    """Return the state of a flow with several runs: that of the most serious outcome."""
    if not nights:
        return nothing_due()
    for night in nights:
        with _best_effort(night, "shown in Prefect"):
            _artifacts(night, f"{night.spec.name}-{night.run_id}".replace("_", "-"))
    return _state(max(nights, key=lambda night: night.exit_code))


def nothing_due() -> State[Any]:
    return Completed(name="Nothing due", message="every night has its forecasts", data=PUBLISHED)


def exit_code(state: State[Any]) -> int:
    """Return the exit code of the command that started a flow."""
    code = state.data if isinstance(state.data, int) else getattr(state.data, "result", None)
    return code if isinstance(code, int) else OUR_FAULT


def forget_flow_runs(night: Night) -> None:
    """Delete Prefect's flow runs that ended before the retention of caches, or began before it and
    never ended."""
    before = night.begun - timedelta(days=night.spec.retention.caches)
    old = (
        FlowRunFilter(end_time=FlowRunFilterEndTime(before_=before)),
        FlowRunFilter(start_time=FlowRunFilterStartTime(before_=before), end_time=FlowRunFilterEndTime(is_null_=True)),
    )
    with _best_effort(night, "relieved of old flow runs"), get_client(sync_client=True) as client:
        for which in old:
            while flow_runs := client.read_flow_runs(flow_run_filter=which, limit=AT_ONCE):
                for flow_run in flow_runs:
                    client.delete_flow_run(flow_run.id)


def _close_killed(night: Night) -> None:
    """Mark flow runs of killed processes as crashed; otherwise Prefect shows them as running
    forever."""
    types = FlowRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING])
    running = FlowRunFilter(state=FlowRunFilterState(type=types))
    with _best_effort(night, "relieved of killed flow runs"), Ledger.open_reader(night.spec.ledger_url) as ledger:
        messages = {run.run_id: run.message or "" for run in ledger.runs(night.spec.name, AT_ONCE, ended=True)}
        with get_client(sync_client=True) as client:
            for flow_run in client.read_flow_runs(flow_run_filter=running, limit=AT_ONCE):
                run_id = flow_run.labels.get(RUN, flow_run.parameters.get("run_id"))
                message, process = messages.get(str(run_id), ""), flow_run.labels.get(PROCESS)
                if message.startswith(lease.WAS_KILLED) or (process and lease.is_gone(str(process))):
                    client.set_flow_run_state(flow_run.id, Crashed(message=message or "it was killed"), force=True)


def _state(night: Night) -> State[Any]:
    message = night.message or f"{night.outcome}, run {night.run_id}"
    if night.outcome in ("failed", "no_data"):
        return Failed(message=message, data=night.exit_code)
    return Completed(name=night.outcome.capitalize(), message=message, data=night.exit_code)


def _rename(name: str) -> None:
    flow_run_id = runtime.flow_run.id
    with get_client(sync_client=True) as client:
        client.update_flow_run(flow_run_id, name=name)


def _artifacts(night: Night, key: str) -> None:
    if night.outcome == "busy":
        return
    create_markdown_artifact(report.markdown(night), key=f"{key}-report", description=f"Run {night.run_id}")
    if rows := report.depots(night):
        create_table_artifact(rows, key=f"{key}-depots", description=f"Depots of run {night.run_id}")
    base, registered = addresses.base_address(night.spec), addresses.registered_run(night.spec, night.run_id)
    if base and registered:
        create_link_artifact(registered.address(base), link_text=f"MLflow: {night.run_id}", key=f"{key}-model")


@contextmanager
def _best_effort(night: Night, event: str) -> Any:
    try:
        yield
    except Exception as error:
        now = datetime.now(UTC)
        night.progress.say(
            f"run {night.run_id} could not be {event}: {type(error).__name__}: {error} ({now:%H:%M} UTC)"
        )
