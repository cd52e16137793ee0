"""Unserved demand: orders turned away on capped days, and their cost."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.ops.formatting import display
from forecaster.config.staffing import Staffing
from forecaster.core.language import _, ngettext
from forecaster.ledger.publication import PublishedDepot, RecentDay


def capped_days(depots: Sequence[PublishedDepot]) -> list[RecentDay]:
    """Return the recent days of these depots on which demand exceeded the served orders."""
    return [day for depot in depots for day in depot.recent if day.open and day.served is not None]


def turned_away(depots: Sequence[PublishedDepot], staffing: Staffing | None) -> tuple[str, ...]:
    """Sentences on orders turned away recently, with their cost at the price of a missing driver;
    none without capped days."""
    days = capped_days(depots)
    if not days:
        return ()
    orders = sum((day.demand or 0.0) - (day.served or 0.0) for day in days)
    sentences = [
        ngettext(
            "Since {first}, about {orders} orders were turned away on {n} depot-day with more demand than capacity "
            "(estimate).",
            "Since {first}, about {orders} orders were turned away on {n} depot-days with more demand than capacity "
            "(estimate).",
            len(days),
            n=display.number(len(days)),
            first=display.day(min(day.date for day in days)),
            orders=display.orders(orders),
        )
    ]
    if staffing is not None:
        cost = orders / staffing.orders_per_driver * staffing.cost_short
        sentences.append(
            _(
                "Valued at the cost of missing drivers, they are worth {amount}.",
                amount=display.money(cost, staffing.currency),
            )
        )
    return tuple(sentences)


def left_out(depots: Sequence[PublishedDepot]) -> str:
    """Sentence on days excluded from scoring because their demand is unknown; empty without any."""
    days = capped_days(depots)
    if not days:
        return ""
    return ngettext(
        "{n} depot-day since {first} is left out: its count is a lower bound of demand.",
        "{n} depot-days since {first} are left out: their counts are lower bounds of demand.",
        len(days),
        n=display.number(len(days)),
        first=display.day(min(day.date for day in days)),
    )
