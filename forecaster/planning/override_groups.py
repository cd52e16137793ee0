"""Override groups: one request of a planner for several days and depots, as a number or as a
percentage of the model's.

A group is stored as one override per depot and day, so that each can be withdrawn, replaced and
evaluated separately. A percentage refers to the model's number as published now; the resulting
number is stored, and stays when a later run forecasts another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from typing import Self

from forecaster.core.language import _
from forecaster.errors import OverrideError
from forecaster.ledger.publication import PublishedDay, PublishedDepot
from forecaster.planning.overrides import MAX_ORDERS, ProposedOverride, shown

LARGEST_PERCENT = 1000.0
MOST_CELLS = 5_000  # maximum number of depot-days per request


@dataclass(frozen=True)
class OverrideGroup:
    """A planner's request for some depots from a first to a last day.

    `city` selects all its depots. Either `orders` per day or `percent` is the number; a `percent`
    of 10 is a tenth more than the model's.

    Raises OverrideError if these are inconsistent.
    """

    depot_ids: tuple[str, ...]
    first: date
    last: date
    reason: str
    by: str
    city: str | None = None
    orders: int | None = None
    percent: float | None = None
    note: str = ""
    until: date | None = None  # None: the day itself, for each day

    def __post_init__(self) -> None:
        if (self.orders is None) == (self.percent is None):
            amount = "neither" if self.orders is None else "both"
            raise OverrideError(_("found {amount} of orders and percent, wanted one of them", amount=amount))
        # NaN is in no range
        if self.percent is not None and not -100 <= self.percent <= LARGEST_PERCENT:
            raise OverrideError(
                _(
                    "percent: found {percent}, wanted a number from -100 to {largest_percent}",
                    percent=self.percent,
                    largest_percent=f"{LARGEST_PERCENT:g}",
                )
            )
        if self.last < self.first:
            raise OverrideError(
                _(
                    "last: found {last}, before the first, {first}; wanted it or a later day",
                    last=self.last,
                    first=self.first,
                )
            )
        if bool(self.depot_ids) == (self.city is not None):
            raise OverrideError(_("found no depot, or both depots and a city; wanted depots or a city"))

    @classmethod
    def of_one_day(cls, proposed: ProposedOverride) -> Self:
        """Return the group of one depot and day."""
        day, depot_ids = proposed.target_date, (proposed.depot_id,)
        group = cls(depot_ids, day, day, proposed.reason, proposed.by, orders=proposed.orders, note=proposed.note)
        return replace(group, until=proposed.until)

    def expand(
        self, depots: Sequence[PublishedDepot], levels: Sequence[float]
    ) -> tuple[tuple[ProposedOverride, ...], int]:
        """Return an override for each open day of the group among the published depots, and the
        number of days that stay closed.

        Raises OverrideError for an unpublished depot, city or day, if all days are closed, and for
        more days than one request may have.
        """
        members = list(self._members(depots))
        self._check_period({day.target_date for depot in members for day in depot.days})
        days = [(depot, day) for depot in members for day in self._days(depot)]
        if len(days) > MOST_CELLS:
            raise OverrideError(
                _(
                    "found {days} depots and days, wanted at most {most_cells} in one request",
                    days=f"{len(days):,}",
                    most_cells=f"{MOST_CELLS:,}",
                )
            )
        # a single date is deliberate; a range may span days off
        alone = len(days) == 1 and self.orders is not None
        open_days = [(depot, day) for depot, day in days if day.open or (alone and depot.may_open(day.target_date))]
        if not open_days:
            whose = days[0][0].depot_id if len({depot.depot_id for depot, _ in days}) == 1 else "each depot"
            raise OverrideError(
                _(
                    "{depot} is closed on {day}; wanted an open day, or another word from its source",
                    depot=whose,
                    day=self._period(),
                )
            )
        overrides = tuple(
            ProposedOverride(
                depot.depot_id,
                day.target_date,
                self._orders(day, levels.index(0.5)),
                self.reason,
                self.by,
                self.note,
                self.until,
            )
            for depot, day in open_days
        )
        return overrides, len(days) - len(open_days)

    def _check_period(self, published: Set[date]) -> None:
        """Raises OverrideError if a day of the request is not published; none is dropped."""
        values = {"first": min(published), "last": max(published)}
        if values["first"] <= self.first and self.last <= values["last"]:
            return
        if self.first == self.last:
            raise OverrideError(
                _(
                    "date: found {target_date}, wanted a published day, from {first} to {last}",
                    target_date=self.first,
                    **values,
                )
            )
        raise OverrideError(
            _("date: found {days}, wanted published days, from {first} to {last}", days=self._period(), **values)
        )

    def _members(self, depots: Sequence[PublishedDepot]) -> Iterable[PublishedDepot]:
        if self.city is not None:
            members = [depot for depot in depots if depot.attributes.get("city") == self.city]
            if not members:
                cities = sorted({depot.attributes["city"] for depot in depots if depot.attributes.get("city")})
                if not cities:
                    raise OverrideError(
                        _("city: found {city}, wanted depots, since none has a city", city=shown(self.city))
                    )
                names = ", ".join(cities[:20])
                raise OverrideError(
                    _("city: found {city}, wanted one of {cities}", city=shown(self.city), cities=names)
                )
            return members
        by_id = {depot.depot_id: depot for depot in depots}
        for depot_id in self.depot_ids:
            if depot_id not in by_id:
                raise OverrideError(
                    _("depot: found {depot_id}, wanted a depot of the published forecasts", depot_id=shown(depot_id))
                )
        return [by_id[depot_id] for depot_id in dict.fromkeys(self.depot_ids)]

    def _days(self, depot: PublishedDepot) -> Iterable[PublishedDay]:
        return (day for day in depot.days if self.first <= day.target_date <= self.last)

    def _orders(self, day: PublishedDay, middle: int) -> int:
        if self.orders is not None:
            return self.orders
        assert self.percent is not None
        model = day.override.quantiles if day.override else day.quantiles
        return share_of_orders(model[middle], self.percent)

    def _period(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


@dataclass(frozen=True)
class OverrideCells:
    """A planner's number for each of several depots and days, as (depot, day, orders).

    Raises OverrideError for none, and for more than one request may have.
    """

    cells: tuple[tuple[str, date, int], ...]
    reason: str
    by: str
    note: str = ""
    until: date | None = None  # None: the day itself, for each day

    def __post_init__(self) -> None:
        if not 1 <= len(self.cells) <= MOST_CELLS:
            values = {"days": f"{len(self.cells):,}", "most_cells": f"{MOST_CELLS:,}"}
            raise OverrideError(
                _("found {days} depots and days, wanted at least one and at most {most_cells} in one request", **values)
            )

    @property
    def depot_ids(self) -> tuple[str, ...]:
        """The depots, without duplicates."""
        return tuple(dict.fromkeys(depot_id for depot_id, _day, _orders in self.cells))

    def expand(
        self, depots: Sequence[PublishedDepot], levels: Sequence[float]
    ) -> tuple[tuple[ProposedOverride, ...], int]:
        """Return an override for each cell; all must be open. Raises OverrideError as
        `OverrideGroup.expand`."""
        by_id = {depot.depot_id: (depot,) for depot in depots}
        proposals: list[ProposedOverride] = []
        for depot_id, day, orders in self.cells:
            group = OverrideGroup(
                (depot_id,), day, day, self.reason, self.by, None, orders, None, self.note, self.until
            )
            proposals += group.expand(by_id.get(depot_id, ()), levels)[0]
        return tuple(proposals), 0


def share_of_orders(orders: float, percent: float) -> int:
    """Whole orders after a change by `percent`, halves rounded up, at most `MAX_ORDERS`."""
    return min(math.floor(orders * (1 + percent / 100) + 0.5), MAX_ORDERS)
