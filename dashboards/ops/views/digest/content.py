"""Content of a digest: the day in front with number, range, crew, change and reason, the days
ahead, and the depots that need attention.

Its sentences are those of the depot's page, made by the same functions. Without a depot and a city
it covers all that the reader sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.formatting.retelling import told
from dashboards.ops.reading.editions import Edition, NoSuchDepot, without_network_share
from dashboards.ops.reading.header import MEANING, Front, Range, href, in_zone, median_and_range, night
from dashboards.ops.views.attention import city_of, reasons, scarcity, urgency
from dashboards.ops.views.change import in_few_words
from dashboards.ops.views.depot import DayAheadRow, depot_page
from dashboards.ops.views.network import drivers, together
from dashboards.ops.views.planning.override_text import planners_number
from forecaster.core.language import _, ngettext
from forecaster.ledger.once.digests import CLOSED, Crews
from forecaster.ledger.publication import WITHOUT_OWN_MODEL, PublishedChange, PublishedDay, PublishedDepot

MOST_LISTED = 64  # depots of a city
MOST_OUTSTANDING = 8


class NoSuchCity(LookupError):
    """The publication has no depot of this city, or the reader sees none."""


@dataclass(frozen=True)
class DigestScope:
    """Scope of a digest: one depot, one city, or all."""

    depot_id: str = ""
    city: str = ""


@dataclass(frozen=True)
class DigestDay:
    """One day in words; `number` and `orders` are "closed" if the day is closed."""

    date: date
    day: str
    near: str  # "today", "tomorrow" or ""
    open: bool
    number: str  # "131"
    orders: str  # "131 orders"
    range: str  # empty if none was published
    crew: str  # "4 drivers"; empty if none are planned
    remarks: tuple[str, ...]  # names of the day, its override, its crew


@dataclass(frozen=True)
class DigestLine:
    """A depot in the digest of a city, on the day in front."""

    depot_id: str
    address: str  # of its page; empty if the page's URL is not declared
    orders: str
    range: str
    crew: str
    remark: str  # the override; empty if the number is the model's


@dataclass(frozen=True)
class Digest:
    title: str  # of the fleet
    name: str  # of the depot or the city, or how many depots
    scope: DigestScope
    alarm: str  # problem with these numbers: outdated, or without a model; else empty
    old: bool  # True if they are from an earlier run
    meant: DigestDay
    because: str  # cause of the change, or the count a week before
    planned: str  # the planner of the number; empty if it is the model's
    days: tuple[DigestDay, ...]  # from today
    outstanding: tuple[tuple[str, str], ...]  # depots that need attention, with the reasons
    lines: tuple[DigestLine, ...]
    more: str  # number of depots that are not listed
    published: str
    address: str  # of the page with the details; empty as in DigestLine
    crews: Crews  # of today and of the day in front, as stated here


def digest(
    edition: Edition, scope: DigestScope, base: str = "", depots: Sequence[PublishedDepot] | None = None
) -> Digest:
    """Return the digest of a scope. Raises NoSuchDepot and NoSuchCity.

    `base` is the address of the page; `depots` are those of the edition if they were already read.
    """
    if scope.depot_id:
        return _of_depot(edition, scope, base)
    return _of_city(edition, scope, base, edition.depots() if depots is None else depots)


def _of_depot(edition: Edition, scope: DigestScope, base: str) -> Digest:
    # recipients of a depot's digest see no other city
    depot = without_network_share(edition.depot(scope.depot_id))
    if scope.city and city_of(depot) != scope.city:
        raise NoSuchDepot(scope.depot_id)
    front = in_zone(edition.front, depot.timezone)
    page = depot_page(edition.head, depot, front, home=edition.home)
    days = tuple(
        _day(day, line, edition.head.levels)
        for day, line in zip(depot.days, page.lines, strict=True)
        if day.target_date >= front.today or line.meant
    )
    return Digest(
        title=front.title,
        name=depot.depot_id,
        scope=scope,
        alarm=_alarm(edition, page.tier),
        old=_is_old(edition),
        meant=next(day for day in days if day.date == front.target_dates[front.meant]),
        because=page.because,
        planned=page.planned,
        days=days,
        outstanding=(),
        lines=(),
        more="",
        published=page.published,
        address=base and base + href(depot.depot_id),
        crews=_crews([depot], front),
    )


def _day(day: PublishedDay, line: DayAheadRow, levels: tuple[float, ...]) -> DigestDay:
    remarks = tuple(text for text in (line.marks, line.override, line.roster) if text)
    if not day.open:
        return DigestDay(day.target_date, line.day, line.near, False, _("closed"), _("closed"), "", "", remarks)
    orders = display.in_orders(median_and_range(day, levels).median)
    crew = display.drivers(day.drivers) if day.drivers is not None else ""
    return DigestDay(day.target_date, line.day, line.near, True, line.orders, orders, line.range, crew, remarks)


def _of_city(edition: Edition, scope: DigestScope, base: str, every: Sequence[PublishedDepot]) -> Digest:
    depots = tuple(depot for depot in every if not scope.city or city_of(depot) == scope.city)
    if not depots:
        raise NoSuchCity(scope.city)
    front, head = edition.front, edition.head
    joint = together(edition.totals(), head.levels).get(scope.city, ())
    days = tuple(
        _total_day(edition, depots, joint, place)
        for place, day in enumerate(front.target_dates)
        if day >= front.today or place == front.meant
    )
    ordered = sorted(depots, key=lambda depot: -median_and_range(depot.days[front.meant], head.levels).median)
    return Digest(
        title=front.title,
        name=scope.city or _everyone(len(depots)),
        scope=scope,
        alarm=" ".join(filter(None, (_alarm(edition, front.tier), _note(edition, scope)))),
        old=_is_old(edition),
        meant=next(day for day in days if day.date == front.target_dates[front.meant]),
        because=in_few_words(_joint_change(depots, front.meant), front.today),
        planned="",
        days=days,
        outstanding=_outstanding(edition, depots),
        lines=tuple(_line(depot, front, head.levels, base) for depot in ordered[:MOST_LISTED]),
        more=_more(len(ordered) - MOST_LISTED),
        published=front.published,
        address=base and f"{base}/{_query(scope)}",
        crews=_crews(depots, front),
    )


def _note(edition: Edition, scope: DigestScope) -> str:
    """Return the run's note on all depots, for readers of all."""
    return "" if scope.city or edition.cities is not None else told(edition.head.note or "")


