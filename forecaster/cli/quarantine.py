"""Commands for the quarantine (dead-letter table) and the bitemporal history of a depot's day."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli.options import By, File, Json, Reason, decision, parsed_day, print_line
from forecaster.core.terminal import count

if TYPE_CHECKING:
    from forecaster.operations.quarantine import QuarantinedRow, RowSelection

SHOWN = 50  # maximum rows of a list
_NAME = 40  # maximum characters of a depot id in a list

quarantine = typer.Typer(
    help="List rows that broke a rule, and decide about them.", no_args_is_help=True, rich_markup_mode=None
)

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids as listed; the first digits suffice.")]
Rule = Annotated[str | None, typer.Option(help="Only rows that broke this rule, or whose batch it stopped.")]
Depot = Annotated[str | None, typer.Option(help="Only rows of this depot.")]
Batch = Annotated[str | None, typer.Option(help="Only rows of this batch.")]


@quarantine.command("list")
def list_(
    file: File,
    rule: Rule = None,
    depot: Depot = None,
    batch: Batch = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also rows that were settled, released or discarded, with their outcome.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the rows that await a decision, newest first."""
    from forecaster.config import load
    from forecaster.operations.quarantine import STATES, RowSelection, quarantined_rows

    states = STATES if everything else ("open",)
    rows = quarantined_rows(load(file), RowSelection((), rule, depot, batch), states=states)
    if as_json:
        typer.echo(json.dumps([asdict(row) | {"became": row.became} for row in rows], default=str, indent=2))
        return
    for row in rows[:SHOWN]:
        print_line(_row_line(row))
        if everything:
            print_line(f"{'':18}  {row.became}")
    total = count(len(rows), "row")
    more = f", of which the first {SHOWN} are shown; --json shows all" if len(rows) > SHOWN else ""
    print_line(f"{total}{more}" if rows else "no row waits for a decision")


def _row_line(row: QuarantinedRow) -> str:
    depot_id = row.depot_id if len(row.depot_id) <= _NAME else row.depot_id[: _NAME - 1] + "…"
    return f"{row.id:18}  {row.state:9}  {row.rule:17}  {depot_id or '?'}  {row.date or '?'}  {row.message}"


@quarantine.command()
def show(file: File, identity: Annotated[str, typer.Argument(metavar="ID")], as_json: Json = False) -> None:
    """Show a complete row: its content, the broken rule, and the decision."""
    from forecaster.config import load
    from forecaster.operations.quarantine import STATES, RowSelection, quarantined_rows

    (row,) = quarantined_rows(load(file), RowSelection((identity,)), states=STATES)
    if as_json:
        typer.echo(json.dumps(asdict(row) | {"became": row.became}, default=str, indent=2))
        return
    fields = {
        "row": row.id,
        "from": f"{row.source}, row {row.row}, batch {row.batch}",
        "since": f"{row.recorded_at:%Y-%m-%d %H:%M:%S} UTC",
        "broke": f"{row.rule}: {row.message}",
        "content": row.content,
        "state": row.became,
    }
    for name, text in fields.items():
        print_line(f"{name:8} {text}")


@quarantine.command()
def release(
    file: File,
    reason: Reason,
    ids: Ids = None,
    rule: Rule = None,
    depot: Depot = None,
    batch: Batch = None,
    by: By = None,
) -> None:
    """Release rows into the history as they stand; the next run uses them.

    They count as known from now on. If a row cannot be read as it stands, none is released.
    """
    from forecaster.config import load
    from forecaster.operations import quarantine as dead_letters

    rows = dead_letters.release(load(file), _selection(ids, rule, depot, batch), **decision(by, reason))
    _say("released", rows, "the next run uses them")


@quarantine.command()
def discard(
    file: File,
    reason: Reason,
    ids: Ids = None,
    rule: Rule = None,
    depot: Depot = None,
    batch: Batch = None,
    by: By = None,
) -> None:
    """Discard rows permanently: they are kept, but no run reports them again."""
    from forecaster.config import load
    from forecaster.operations import quarantine as dead_letters

    rows = dead_letters.discard(load(file), _selection(ids, rule, depot, batch), **decision(by, reason))
    _say("discarded", rows, "they stay in the quarantine table")


def history(
    file: File,
    depot: Annotated[str, typer.Argument(metavar="DEPOT")],
    day: Annotated[str, typer.Argument(metavar="DATE", help="As in 2026-11-01.")],
    as_json: Json = False,
) -> None:
    """Show all versions of a depot's day."""
    from forecaster.config import load
    from forecaster.operations.day_history import versions

    spec = load(file)
    day_history = versions(spec, depot, parsed_day("DATE", day))
    if as_json:
        typer.echo(json.dumps(asdict(day_history), default=str, indent=2))
        return
    # accepted versions, in the order in which they became known, then rejected ones
    for version in day_history.versions:
        count = "not known" if version.demand is None else f"{version.demand:g}"
        state = {True: "open", False: "closed", None: ""}[version.open]
        covariates = ", ".join(f"{name} {value}" for name, value in version.covariates.items())
        reading = ", ".join(part for part in (count, state, covariates) if part)
        alias = f"as {version.depot_id}, " if version.depot_id != depot else ""
        mark = "counts  " if version.counts else "replaced"
        local = version.recorded_at.astimezone(spec.zone)
        print_line(
            f"{mark}  known since {local:%Y-%m-%d %H:%M:%S %Z}: {reading}   {alias}{version.source}:{version.row}"
        )
    for row in day_history.refused:
        local = row.recorded_at.astimezone(spec.zone)
        print_line(f"refused   on {local:%Y-%m-%d %H:%M:%S %Z}, {row.state} ({row.id}): {row.message}")


def _selection(ids: Sequence[str] | None, rule: str | None, depot: str | None, batch: str | None) -> RowSelection:
    from forecaster.operations.quarantine import RowSelection

    return RowSelection(tuple(ids or ()), rule, depot, batch)


def _say(outcome: str, rows: Sequence[QuarantinedRow], then: str) -> None:
    for row in rows[:SHOWN]:
        print_line(f"{row.id}  {outcome}: {row.message}")
    print_line(f"{count(len(rows), 'row')} {outcome}; {then}")
