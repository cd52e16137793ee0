"""Roster sentences: a day's drivers and vans, the chance of a shortage, and the cost of one more or fewer."""

from __future__ import annotations

from dashboards.ops.formatting import display
from forecaster.ledger.publication import PublishedDay, PublishedRoster


def sentence(day: PublishedDay) -> str:
    """ "4 drivers, 4 vans (2 lent by NYC-03); no van left in New York; 0.88 of what the network needs; 1 chance in 3 of
    being short; one more would save 9".

    Empty where nothing was published of the crew.
    """
    if day.roster is None or day.drivers is None or not day.open:
        return ""
    crew = display.count(day.drivers, "driver")
    if day.roster.vans is not None:
        crew += f", {display.count(day.roster.vans, 'van')}{_loans(day.roster)}"
    if shifts := _by_shift(day.roster.shifts):
        crew += f" ({shifts})"
    beside = "" if day.roster.left else _beside(day)
    parts = (crew, why(day), f"{chance(day.roster.chance_short)} of being short", beside)
    return "; ".join(part for part in parts if part)


def why(day: PublishedDay) -> str:
    """Why a crew is not the one that costs least: no van is left, or a change would not be worth it; else empty."""
    return "; ".join(part for part in (shortage(day.roster), left(day)) if part)


def left(day: PublishedDay) -> str:
    """ "left at 4 as published before: 5 would save 12, a change costs 20"; empty where the crew is the plan's."""
    if day.roster is None or day.roster.left is None or day.drivers is None:
        return ""
    plan = day.roster.left
    crew = f"left at {_by_shift(day.roster.shifts) or display.number(day.drivers)} as published before"
    saving = round(plan.saving)
    gain = f"{_by_shift(plan.shifts) or display.number(plan.drivers)} would {_costs(-saving)}"
    if plan.hour is not None:
        return f"{crew}: {gain}, from {plan.hour}:00 on a depot has one change a day"
    if saving < 0:
        return f"{crew}: {gain} here, and what that would save others is less than the changes cost"
    return f"{crew}: {gain}, a change costs {display.number(plan.change_cost)}"


def shortage(roster: PublishedRoster | None) -> str:
    """Why a depot has fewer drivers than it wants: "no van left in New York; 0.88 of what the network needs"; empty
    where vans suffice."""
    if roster is None or roster.shortage is None:
        return ""
    where = f" in {roster.shortage.place}" if roster.shortage.place else ""
    whose = "network" if roster.shortage.network else "city"
    # never "1.00 of what it needs" where something is missing
    return f"no van left{where}; {display.number(min(roster.shortage.share, 0.99), 2)} of what the {whose} needs"


def chance(share: float) -> str:
    """A probability in whole numbers: 0.13 is "1 chance in 8"."""
    if share < 0.01:
        return "less than 1 chance in 100"
    if share > 0.99:
        return "more than 99 chances in 100"
    if share > 0.94:
        return f"{round(100 * share)} chances in 100"
    return f"1 chance in {round(1 / share)}" if share <= 0.4 else f"{round(10 * share)} chances in 10"


def _by_shift(shifts: tuple[tuple[str, int], ...]) -> str:
    """ "3 early, 2 late"; empty where no shifts are declared, or one that is all of the day."""
    return ", ".join(f"{display.number(count)} {name}" for name, count in shifts) if len(shifts) > 1 else ""


def _loans(roster: PublishedRoster) -> str:
    loans = [f"{display.number(count)} lent by {depot}" for depot, count in roster.borrowed]
    loans += [f"{display.number(count)} lent to {depot}" for depot, count in roster.lent]
    return f" ({', '.join(loans)})" if loans else ""


def _beside(day: PublishedDay) -> str:
    """What another crew would do: that which would be cheaper, where limits keep it away, else one fewer."""
    roster = day.roster
    assert roster is not None
    more, fewer = (None if cost is None else round(cost - roster.cost) for cost in (roster.one_more, roster.one_fewer))
    if more is not None and more < 0:
        return f"one more would {_costs(more)}"
    if fewer is not None:
        return f"one fewer would {_costs(fewer)}"
    return "" if more is None else f"one more would {_costs(more)}"


def _costs(difference: int) -> str:
    if difference == 0:
        return "cost as much"
    return f"cost {display.number(difference)} more" if difference > 0 else f"save {display.number(-difference)}"
