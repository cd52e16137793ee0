"""Integrity checks of a publication: sentences that state why it must not be published."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import chain, islice, pairwise

from forecaster.core import timezones
from forecaster.ledger.publication import (
    PAGE_LEVELS,
    TIERS,
    Publication,
    PublishedDay,
    PublishedDepot,
    PublishedRoster,
    PublishedTotal,
)

MOST = 5  # sentences about a publication, or about a part of its depots


def objections(publication: Publication, *, in_parts: bool = False) -> tuple[str, ...]:
    """Integrity check: at most five sentences on why this publication must not be published;
    empty if it is whole.

    With `in_parts` its depots are skipped: `objections_to_depots` checks each part where it is
    made.
    """
    of_depots = () if in_parts else chain(_wrong_ids(publication), _wrong_depots(publication))
    return tuple(islice(chain(_wrong_head(publication), of_depots, _wrong_totals(publication)), MOST))


def objections_to_depots(
    depots: Iterable[PublishedDepot], levels: Sequence[float], days: Sequence[date]
) -> tuple[str, ...]:
    """Check some depots of a publication of these quantile levels and days in the same way."""
    numbered = list(enumerate(days, 1))
    return tuple(islice(chain.from_iterable(_wrong_depot(depot, levels, numbered) for depot in depots), MOST))


def _wrong_depots(publication: Publication) -> Iterator[str]:
    days = publication.horizon_days
    return chain.from_iterable(_wrong_depot(depot, publication.levels, days) for depot in publication.depots)


def _wrong_totals(publication: Publication) -> Iterator[str]:
    days = {day for _, day in publication.horizon_days}
    for total in publication.totals:
        yield from _wrong_total(total, publication, days)


def _wrong_head(publication: Publication) -> Iterator[str]:
    """Objections to the publication as a whole."""
    levels = publication.levels
    if publication.tier not in TIERS:
        yield f"tier is {publication.tier!r}, wanted one of {', '.join(TIERS)}"
    if not timezones.exists(publication.timezone):
        yield f"timezone is {publication.timezone!r}, wanted a zone such as Europe/Berlin"
    if list(levels) != sorted(set(levels)) or not set(PAGE_LEVELS) <= set(levels):
        yield f"levels are {list(levels)}, wanted rising quantile levels with 0.1, 0.5 and 0.9 among them"


def _wrong_ids(publication: Publication) -> Iterator[str]:
    if not publication.depots:
        yield "there is no depot in it"
    ids = [depot.depot_id for depot in publication.depots]
    # Counting is quadratic; done only if ids repeat.
    for repeated_id in sorted({name for name in ids if ids.count(name) > 1} if len(set(ids)) < len(ids) else ()):
        yield f"depot {repeated_id!r} stands in it twice"


def _wrong_depot(depot: PublishedDepot, levels: Sequence[float], days: list[tuple[int, date]]) -> Iterator[str]:
    """Contradictions in one depot; `days` are the forecast days, each with its number of days after
    the cutoff."""
    cutoff = days[0][1] - timedelta(days=1)
    if not depot.depot_id:
        yield "a depot has an empty id"
    if depot.timezone is not None and not timezones.exists(depot.timezone):
        yield f"depot {depot.depot_id!r} has timezone {depot.timezone!r}, wanted a zone such as Europe/Berlin"
    if [(day.horizon, day.target_date) for day in depot.days] != days:
        published = ", ".join(str(day.target_date) for day in depot.days) or "no day"
        yield (f"depot {depot.depot_id!r} has {published}, wanted the {len(days)} days after {cutoff}")
    for day in depot.days:
        if objection := _wrong_day(day, levels):
            yield f"depot {depot.depot_id!r}, {day.target_date}: {objection}"
    for number, week in enumerate(depot.weeks, 1):
        if objection := _wrong_quantiles(week, len(levels)):
            yield f"depot {depot.depot_id!r}, week {number}: {objection}"
    for past in depot.recent:
        if past.date > cutoff or (past.demand is not None and not 0 <= past.demand < math.inf):
            yield (
                f"depot {depot.depot_id!r}, {past.date}: recent demand {past.demand}, "
                f"wanted a finite number of orders, 0 or more, not after {cutoff}"
            )


def _wrong_total(total: PublishedTotal, publication: Publication, days: set[date]) -> Iterator[str]:
    whose = f"the total of {total.name or 'the network'}, {total.target_date}"
    if not {total.target_date, total.target_date + timedelta(days=total.days - 1)} <= days:
        yield f"{whose}: wanted one of the {publication.horizon} days after {publication.cutoff}"
    if objection := _wrong_quantiles(total.quantiles, len(publication.levels)):
        yield f"{whose}: {objection}"


def _wrong_day(day: PublishedDay, levels: Sequence[float]) -> str | None:
    """Objections to one day's forecast."""
    if objection := _wrong_quantiles(day.quantiles, len(levels)):
        return objection
    if 0.5 in levels and (objection := _wrong_planning(day, day.quantiles[levels.index(0.5)])):
        return objection
    if not day.open and any(day.quantiles):
        return f"quantiles {list(day.quantiles)} on a closed day, wanted 0"
    if day.drivers is not None and day.drivers < 0:
        return f"{day.drivers} drivers, wanted 0 or more"
    return None if day.roster is None else _wrong_roster(day.roster)


def _wrong_planning(day: PublishedDay, median: float) -> str | None:
    """Objections to an override, and to the explanation of a change."""
    if day.override is not None:
        if objection := _wrong_quantiles(day.override.quantiles, len(day.quantiles)):
            return f"the model's {objection}"
        if median != day.override.orders:
            return f"an override of {day.override.orders} and a median of {median}, wanted the same number"
    if day.change is not None and day.change.before + day.change.total != round(median):
        parts = " + ".join(str(orders) for _, orders in day.change.parts)
        return f"a change of {day.change.before} + {parts}, wanted the sum to be {round(median)}"
    return None


def _wrong_roster(roster: PublishedRoster) -> str | None:
    if not 0 <= roster.chance_short <= 1:
        return f"a chance of {roster.chance_short} to be short, wanted one from 0 to 1"
    money = [amount for amount in (roster.cost, roster.one_more, roster.one_fewer) if amount is not None]
    if not all(0 <= amount < math.inf for amount in money):
        return f"expected costs {money}, wanted finite amounts of 0 or more"
    counts = [count for _, count in (*roster.borrowed, *roster.lent)] + [roster.vans or 0]
    share = 1.0 if roster.shortage is None else roster.shortage.share
    if share is None or not 0 <= share <= 1:
        return f"a share of {share} of the vans wanted, wanted one from 0 to 1"
    return f"vans {counts}, wanted 0 or more" if min(counts) < 0 else None


def _wrong_quantiles(values: tuple[float, ...], levels: int) -> str | None:
    if len(values) != levels:
        return f"{len(values)} quantiles, wanted {levels}, one for each level"
    if not all(math.isfinite(value) for value in values):
        return f"quantiles {list(values)}, wanted finite numbers"
    if not all(value >= 0 for value in values):
        return f"quantiles {list(values)}, wanted 0 or more"
    if not all(low <= high for low, high in pairwise(values)):
        return f"quantiles {list(values)}, wanted no fall from one level to the next"
    return None
