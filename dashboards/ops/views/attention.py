"""Depots that need attention in the days ahead: likely shortages, large changes, missing counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.far_weeks import GLANCE
from dashboards.ops.reading.header import Front, median_and_range
from dashboards.ops.views.roster_text import chance
from forecaster.core.language import _, ngettext
from forecaster.ledger.publication import PublishedDay, PublishedDepot
from forecaster.ledger.records import Head

NEWEST = 2  # days up to the cutoff that should have a count
MOVED = 0.15  # minimum change that needs attention, as a share of the previous forecast
MOVED_LEAST = 10  # orders
SHORT = 0.5  # minimum probability of a shortage that needs attention
# share and number of depots short on one day from which it concerns the network
SCARCE, SCARCE_LEAST = 1 / 3, 5
EarlierMedians = Mapping[tuple[str, date], float]


def scarcity(depots: Sequence[PublishedDepot], front: Front) -> str:
    """Sentence on days of the next two weeks when many depots are likely short, which the network
    must solve; empty if there are none."""
    targets = [target for target in front.target_dates[:GLANCE] if target >= front.today]
    short = Counter(day.target_date for depot in depots for day in depot.days if is_short(day))
    least = max(SCARCE_LEAST, SCARCE * len(depots))
    days = {day: short[day] for day in targets if short[day] >= least}
    if not days:
        return ""
    (first, most), *later = days.items()
    all_depots = display.number(len(depots))
    parts = [_("{n} of {all} on {day}", n=display.number(most), all=all_depots, day=display.day(first))]
    parts += [_("{n} on {day}", n=display.number(number), day=display.day(day)) for day, number in later]
    return _("Too few drivers are likely at many depots at once: {days}.", days=display.listed(parts))


def reasons(
    depot: PublishedDepot, head: Head, front: Front, before: EarlierMedians, *, shortages: bool = True
) -> tuple[str, ...]:
    """Return the reasons why this depot needs attention, most serious first: within two weeks, so
    that somebody can still act.

    Days overridden by a planner are excluded. `shortages` includes likely shortages.
    """
    missing = [day for day in depot.recent[-NEWEST:] if day.open and day.demand is None]
    sentences = [_("no count for {day}", day=display.day(missing[-1].date))] if missing else []
    front_day = depot.days[front.meant]
    days = [front_day, *(day for day in depot.days[:GLANCE] if day.target_date > front.today and day is not front_day)]
    days = [day for day in days if day.override is None]
    sentences += _shortage(days, front_day) if shortages else []
    sentences += _largest_move(depot, days, front_day, head, before)
    if depot.tier is not None and depot.tier != head.tier:
        sentences.append(_("the same weekdays before are repeated: the model does not know this depot"))
    return tuple(sentences)


def urgency(depot: PublishedDepot, front: Front, sentences: Sequence[str]) -> tuple[float, ...]:
    """Return the sort key of depots that need attention: most likely to be short on the day in
    front first, then most reasons."""
    day = depot.days[front.meant]
    return (-chance_of_shortage(day) if sentences and day.override is None else 0.0, -len(sentences))


def chance_of_shortage(day: PublishedDay) -> float:
    """Probability of a shortage if it needs attention; else 0."""
    chance_short = day.roster.chance_short if day.open and day.roster else 0.0
    return chance_short if chance_short >= SHORT else 0.0


def is_short(day: PublishedDay) -> bool:
    return chance_of_shortage(day) > 0


def _shortage(days: Sequence[PublishedDay], front_day: PublishedDay) -> list[str]:
    """Describe the likely shortage on the day in front, else on the day of the highest probability,
    and count the other such days."""
    short = [day for day in days if is_short(day)]
    if not short:
        return []
    worst = max(short, key=lambda day: (day is front_day, chance_of_shortage(day)))
    assert worst.roster is not None
    likely, day = chance(worst.roster.chance_short), display.day(worst.target_date)
    if worst is front_day:
        sentence = _("{chance} of being short", chance=likely)
    else:
        sentence = _("{chance} of being short on {day}", chance=likely, day=day)
    if len(short) == 1:
        return [sentence]
    other_days = display.number(len(short) - 1)
    return [
        ngettext(
            "{shortage}, and on {n} other day",
            "{shortage}, and on {n} other days",
            len(short) - 1,
            n=other_days,
            shortage=sentence,
        )
    ]


def _largest_move(
    depot: PublishedDepot, days: Sequence[PublishedDay], front_day: PublishedDay, head: Head, before: EarlierMedians
) -> list[str]:
    """Describe the change of the day in front, else of the day that changed most since the previous
    publication."""
    moves = [(day, move) for day in days if (move := _move(depot, day, head, before))]
    if not moves:
        return []
    day, (_size, sentence) = max(moves, key=lambda day_and_move: (day_and_move[0] is front_day, day_and_move[1][0]))
    return [sentence if day is front_day else _("{day}: {text}", day=display.day(day.target_date), text=sentence)]


def _move(depot: PublishedDepot, day: PublishedDay, head: Head, before: EarlierMedians) -> tuple[float, str] | None:
    """Return the size of a day's change since the previous publication, and a sentence; None if it
    needs no action. A newly closed day ranks first."""
    change, was = change_of(depot, day, head, before)
    if not day.open and was >= MOVED_LEAST:
        return float("inf"), _("closed; the previous forecast was {n} orders", n=display.orders(was))
    if not day.open or change is None or abs(change) < max(MOVED_LEAST, MOVED * was):
        return None
    amount = display.orders(abs(change))
    if was > 0:
        amount = _("{n} ({share})", n=amount, share=display.percent(abs(change) / was, 0))
    if change > 0:
        return abs(change), _("{n} more than the previous forecast", n=amount)
    return abs(change), _("{n} fewer than the previous forecast", n=amount)


def change_of(
    depot: PublishedDepot, day: PublishedDay, head: Head, before: EarlierMedians
) -> tuple[float | None, float]:
    """Return the difference from the previous forecast, and that forecast; the former is None if
    there was none."""
    was = before.get((depot.depot_id, day.target_date))
    return (None, 0.0) if was is None else (median_and_range(day, head.levels).median - was, was)


def city_of(depot: PublishedDepot, level: str = "city") -> str:
    """Return the depot's city, or its value of another level; empty if it has none."""
    return depot.attributes.get(level, "")


def days_of(depots: Iterable[PublishedDepot], day_slice: slice = slice(None)) -> list[PublishedDay]:
    """Return these days of all depots."""
    return [day for depot in depots for day in depot.days[day_slice]]


def is_staffed(day: PublishedDay) -> bool:
    """True if drivers were planned for this day."""
    return day.drivers is not None


def has_shifts(day: PublishedDay) -> bool:
    """True if this day is rostered by shifts, so that a plan of people may exist."""
    return day.roster is not None and bool(day.roster.shifts)


def by_city(depots: Sequence[PublishedDepot], level: str = "city") -> dict[str, list[PublishedDepot]]:
    """Group depots by city, or by another level; those without a value are under the empty name."""
    cities: dict[str, list[PublishedDepot]] = {}
    for depot in depots:
        cities.setdefault(city_of(depot, level), []).append(depot)
    return cities