def _query(scope: DigestScope) -> str:
    return f"?{urlencode({'city': scope.city})}" if scope.city else ""


def _everyone(depots: int) -> str:
    return ngettext("the only depot", "all {n} depots", depots, n=display.number(depots))


def _more(hidden: int) -> str:
    """Return the number of unlisted depots, as text; empty if all are listed."""
    if hidden <= 0:
        return ""
    return ngettext("{n} depot more on the page", "{n} depots more on the page", hidden, n=display.number(hidden))


def _total_day(edition: Edition, depots: Sequence[PublishedDepot], joint: tuple[Range, ...], place: int) -> DigestDay:
    """Return a day of several depots: their published total, else the sum of their medians, without
    a range."""
    front, levels = edition.front, edition.head.levels
    day = front.target_dates[place]
    near = display.near(day, front.today)
    closed = sum(not depot.days[place].open for depot in depots)
    if closed == len(depots):
        return DigestDay(day, display.day(day), near, False, _("closed"), _("closed"), "", "", ())
    median = joint[place].median if joint else _median(depots, place, levels)
    planned = drivers(list(depots), place)
    remarks = []
    if closed:
        remarks.append(ngettext("{n} depot closed", "{n} depots closed", closed, n=display.number(closed)))
    if count := sum(depot.days[place].override is not None for depot in depots):
        remarks.append(
            ngettext(
                "planners changed the number of {n} depot",
                "planners changed the numbers of {n} depots",
                count,
                n=display.number(count),
            )
        )
    return DigestDay(
        day,
        display.day(day),
        near,
        True,
        display.orders(median),
        display.in_orders(median),
        display.span(joint[place].low, joint[place].high) if joint else "",
        display.drivers(planned) if planned is not None else "",
        tuple(remarks),
    )


