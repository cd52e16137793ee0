"""Roster sentences: a day's drivers and vans, the probability of a shortage, and the cost of one
more or fewer."""

from __future__ import annotations

from dashboards.ops.formatting import display
from forecaster.core.language import _, ngettext
from forecaster.ledger.publication import PublishedDay, PublishedRoster


def sentence(day: PublishedDay) -> str:
    """Return a sentence such as "4 drivers, 4 vans (2 lent by NYC-03); no van left in New York;
    0.88 of what the network needs; 1 chance in 3 of being short; one more would save 9".

    Empty without a published crew.
    """
    if day.roster is None or day.drivers is None or not day.open:
        return ""
    crew = display.drivers(day.drivers)
    if day.roster.vans is not None:
        vans = ngettext("{n} van", "{n} vans", day.roster.vans, n=display.number(day.roster.vans))
        crew = display.listed([crew, f"{vans}{_loans(day.roster)}"])
    if shifts := _by_shift(day.roster.shifts):
        crew = f"{crew} ({shifts})"
    alternative = "" if day.roster.left else _beside(day)
    short = _("{chance} of being short", chance=chance(day.roster.chance_short))
    return display.clauses(crew, why(day), short, alternative)


def why(day: PublishedDay) -> str:
    """Explain why a crew is not the cheapest: no van is left, nobody can work, or a change would
    not pay off; else empty."""
    return display.clauses(shortage(day.roster), absence(day), left(day))


def absence(day: PublishedDay) -> str:
    """Return a clause such as "2 of 3 drivers missing: the plan of the week has nobody for them";
    empty for a complete crew."""
    if day.roster is None or day.drivers is None or not day.roster.missing_drivers:
        return ""
    missing = day.roster.missing_drivers
    return ngettext(
        "{n} of {drivers} missing: the plan of the week has nobody for it",
        "{n} of {drivers} missing: the plan of the week has nobody for them",
        missing,
        n=display.number(missing),
        drivers=display.drivers(day.drivers + missing),
    )


def left(day: PublishedDay) -> str:
    """Return a clause such as "left at 4 as published before: 5 would save 12, a change costs 20";
    empty if the crew is the plan's."""
    if day.roster is None or day.roster.left is None or day.drivers is None:
        return ""
    plan, saving, missing = day.roster.left, round(day.roster.left.saving), dict(day.roster.missing)
    crew = tuple((name, count + missing.get(name, 0)) for name, count in day.roster.shifts)
    values = {
        "crew": _by_shift(crew) or display.number(day.drivers),
        "gain": _would(_by_shift(plan.shifts) or display.number(plan.drivers), -saving),
    }
    if plan.by_hand:
        return _("set to {crew} by a planner: {gain}", **values)
    if plan.hour is not None:
        return _(
            "left at {crew} as published before: {gain}, but from {hour}:00 on a depot may change only once a day",
            hour=plan.hour,
            **values,
        )
    if saving < 0:
        return _(
            "left at {crew} as published before: {gain} here, and the savings elsewhere are less than the cost of "
            "the changes",
            **values,
        )
    cost = display.number(plan.change_cost)
    return _("left at {crew} as published before: {gain}, a change costs {cost}", cost=cost, **values)


def shortage(roster: PublishedRoster | None) -> str:
    """Explain why a depot has fewer drivers than it wants: "no van left in New York; vans for 88 %
    of what the network needs"; empty if vans suffice."""
    if roster is None or roster.shortage is None:
        return ""
    lack = roster.shortage
    cause = _("no van left in {place}", place=lack.place) if lack.place else _("no van left")
    if lack.share is None:
        return cause
    # never 100 % if something is missing
    share = display.percent(min(lack.share, 0.99), 0)
    if lack.network:
        return display.clauses(cause, _("vans for {share} of what the network needs", share=share))
    return display.clauses(cause, _("vans for {share} of what the city needs", share=share))


def shares(day: PublishedDay) -> str:
    """Describe the learned shares of a day's shifts, with the number of days; else empty: "Orders
    of the day by shift: early 42%, late 58%; learned from 80 days of this depot, 11 of them on this
    weekday."."""
    learned = day.roster.shares if day.roster else None
    if learned is None:
        return ""
    split = display.listed(
        [_("{shift} {share}", shift=name, share=display.percent(share, 0)) for name, share in learned.shares]
    )
    if learned.source == "depot":
        days = ngettext("{n} day", "{n} days", learned.days, n=display.number(learned.days))
        return _(
            "Orders of the day by shift: {split}; learned from {days} of this depot, {weekdays} of them this weekday.",
            split=split,
            days=days,
            weekdays=display.number(learned.weekdays),
        )
    if learned.source == "network":
        return _(
            "Orders of the day by shift: {split}, from the whole network, because too few days of this depot are "
            "known.",
            split=split,
        )
    return _("Orders of the day by shift: {split}, by their hours, because no order times are known yet.", split=split)


def chance(share: float) -> str:
    """Express a probability in whole numbers: 0.13 is "1 chance in 8"."""
    if share < 0.01:
        return _("less than 1 chance in 100")
    if share > 0.99:
        return _("more than 99 chances in 100")
    if share > 0.94:
        return _("{n} chances in 100", n=round(100 * share))
    if share <= 0.4:
        return _("1 chance in {n}", n=round(1 / share))
    return _("{n} chances in 10", n=round(10 * share))


def _by_shift(shifts: tuple[tuple[str, int], ...]) -> str:
    """Return a clause such as "3 early, 2 late"; empty without shifts, or with a single one."""
    of_each = [_("{n} {shift}", n=display.number(count), shift=name) for name, count in shifts]
    return display.listed(of_each) if len(of_each) > 1 else ""


def _loans(roster: PublishedRoster) -> str:
    loans = [_("{n} lent by {depot}", n=display.number(count), depot=depot) for depot, count in roster.borrowed]
    loans += [_("{n} lent to {depot}", n=display.number(count), depot=depot) for depot, count in roster.lent]
    return f" ({display.listed(loans)})" if loans else ""


def _beside(day: PublishedDay) -> str:
    """Describe the effect of another crew: one more if that would be cheaper but limits prevent it,
    else one fewer."""
    roster = day.roster
    assert roster is not None
    more, fewer = (None if cost is None else round(cost - roster.cost) for cost in (roster.one_more, roster.one_fewer))
    if more is not None and more < 0:
        return _would(_("one more"), more)
    if fewer is not None:
        return _would(_("one fewer"), fewer)
    return "" if more is None else _would(_("one more"), more)


def _would(crew: str, difference: int) -> str:
    """Describe the difference in cost of another crew: "one more would save 9"."""
    if difference == 0:
        return _("{crew} would cost as much", crew=crew)
    amount = display.number(abs(difference))
    if difference > 0:
        return _("{crew} would cost {amount} more", crew=crew, amount=amount)
    return _("{crew} would save {amount}", crew=crew, amount=amount)
