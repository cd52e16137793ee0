"""Command for canaries: show the running one and earlier ones, and stop one by hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli.options import By, File, Json, decision, print_line
from forecaster.errors import NoSuchRow, SpecError
from forecaster.plugins import plugin

if TYPE_CHECKING:
    from forecaster.config import Spec
    from forecaster.core.forecast import CanaryTrial


def canary(
    file: File,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the running canary; all depots use the champion.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason for stopping, in a sentence.")] = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Show the running canary, or stop it.

    The last ones are shown too. The page changes with the next prediction.
    """
    from forecaster.config import load
    from forecaster.ledger.store import Ledger

    spec, canaries = load(file), plugin("canary.ledger")
    if stop:
        _stop(spec, reason, by)
        return
    if reason is not None:
        raise SpecError("--reason: wanted together with --stop")
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        trials = canaries.history(connection, spec.name)
    if as_json:
        rows = [asdict(trial) | {"cohort": sorted(trial.cohort)} for trial in trials]
        typer.echo(json.dumps(rows, default=str, indent=2))
        return
    for trial in trials:
        for line in _lines(trial, spec):
            print_line(line)
    if not trials:
        declared = (
            "none has run yet" if spec.canary else "none is declared: see the section canary of the pipeline file"
        )
        print_line(f"no canary: {declared}")


def _stop(spec: Spec, reason: str | None, by: str | None) -> None:
    from forecaster.ledger.store import Ledger
    from forecaster.registry import outbox

    who, canaries = decision(by, reason or ""), plugin("canary.ledger")
    with Ledger.open_reader(spec.ledger_url):  # opening a reader raises NoLedger instead of creating a ledger
        pass
    with Ledger.open(spec.ledger_url) as ledger:
        with ledger.transaction() as connection:
            trial = canaries.running(connection, spec.name)
            if trial is None:
                raise NoSuchRow(f"nothing to stop: no canary of {spec.name} is running")
            ended = canaries.end(connection, trial, "stopped", **who)
        trouble = outbox.align(spec, ledger)
    for line in _lines(ended, spec):
        print_line(line)
    if trouble:
        print_line(f"The registry's aliases are as they were: {trouble}", err=True)
    print_line("All depots use the champion from the next `forecaster predict` or night on.")


def _lines(trial: CanaryTrial, spec: Spec) -> list[str]:
    since = f"{trial.since.astimezone(spec.zone):%Y-%m-%d %H:%M %Z}"
    depots = ", ".join(sorted(trial.cohort))
    lines = [
        f"{since}  {trial.bundle_digest} beside {trial.champion_digest}: {trial.state}, judged {trial.nights} times "
        f"on {trial.days} days; shown at {depots}"
    ]
    if trial.judged and trial.state == "running":
        lines.append(f"  {trial.judged['reason']}")
    if trial.ended_at is not None:
        ended = f"{trial.ended_at.astimezone(spec.zone):%Y-%m-%d %H:%M %Z}"
        lines.append(f"  ended {ended} by {trial.by}: {trial.reason}")
    return lines
