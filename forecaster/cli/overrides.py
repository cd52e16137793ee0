"""Commands for planners' overrides (judgmental adjustments): change a published number, withdraw
it, show its value."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli.options import By, File, Json, decision, parsed_day, print_line, print_lines
from forecaster.core.terminal import count
from forecaster.planning.value_added import Account, Added

if TYPE_CHECKING:
    from forecaster.planning.overrides import Override


def override(
    file: File,
    day: Annotated[str, typer.Option("--date", metavar="DATE", help="The day, as in 2026-11-01.")],
    reason: Annotated[str, typer.Option(help="One of `overrides.reasons`.")],
    depot: Annotated[list[str] | None, typer.Option(help="The depot; repeat for several.")] = None,
    city: Annotated[str | None, typer.Option(help="All depots of a city, instead of --depot.")] = None,
    orders: Annotated[int | None, typer.Option(help="Orders, instead of the model's median.")] = None,
    percent: Annotated[
        float | None,
        typer.Option(help="Instead of --orders: percent above or below the model's number, as in 10 or -25."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="DATE", help="The last day of a range that begins with --date.")
    ] = None,
    note: Annotated[str, typer.Option(help="A sentence that explains the override.")] = "",
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Last day whose publication applies it; default: the day itself."),
    ] = None,
    by: By = None,
) -> None:
    """Replace the model's number with a planner's.

    The page shows both at once, with matching rosters and totals; later runs apply it until it
    expires. A request for several days or depots is stored completely or not at all, as one
    override per open day.
    """
    from forecaster.config import load
    from forecaster.planning import service
    from forecaster.planning.override_groups import OverrideGroup

    first = parsed_day("--date", day)
    last = first if to is None else parsed_day("--to", to)
    until_day = None if until is None else parsed_day("--until", until)
    who = decision(by, reason)["by"]
    group = OverrideGroup(tuple(depot or ()), first, last, reason, who, city, orders, percent, note, until_day)
    print_line(service.save_group(load(file), group).sentence())


def withdraw(
    file: File,
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", help="Number of the override, as `forecaster overrides` lists it.")
    ],
    note: Annotated[str, typer.Option(help="Why.")] = "",
    by: By = None,
) -> None:
    """Withdraw an override; its row stays."""
    from forecaster.config import load
    from forecaster.planning import service

    print_line(service.withdraw(load(file), number, by=decision(by, "withdrawn")["by"], note=note).sentence())


def overrides(
    file: File,
    worth: Annotated[
        bool, typer.Option("--worth", help="Show the value of past overrides instead of the list.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List all overrides, or their value."""
    from forecaster.config import load
    from forecaster.ledger.store import Ledger
    from forecaster.planning import service
    from forecaster.planning.overrides import find_superseded

    spec = load(file)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        account = service.value_added(ledger, spec.name, spec.overrides.min_days) if worth else None
        book = service.list_overrides(ledger, spec.name)
    if as_json:
        content = asdict(account) if account else [asdict(row) for row in book]
        typer.echo(json.dumps(content, default=str, indent=2))
    elif account:
        print_lines(_account_lines(account))
    else:
        newer = find_superseded(book)
        print_lines([*(_override_line(row, newer.get(row.id)) for row in book), count(len(book), "override")])


def _override_line(row: Override, replaced_by: int | None) -> str:
    state = f"until {row.until}" if replaced_by is None else f"replaced by {replaced_by}"
    state = f"withdrawn {row.withdrawn:%Y-%m-%d}" if row.withdrawn else state
    why = f"{row.reason}: {row.note}" if row.note else row.reason
    return f"{row.id:>5}  {row.target_date}  {row.depot_id}  {row.orders:,}  {state}  {row.by}, {why}"


def _account_lines(account: Account) -> list[str]:
    if not account.everyone.days:
        return ["no overridden day is over and known yet"]
    lines = [
        f"all: {_added_line(account.everyone)}",
        *(f"{group.of}: {_added_line(group)}" for group in account.reasons),
    ]
    lines += [f"{group.of}: {_added_line(group)}" for group in account.planners]
    if account.unnamed:
        lines.append(
            f"planners with fewer than {count(account.min_days, 'day')} are not told by name: {account.unnamed}"
        )
    return lines


def _added_line(added: Added) -> str:
    days = count(added.days, "day")
    return f"{days}, nearer than the model on {added.helped:,}; {added.per_hundred:+.1f} orders of each 100"
