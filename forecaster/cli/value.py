"""Command `value`: show the costs and savings of rosters."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli.options import File, Json, load_spec, print_lines
from forecaster.errors import SpecError

if TYPE_CHECKING:
    from forecaster.staffing.value_account import Amount, ValueAccount, ValuePart


def value(
    file: File,
    weeks: Annotated[int, typer.Option(min=1, max=52, help="Number of last weeks with known actuals.")] = 26,
    as_json: Json = False,
) -> None:
    """Show the costs and savings of rosters.

    Compared with other rostering policies, from the results of past runs; nothing is recomputed.
    """
    from forecaster.ledger.store import Ledger
    from forecaster.staffing import value_account

    spec = load_spec(file)
    if spec.staffing is None:
        raise SpecError(
            f"{file}: found no section staffing, by which rosters have a cost; wanted one, as in "
            "staffing: {orders_per_driver: 90, cost_short: 38, cost_idle: 22, currency: EUR}"
        )
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        account = value_account.account(connection, spec.name, weeks)
    if as_json:
        typer.echo(json.dumps(asdict(account), default=str, indent=2))
    else:
        print_lines(_lines(account))


def _lines(account: ValueAccount) -> list[str]:
    from forecaster.staffing import value_account

    if account.first is None:
        return ["no costs are known yet: the first night after a rostered day adds the cost of that day"]
    money = f" {account.currency}" if account.currency else ""
    lines = [f"{account.first} to {account.last}: {account.days:,} days, amounts in{money or ' the unit of staffing'}"]
    if account.backfilled:
        lines.append(f"of these {account.backfilled:,} by forecasts that were made afterwards, as of each morning")
    lines += ["", *_table(account.whole, "")]
    for heading, parts in (("city", account.cities), ("month", account.months)):
        for part in parts if len(parts) > 1 else ():
            lines += ["", *_table(part, f"{heading} {part.label or 'without a name'}")]
    lines.append("")
    if account.more_vans:
        lines.append(f"ten more vans would have saved {_amount(account.more_vans)}")
    if account.overrides:
        lines.append(f"planners' numbers on {account.overridden:,} depot-days saved {_amount(account.overrides)}")
    if account.deviation:
        lines.append(f"deviations from the plan cost {_amount(account.deviation)}, where worked hours are known")
    lines.append(value_account.RANGE)
    return lines


def _table(part: ValuePart, heading: str) -> list[str]:
    from forecaster.ledger.value import PUBLISHED

    width = max([len(heading), *(len(total.way) for total in part.ways)])
    lines = [f"{heading:{width}}  {'cost':>12}  {'ours saved':>12}  {'range':>21}  {'missing':>8}  {'idle':>8}"]
    for total in part.ways:
        of_ours = total.way == PUBLISHED
        saved = "" if of_ours else f"{total.dearer.amount:+,.0f}"
        reach = "" if of_ours or total.dearer.low is None else f"{total.dearer.low:+,.0f} to {total.dearer.high:+,.0f}"
        lines.append(
            f"{total.way:{width}}  {total.cost.amount:>12,.0f}  {saved:>12}  {reach:>21}  {total.short:>8,}  "
            f"{total.idle:>8,}"
        )
    return lines


def _amount(amount: Amount) -> str:
    reach = "" if amount.low is None else f" ({amount.low:+,.0f} to {amount.high:+,.0f})"
    return f"{amount.amount:+,.0f}{reach}"
