"""Command for published schedules: show the states of the weeks ahead, publish a week, export
shifts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from forecaster.cli.options import By, File, Json, load_spec, login_name, parsed_day, print_line, print_lines
from forecaster.cli.roster import chosen_depots, shown_publication, week_file
from forecaster.core.terminal import count
from forecaster.errors import NoSuchRow, SpecError
from forecaster.plugins import plugin

if TYPE_CHECKING:
    import sqlalchemy as sa

    from forecaster.config import Spec, Staffing
    from forecaster.ledger.publication import PublishedDepot
    from forecaster.ledger.records import Head
    from forecaster.ledger.store import Ledger


FORECAST = "7shifts-forecast"


def schedule(
    file: File,
    publish: Annotated[
        str | None, typer.Option(metavar="DATE", help="Publish the crews of this day's week, as shown.")
    ] = None,
    city: Annotated[str | None, typer.Option(help="With --publish or --export: the depots of one city.")] = None,
    by: By = None,
    export: Annotated[
        Literal["7shifts", "deputy", "7shifts-forecast"] | None,
        typer.Option(help="Print the people's shifts, or the forecast, as records for this system."),
    ] = None,
    order_value: Annotated[
        float | None,
        typer.Option(min=0, help="With --export 7shifts-forecast: sales per order; 1 if readings are money."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the states of weeks, publish one, or export shifts.

    Within `staffing.notice_days` a published crew changes only if that saves more than its
    `change_premium`.
    """
    spec = load_spec(file)
    if (order_value is None) == (export == FORECAST):
        raise SpecError(f"found one of --export {FORECAST} and --order-value, wanted both or neither")
    if order_value is not None and not math.isfinite(order_value):
        raise SpecError(f"--order-value: found {order_value}, wanted the sales of one order")
    if (publish or export != FORECAST) and (spec.staffing is None or spec.staffing.notice_days is None):
        raise SpecError(f"{file}: found no staffing.notice_days, wanted it, and change_premium, to publish schedules")
    day = parsed_day("--publish", publish) if publish else None
    monday = day and day - timedelta(days=day.weekday())
    from forecaster.ledger.store import Ledger

    with Ledger.open(spec.ledger_url) as ledger:
        head = shown_publication(ledger, spec)
        depots = ledger.depots(head.publication_id)
        selection = chosen_depots(depots, None, city)
        with ledger.transaction() as connection:
            if monday is not None and spec.staffing is not None:
                _publish(connection, spec.name, selection, monday, spec.staffing, login_name(by))
            if export is None:
                _show(connection, spec.name, depots, as_json)
        if monday is not None and (fault := plugin("notice.webhook").deliver(spec)):
            print_line(fault, err=True)
        if order_value is not None:
            _print_records(plugin("people.exports").forecasts(spec, selection, head.levels, order_value))
        elif export is not None:
            _export(ledger, spec, head, selection, export)


def _export(ledger: Ledger, spec: Spec, head: Head, depots: tuple[PublishedDepot, ...], system: str) -> None:
    """Print the published plans of the week as records, one per line. Raises SpecError."""
    file = week_file(spec, ledger, head, depots)
    with ledger.transaction() as connection:
        published = plugin("notice.schedules").read_told(connection, spec.name, head.cutoff)
    _print_records(plugin("people.exports").records(system, spec, file.weeks, published))


def _print_records(records: Iterable[Mapping[str, Any]]) -> None:
    for record in records:
        typer.echo(json.dumps(record, ensure_ascii=False))


def _publish(
    connection: sa.Connection,
    pipeline: str,
    depots: tuple[PublishedDepot, ...],
    monday: date,
    staffing: Staffing,
    by: str,
) -> None:
    """Publish a week. Raises NoSuchRow if there is nothing to publish."""
    days = monday, monday + timedelta(days=6)
    if not any(days[0] <= day.target_date <= days[1] for depot in depots for day in depot.days):
        raise NoSuchRow(f"found no depot with a day from {days[0]} to {days[1]}, wanted a week that is forecast")
    schedules = plugin("notice.schedules")
    new = schedules.publish_days(connection, pipeline, depots, days, staffing, by=by, at=datetime.now(UTC))
    print_line(f"published {count(new, 'depot-day')} of the week of {monday}", err=True)


def _show(connection: sa.Connection, pipeline: str, depots: tuple[PublishedDepot, ...], as_json: bool) -> None:
    schedules = plugin("notice.schedules")
    cells = {(depot.depot_id, day.target_date) for depot in depots for day in depot.days}
    changes = schedules.read_changes(connection, pipeline, min(day for _, day in cells))
    changes = [change for change in changes if (change.depot_id, change.target_date) in cells]
    weeks = schedules.week_states(changes, cells)
    if as_json:
        content = {"weeks": list(map(asdict, weeks)), "changes": list(map(asdict, changes))}
        typer.echo(json.dumps(content, default=str, indent=2))
        return
    print_lines(map(_week_line, weeks))
    print_lines(_change_line(change) for change in changes if change.premium is not None)


def _week_line(week: Any) -> str:
    line = f"{week.monday}  {week.state}"
    if week.at is not None:
        line += f"  {week.at:%Y-%m-%d %H:%M} UTC by {', '.join(week.by)}, to {count(week.depots, 'depot')}"
    if week.changes:
        line += f"; {count(week.changes, 'change')}, premiums {week.premium:,.2f}"
    return line + (f"; {count(week.drafts, 'depot-day')} still a draft" if week.at and week.drafts else "")


def _change_line(change: Any) -> str:
    moved = ", ".join(
        f"{f'{shift} ' if shift else ''}from {change.before.get(shift, 0)} to {crew}"
        for shift, crew in change.crews.items()
        if crew != change.before.get(shift, 0)
    )
    moved = moved or "other people in the same crew"
    worth = f"saves {change.saving:,.2f}, premium {change.premium:,.2f}"
    return f"  {change.target_date}  {change.depot_id}  {moved}: {worth}; {change.at:%Y-%m-%d %H:%M} UTC, {change.by}"
