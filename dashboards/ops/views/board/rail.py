"""Rail of the board: the depot-days with the highest avoidable cost, each with its cause and
remedies.

The avoidable cost of a depot-day is its expected cost less that of the cheapest crew with vans and
people for all. Savings are expected values, less the declared cost of changing the crews concerned.
Without the pipeline file both are taken from the publication: the cost, and that of one driver more
or fewer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from dashboards.ops.formatting import display
from dashboards.ops.formatting.far_weeks import GLANCE
from dashboards.ops.reading.header import Front, cell_href, href
from dashboards.ops.views.board.lenders import VanLenders
from dashboards.ops.views.board.prices import Prices
from dashboards.ops.views.change import in_few_words
from dashboards.ops.views.roster_text import chance, why
from forecaster.config import Staffing
from forecaster.core.language import _, ngettext
from forecaster.ledger.publication import PublishedDay, PublishedDepot, PublishedRoster

MOST = 10  # depot-days on the rail
LEAST = 0.5  # of money; smaller amounts round to 0
AT_ONCE = 256  # depot-days priced in one batch
Depots = Sequence[PublishedDepot]
Accepted = Mapping[tuple[str, date], int]  # depot and day → crew, in drivers


@dataclass(frozen=True)
class RailRemedy:
    """An action, with its saving in words (empty for acceptance), and the crew that it sets."""

    text: str
    saving: str
    href: str
    crew: int | None = None


@dataclass(frozen=True)
class RailDecision:
    """A depot-day to decide about, in words; `cost` is the avoidable cost."""

    depot_id: str
    href: str
    day: str
    iso: str
    drivers: int  # of the published crew
    crew: str
    cost: str
    cause: str
    remedies: tuple[RailRemedy, ...]  # best first; the last is to accept


class _Cell(NamedTuple):
    depot: PublishedDepot
    step: int
    day: PublishedDay
    drivers: int
    roster: PublishedRoster

    @property
    def href(self) -> str:
        return self.href_of(self.depot.depot_id)

    def href_of(self, depot_id: str) -> str:
        """Return the address of this day of a depot."""
        return cell_href(depot_id, self.day.target_date)

    @property
    def one_more(self) -> float:
        """Saving of one more driver."""
        return 0.0 if self.roster.one_more is None else self.roster.cost - self.roster.one_more

    @property
    def replanned(self) -> float:
        """Saving of a newly planned crew."""
        return 0.0 if self.roster.left is None else self.roster.left.saving

    @property
    def published(self) -> float:
        """Lower bound of the avoidable cost, from the publication."""
        return max(self.one_more, self.replanned)


def decisions(
    depots: Depots, front: Front, levels: Sequence[float], staffing: Staffing | None, accepted: Accepted
) -> tuple[RailDecision, ...]:
    """Return the depot-days of the first two weeks with the highest avoidable cost, those of the
    day in front first, at most `MOST`.

    `levels` are those of the quantiles, and `staffing` is None without the pipeline file.
    Overridden days and accepted crews are excluded.
    """
    steps_ahead = [step for step, day in enumerate(front.target_dates[:GLANCE]) if day >= front.today]
    roster = next((day.roster for depot in depots for day in depot.days if day.roster is not None), None)
    costs = None if staffing is None or roster is None else Prices.of_roster(roster, levels, staffing)
    worst: list[tuple[float, _Cell]] = []
    for steps in (
        [step for step in steps_ahead if step == front.meant],
        [step for step in steps_ahead if step != front.meant],
    ):
        if len(worst) < MOST:
            worst += _dearest(depots, steps, accepted, costs)[: MOST - len(worst)]
    borrowers = [(cell.depot, cell.step) for _cost, cell in worst if cell.one_more >= LEAST and not cell.roster.missing]
    lenders = None if costs is None else VanLenders(depots, borrowers, costs)
    currency = staffing.currency if staffing else None
    rows = []
    for cost, cell in worst:
        day, remedies = cell.day, _remedies(cell, costs, lenders, currency)
        name = display.near(day.target_date, front.today) or display.day(day.target_date)
        short = _("{chance} of being short", chance=chance(cell.roster.chance_short))
        cause = display.clauses(why(day), in_few_words(day.change, front.today)) or short
        sentence = _("{sentence}.", sentence=cause[:1].upper() + cause[1:])
        place = cell.depot.depot_id, cell.href, name, day.target_date.isoformat()
        crew = cell.drivers, display.drivers(cell.drivers), display.money(cost, currency)
        rows.append(RailDecision(*place, *crew, sentence, remedies))
    return tuple(rows)


def _dearest(
    depots: Depots, steps: Sequence[int], accepted: Accepted, costs: Prices | None
) -> list[tuple[float, _Cell]]:
    """Return the depot-days of highest avoidable cost, with that cost; prices only those that can
    be among them."""
    bounds = list(_bounds(depots, steps, accepted, by_wanted=costs is not None))
    if costs is None:
        return _in_order((bound, _cell(depots[row], step)) for bound, row, step in heapq.nlargest(MOST, bounds))
    bounds.sort(reverse=True)
    dearest: list[tuple[float, _Cell]] = []
    for first in range(0, len(bounds), AT_ONCE):
        if len(dearest) == MOST and dearest[-1][0] >= bounds[first][0]:
            break
        cells = [_cell(depots[row], step) for _bound, row, step in bounds[first : first + AT_ONCE]]
        least = costs.of([cell.day for cell in cells]).least_cost.tolist()
        priced = [(max(cell.roster.cost - cost, cell.published), cell) for cost, cell in zip(least, cells, strict=True)]
        dearest = _in_order([*dearest, *priced])[:MOST]
    return dearest


def _bounds(
    depots: Depots, steps: Sequence[int], accepted: Accepted, *, by_wanted: bool
) -> Iterator[tuple[float, int, int]]:
    """Yield upper bounds of the avoidable cost, with positions of depot and day: each wanted driver
    saves less than the one before. Without `by_wanted`, the bound counts only the first."""
    for row, depot in enumerate(depots):
        for step in steps:
            day = depot.days[step]
            roster, drivers = day.roster, day.drivers
            if roster is None or drivers is None or not day.open or day.override is not None:
                continue
            gain = 0.0 if roster.one_more is None else roster.cost - roster.one_more
            net_saving = 0.0 if roster.left is None else roster.left.saving - roster.left.change_cost
            if (gain < LEAST and net_saving < LEAST) or accepted.get((depot.depot_id, day.target_date)) == drivers:
                continue
            if by_wanted and roster.wanted is not None and roster.wanted > drivers + 1:
                gain = min(gain * (roster.wanted - drivers), roster.cost)
            yield (gain if roster.left is None else max(gain, roster.left.saving)), row, step


def _cell(depot: PublishedDepot, step: int) -> _Cell:
    day = depot.days[step]
    assert day.drivers is not None
    assert day.roster is not None
    return _Cell(depot, step, day, day.drivers, day.roster)


def _in_order(priced: Iterable[tuple[float, _Cell]]) -> list[tuple[float, _Cell]]:
    return sorted(priced, key=lambda pair: (-pair[0], pair[1].step, pair[1].depot.depot_id))


def _remedies(
    cell: _Cell, costs: Prices | None, lenders: VanLenders | None, currency: str | None
) -> tuple[RailRemedy, ...]:
    """Return the actions, most saving first, then the value of an additional van if no depot can
    lend one, then acceptance."""
    roster, plan = cell.roster, cell.roster.left
    # premiums are included in the plan's cost
    change = plan.change_cost if plan else costs.staffing.change_cost if costs else 0.0
    actions: list[tuple[float, str, str, int | None]] = [(*request, None) for request in _requests(cell, costs)]
    if plan is not None:
        text = _("Change to {n}, as in the new plan", n=display.number(plan.drivers))
        actions.append((cell.replanned - change, text, cell.href, None if roster.shifts else plan.drivers))
    if not roster.missing and _has_van(cell, costs) and (plan is None or plan.drivers != cell.drivers + 1):
        text = _("Raise to {n}", n=display.number(cell.drivers + 1))
        actions.append((cell.one_more - change, text, cell.href, None if roster.shifts else cell.drivers + 1))
    most = cell.one_more - 2 * change - LEAST
    lender = None if lenders is None or roster.missing else lenders.best(cell.depot, cell.step, most)
    if lender is not None:
        depot_id, cost = lender
        text = _("Borrow a van from {depot}", depot=depot_id)
        actions.append((cell.one_more - cost - 2 * change, text, cell.href_of(depot_id), None))
    actions.sort(key=lambda action: -action[0])
    remedies = [
        RailRemedy(text, _("saves {amount}", amount=display.money(saving, currency)), address, crew)
        for saving, text, address, crew in actions
        if saving >= LEAST
    ]
    if roster.shortage is not None and lender is None and not roster.missing and cell.one_more >= LEAST:
        amount = display.money(cell.one_more, currency)
        remedies.append(RailRemedy(_("One van more"), _("would save {amount}", amount=amount), cell.href))
    return (*remedies, RailRemedy(_("Accept"), "", cell.href))


def _requests(cell: _Cell, costs: Prices | None) -> Iterator[tuple[float, str, str]]:
    """Yield the drivers to request for each understaffed shift of the weekly plan: saving, text,
    address."""
    address = href(cell.depot.depot_id) + "#who"
    for name, count in cell.roster.missing:
        if not count or (costs is None and cell.roster.missing_drivers > 1):
            continue
        saving = cell.one_more if costs is None else costs.saving_of_more(cell.day, name, count)
        values = {"n": display.number(count), "shift": name}
        text = ngettext("Ask for {n} more driver for {shift}", "Ask for {n} more drivers for {shift}", count, **values)
        yield saving, text, address


def _has_van(cell: _Cell, costs: Prices | None) -> bool:
    """True if one more driver needs no further van, or there are vans for all."""
    if cell.roster.vans is None or (costs is not None and costs.vans_used(cell.drivers + 1) <= cell.roster.vans):
        return True
    return cell.roster.shortage is None and cell.roster.left is None
