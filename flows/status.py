"""Status report: running parts, the next night, and the result of the last run; it answers "did it
run?"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from flows import local_stack
from flows.supervision import processes
from flows.supervision.part import answers
from forecaster.config import Spec
from forecaster.errors import NoLedger
from forecaster.ledger import lease, run_start
from forecaster.ledger.records import Run
from forecaster.ledger.store import Ledger
from forecaster.operations import due_nights
from forecaster.operations.doctor import KILLED
from forecaster.publishing import champion_fit

STATES = {
    "waits": "waits",
    "starting": "starting",
    "up": "up",
    "silent": "does not answer",
    "pauses": "down, will be started again",
    "done": "done",
}


def status(spec: Spec, now: datetime) -> Iterator[str]:
    """Yield a line for each part, the next night, the last run, and the publication.

    Raises LedgerError, after the lines that need no ledger, if the ledger cannot be read.
    """
    yield from _parts(spec)
    following = due_nights.next_night(spec.schedule.cron, spec.zone, now)
    yield f"next night {following:%Y-%m-%d %H:%M} {spec.timezone}"
    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            runs = ledger.runs(spec.name, limit=1, nights=True)
            last_run = "".join(_run(run, spec) + KILLED * ledger.seems_killed(run, now) for run in runs)
            missing = due_nights.missed_nights(spec, ledger, now)
            head = ledger.current(spec.name)
            champion = champion_fit.of_champion(spec, ledger)
    except NoLedger as error:
        yield f"last run   none: {run_start.lost_ledger(spec) or error}"
        return
    yield f"last run   {last_run or 'none'}"
    if head is None:
        yield "published  nothing"
    else:
        at = head.published_at.astimezone(spec.zone)
        yield f"published  {at:%Y-%m-%d %H:%M}, tier {head.tier}, {head.model}, cutoff {head.cutoff}"
    for sentence in champion:
        yield f"champion   {sentence}"
    if missing:
        yield f"missing    {', '.join(f'{night:%Y-%m-%d}' for night in missing)}"


def _parts(spec: Spec) -> Iterator[str]:
    stack = local_stack.running_stack(spec)
    if stack is None:
        yield "parts      nothing is up; `forecaster up FILE` starts server, worker, MLflow and page"
        if remains := local_stack.left_behind(spec):
            yield f"left       of an `up` that was killed: {', '.join(remains)}; the next `up` ends them"
        return
    for name, part in stack["parts"].items():
        yield f"{name:10} {_part(part, stack['health'].get(name), spec)}"


def _part(part: Mapping[str, Any], health: str | None, spec: Spec) -> str:
    state, reason = part["state"], part["reason"]
    if state == "up" and not (processes.lives(part["process"]) if health is None else answers(health)):
        state, reason = "silent", ""
    since = datetime.fromisoformat(part["since"]).astimezone(spec.zone)
    place = part["page"] or (f"process {lease.process_id(part['process'])}" if part["process"] else "")
    details = [STATES[state], reason, place if state == "up" else "", f"since {since:%Y-%m-%d %H:%M:%S}"]
    if part["restarts"] or state != "done":
        details.append(f"{part['restarts']} restart{'s' if part['restarts'] != 1 else ''}")
    return ", ".join(filter(None, details))


def _run(run: Run, spec: Spec) -> str:
    began = run.started_at.astimezone(spec.zone)
    text = f"{run.run_id}, begun {began:%Y-%m-%d %H:%M}: {run.outcome}"
    text += f", tier {run.tier}" if run.tier else ""
    return text + (f"; {run.message}" if run.message else "")
