"""Depot table, sortable and searchable: what each depot expects, who is rostered, what changed,
what needs a look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlencode

from dashboards.ops.formatting import display
from dashboards.ops.formatting.charts import Bars, bars
from dashboards.ops.formatting.far_weeks import GLANCE, WEEK
from dashboards.ops.reading.header import Front, href, median_and_range
from dashboards.ops.views.roster_text import chance
from forecaster.core.language import N_, _, ngettext
from forecaster.ledger.publication import PublishedDay, PublishedDepot
from forecaster.ledger.records import Head

ROWS = 100  # on one page
MOVED = 0.15  # share of what was expected before that is worth a look
MOVED_LEAST = 10  # orders
SHORT = 0.5  # chance of being short that is worth a look
# share and number of depots short on one day that make it the network's
SCARCE, SCARCE_LEAST = 1 / 3, 5
SORTS: Mapping[str, str] = {
    "attention": N_("what needs attention first"),
    "depot": N_("by name"),
    "orders": N_("most orders first"),
    "drivers": N_("most drivers first"),
    "change": N_("largest change first"),
}
EarlierMedians = Mapping[tuple[str, date], float]


@dataclass(frozen=True)
class TableQuery:
    """Query of the depot table: filter, order and page; anything unknown means the whole in the
    usual order."""

    sort: str = "attention"
    city: str = ""
    search: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> TableQuery:
        sort, page = query.get("sort", ""), query.get("page", "")
        return cls(
            sort if sort in SORTS else "attention",
            query.get("city", "")[:200],
            query.get("q", "").strip()[:100],
            min(int(page), 100_000) if page.isascii() and page.isdigit() and len(page) < 7 and int(page) else 1,
        )

    def to(self, **changes: Any) -> str:
        """The address of the same with changes; a change of what is shown leads to its first
        page."""
        parameters = {"sort": self.sort, "city": self.city, "q": self.search, "page": 1, **changes}
        usual = {"sort": "attention", "city": "", "q": "", "page": 1}
        query = urlencode({name: value for name, value in parameters.items() if value != usual[name]})
        return f"/?{query}#depots" if query else "/#depots"


@dataclass(frozen=True)
class Cell:
    """A day of a depot."""

    open: bool
    orders: str
    range: str


@dataclass(frozen=True)
class DepotRow:
    depot_id: str
    href: str
    city: str
    tier: str
    today: Cell | None
    meant: Cell
    drivers: str
    vans: str
    change: str  # since the publication before; empty where that said nothing of the day
    reasons: tuple[str, ...]  # why it needs attention
    week: Bars
    week_text: str


@dataclass(frozen=True)
class DepotTable:
    rows: tuple[DepotRow, ...]
    query: TableQuery
    matches: int  # depots that are meant by city and search
    attention: int  # of them, those that need it
    pages: int
    cities: tuple[str, ...]
    staffed: bool
    vans: bool
    today: bool
    compared: bool  # with what was published before
    # days on which drivers are too few nearly everywhere, in a sentence; empty where there are none
    scarcity: str
    summary: str  # how many depots are meant, by what, in which order, and how many need attention


def depot_table(
    head: Head, depots: Sequence[PublishedDepot], front: Front, before: EarlierMedians, query: TableQuery
) -> DepotTable:
    """The rows that are asked for; `before` is what the publication before this one said."""
    matching = [depot for depot in depots if _matches(depot, query)]
    attention = {depot.depot_id: reasons(depot, head, front, before) for depot in matching}
    ordered = sorted(matching, key=_order(query.sort, head, front, before, attention))
    pages = max(-(-len(ordered) // ROWS), 1)
    page = min(query.page, pages)
    visible = ordered[(page - 1) * ROWS : page * ROWS]
    today, needy = today_of(front), sum(map(bool, attention.values()))
    return DepotTable(
        tuple(_row(depot, head, front, today, before, attention[depot.depot_id]) for depot in visible),
        TableQuery(query.sort, query.city, query.search, page),
        len(ordered),
        needy,
        pages,
        tuple(sorted(set(map(city_of, depots)) - {""})),
        any(map(is_staffed, days_of(depots))),
        any(map(has_vans, days_of(depots))),
        today is not None,
        bool(before),
        scarcity(depots, front),
        _summary(query, len(ordered), needy),
    )


def _summary(query: TableQuery, matches: int, attention: int) -> str:
    """ "12 depots in Boston with “02”, what needs attention first; 3 need attention."."""
    values = {"n": display.number(matches), "city": query.city, "words": query.search}
    if query.city and query.search:
        text = ngettext("{n} depot in {city} with “{words}”", "{n} depots in {city} with “{words}”", matches, **values)
    elif query.city:
        text = ngettext("{n} depot in {city}", "{n} depots in {city}", matches, **values)
    elif query.search:
        text = ngettext("{n} depot with “{words}”", "{n} depots with “{words}”", matches, **values)
    else:
        text = display.depots(matches)
    order, needy = _(SORTS[query.sort]), display.number(attention)
    if not attention:
        return _("{depots}, {order}; none need attention.", depots=text, order=order)
    return ngettext(
        "{depots}, {order}; {n} needs attention.",
        "{depots}, {order}; {n} need attention.",
        attention,
        n=needy,
        depots=text,
        order=order,
    )


def scarcity(depots: Sequence[PublishedDepot], front: Front) -> str:
    """Days of the next two weeks on which many depots at once are likely short, which the network
    must solve, in a sentence; empty where there are none."""
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


def reasons(depot: PublishedDepot, head: Head, front: Front, before: EarlierMedians) -> tuple[str, ...]:
    """Why this depot needs a look, the gravest first: what somebody can still act on, of two weeks.
    A day for which a planner has set a number has been looked at."""
    missing = [day for day in depot.recent if day.open and day.demand is None]
    sentences = [_("no count for {day}", day=display.day(missing[-1].date))] if missing else []
    meant = depot.days[front.meant]
    days = [meant, *(day for day in depot.days[:GLANCE] if day.target_date > front.today and day is not meant)]
    days = [day for day in days if day.override is None]
    sentences += _shortage(days, meant)
    sentences += _largest_move(depot, days, meant, head, before)
    if depot.tier is not None and depot.tier != head.tier:
        sentences.append(_("the same weekdays before are repeated: the model does not know this depot"))
    return tuple(sentences)


def urgency(depot: PublishedDepot, front: Front, sentences: Sequence[str]) -> tuple[float, ...]:
    """Sort key of what needs attention: the likeliest to be short on the day in front first, then
    most reasons."""
    day = depot.days[front.meant]
    return (-chance_of_shortage(day) if sentences and day.override is None else 0.0, -len(sentences))


def chance_of_shortage(day: PublishedDay) -> float:
    """The chance of being short, where that is worth a look; else 0."""
    chance_short = day.roster.chance_short if day.open and day.roster else 0.0
    return chance_short if chance_short >= SHORT else 0.0


def is_short(day: PublishedDay) -> bool:
    return chance_of_shortage(day) > 0


def _shortage(days: Sequence[PublishedDay], meant: PublishedDay) -> list[str]:
    """The day in front, or else the one on which drivers are most likely too few, where that is
    likelier than not, and on how many others too."""
    short = [day for day in days if is_short(day)]
    if not short:
        return []
    worst = max(short, key=lambda day: (day is meant, chance_of_shortage(day)))
    assert worst.roster is not None
    likely, day = chance(worst.roster.chance_short), display.day(worst.target_date)
    if worst is meant:
        sentence = _("{chance} of being short", chance=likely)
    else:
        sentence = _("{chance} of being short on {day}", chance=likely, day=day)
    if len(short) == 1:
        return [sentence]
    others = display.number(len(short) - 1)
    return [
        ngettext(
            "{shortage}, and on {n} other day",
            "{shortage}, and on {n} other days",
            len(short) - 1,
            n=others,
            shortage=sentence,
        )
    ]


def _largest_move(
    depot: PublishedDepot, days: Sequence[PublishedDay], meant: PublishedDay, head: Head, before: EarlierMedians
) -> list[str]:
    """The day in front, or else the one that moved most since the publication before."""
    moves = [(day, move) for day in days if (move := _move(depot, day, head, before))]
    if not moves:
        return []
    day, (_size, sentence) = max(moves, key=lambda day_and_move: (day_and_move[0] is meant, day_and_move[1][0]))
    return [sentence if day is meant else _("{day}: {text}", day=display.day(day.target_date), text=sentence)]


def _move(depot: PublishedDepot, day: PublishedDay, head: Head, before: EarlierMedians) -> tuple[float, str] | None:
    """By how many orders a day moved since the publication before, in a sentence too; None: no
    cause to act. A day that closed comes before any other."""
    change, was = change_of(depot, day, head, before)
    if not day.open and was >= MOVED_LEAST:
        return float("inf"), _("closed; {n} orders were said before", n=display.orders(was))
    if not day.open or change is None or abs(change) < max(MOVED_LEAST, MOVED * was):
        return None
    amount = display.orders(abs(change))
    if was > 0:
        amount = _("{n} ({share})", n=amount, share=display.percent(abs(change) / was, 0))
    if change > 0:
        return abs(change), _("{n} more than was said before", n=amount)
    return abs(change), _("{n} fewer than was said before", n=amount)


def change_of(
    depot: PublishedDepot, day: PublishedDay, head: Head, before: EarlierMedians
) -> tuple[float | None, float]:
    """Difference from the previous forecast, and that forecast; None where there was none."""
    was = before.get((depot.depot_id, day.target_date))
    return (None, 0.0) if was is None else (median_and_range(day, head.levels).median - was, was)


def today_of(front: Front) -> int | None:
    """Position of today among the target days, unless it is the day in front."""
    place = front.target_dates.index(front.today) if front.today in front.target_dates else None
    return None if place == front.meant else place


def city_of(depot: PublishedDepot) -> str:
    return depot.attributes.get("city", "")


def days_of(depots: Iterable[PublishedDepot], chosen: slice = slice(None)) -> list[PublishedDay]:
    """These days of all depots."""
    return [day for depot in depots for day in depot.days[chosen]]


def has_vans(day: PublishedDay) -> bool:
    """Whether the pipeline counts vans."""
    return day.roster is not None and day.roster.vans is not None


def is_staffed(day: PublishedDay) -> bool:
    """Whether drivers were planned for this day."""
    return day.drivers is not None


def has_shifts(day: PublishedDay) -> bool:
    """Whether this day is rostered by shifts, so that there may be a plan of who works them."""
    return day.roster is not None and bool(day.roster.shifts)


def by_city(depots: Sequence[PublishedDepot]) -> dict[str, list[PublishedDepot]]:
    """The depots of each city; of an empty name those without one."""
    cities: dict[str, list[PublishedDepot]] = {}
    for depot in depots:
        cities.setdefault(city_of(depot), []).append(depot)
    return cities


def _matches(depot: PublishedDepot, query: TableQuery) -> bool:
    if query.city and city_of(depot) != query.city:
        return False
    text = " ".join((depot.depot_id, *depot.attributes.values())).casefold()
    return all(word in text for word in query.search.casefold().split())


def _order(
    sort: str, head: Head, front: Front, before: EarlierMedians, attention: Mapping[str, tuple[str, ...]]
) -> Callable[[PublishedDepot], Any]:
    def key(depot: PublishedDepot) -> tuple[Any, ...]:
        day, place = depot.days[front.meant], (city_of(depot), depot.depot_id)
        if sort == "depot":
            return (depot.depot_id,)
        if sort == "orders":
            return (-median_and_range(day, head.levels).median, *place)
        if sort == "drivers":
            return (-(day.drivers or 0), *place)
        change = abs(change_of(depot, day, head, before)[0] or 0.0)
        return (-change, *place) if sort == "change" else (*urgency(depot, front, attention[depot.depot_id]), *place)

    return key


def _row(
    depot: PublishedDepot,
    head: Head,
    front: Front,
    today: int | None,
    before: EarlierMedians,
    attention: tuple[str, ...],
) -> DepotRow:
    day = depot.days[front.meant]
    medians = [median_and_range(ahead, head.levels).median for ahead in depot.days]
    change = change_of(depot, day, head, before)[0]
    first = max(front.meant + 1 - WEEK, 0)
    week = slice(first, first + WEEK)
    in_words = map(_in_words, depot.days[week], medians[week])
    vans = day.roster.vans if day.roster is not None else None
    return DepotRow(
        depot.depot_id,
        href(depot.depot_id),
        city_of(depot),
        depot.tier or head.tier,
        None if today is None else _cell(depot.days[today], head),
        _cell(day, head),
        display.number(day.drivers) if day.drivers is not None and day.open else "–",
        display.number(vans) if vans is not None and day.open else "–",
        "" if change is None else display.signed(change),
        attention,
        bars(medians[week], front.meant - first),
        display.listed(list(in_words)),
    )


def _in_words(day: PublishedDay, median: float) -> str:
    return f"{display.weekday(day.target_date)} {display.orders(median) if day.open else _('closed')}"


def _cell(day: PublishedDay, head: Head) -> Cell:
    numbers = median_and_range(day, head.levels)
    return Cell(day.open, display.orders(numbers.median), display.span(numbers.low, numbers.high))