def _median(depots: Sequence[PublishedDepot], place: int, levels: tuple[float, ...]) -> float:
    return sum(median_and_range(depot.days[place], levels).median for depot in depots)


def _joint_change(depots: Sequence[PublishedDepot], place: int) -> PublishedChange | None:
    """Return the change of the sum of several depots, part by part; None if some had no previous
    forecast."""
    changes = [depot.days[place].change for depot in depots if depot.days[place].open]
    moves = [change for change in changes if change is not None]
    if not moves or len(moves) < len(changes):
        return None
    parts: Counter[str] = Counter()
    for change in moves:
        for name, orders in change.parts:
            parts[name] += orders
    return PublishedChange(moves[0].since, sum(change.before for change in moves), tuple(parts.items()))


def _outstanding(edition: Edition, depots: Sequence[PublishedDepot]) -> tuple[tuple[str, str], ...]:
    """Return the depots that need attention, most urgent first as on the board; before them the
    days with too few drivers nearly everywhere."""
    front, head, before = edition.front, edition.head, edition.before()
    attention = [(depot, why) for depot in depots if (why := reasons(depot, head, front, before))]
    gravest = sorted(attention, key=lambda entry: (*urgency(entry[0], front, entry[1]), entry[0].depot_id))
    everywhere = scarcity(depots, front)
    listed = [(depot.depot_id, display.clauses(*sentences)) for depot, sentences in gravest[:MOST_OUTSTANDING]]
    return (*([("", everywhere)] if everywhere else []), *listed)


def _line(depot: PublishedDepot, front: Front, levels: tuple[float, ...], base: str) -> DigestLine:
    day = depot.days[front.meant]
    address = base and base + href(depot.depot_id)
    if not day.open:
        return DigestLine(depot.depot_id, address, _("closed"), "", "", "")
    numbers = median_and_range(day, levels)
    crew = display.drivers(day.drivers) if day.drivers is not None else ""
    orders, span = display.in_orders(numbers.median), display.span(numbers.low, numbers.high)
    return DigestLine(depot.depot_id, address, orders, span, crew, planners_number(day.override, levels))


def _published_on(edition: Edition) -> date:
    return edition.head.published_at.astimezone(ZoneInfo(edition.head.timezone)).date()


def _is_old(edition: Edition) -> bool:
    return edition.front.alarm is not None and _published_on(edition) < edition.front.today


def _alarm(edition: Edition, tier: str) -> str:
    """Describe the problem with the numbers: outdated, or without a model."""
    front, publication_day = edition.front, _published_on(edition)
    sentences = []
    if front.fruitless and not front.stale and publication_day < front.today:
        is_yesterday = publication_day == front.today - timedelta(days=1)
        if is_yesterday:
            sentences.append(_("Yesterday’s forecast: this night’s run failed."))
        else:
            sentences.append(_("The forecast of {day}: this night’s run failed.", day=display.day(publication_day)))
    elif front.alarm:
        sentences.append(f"{front.alarm.title} {front.alarm.sentence}")
    if tier in WITHOUT_OWN_MODEL:
        sentences.append(_(MEANING[tier], night=night(publication_day, front.today)))
    return " ".join(sentences)


def _crews(depots: Sequence[PublishedDepot], front: Front) -> Crews:
    front_day = front.target_dates[front.meant]
    return {
        day.isoformat(): {
            depot.depot_id: depot.days[place].drivers if depot.days[place].open else CLOSED for depot in depots
        }
        for place, day in enumerate(front.target_dates)
        if front.today <= day <= front_day
    }
