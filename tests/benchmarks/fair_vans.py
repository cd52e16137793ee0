"""Measure how fairly scarce vans are shared and what that costs, and how far the greedy placing is from the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from forecaster.config import Crew, Staffing
from forecaster.core.arrays import Doubles, Ints
from forecaster.core.forecast import Forecast
from forecaster.staffing import newsvendor, shortage
from forecaster.staffing.lending import LEAST_NEED, DepotVans
from forecaster.staffing.need import Need
from forecaster.staffing.placing import VanDay
from forecaster.staffing.vans import VanPool
from tests.benchmarks.report import Figure, below
from tests.staffing.exact import best_scores

SEVERAL = 1.5  # drivers that a depot's median needs at least, where shares are told: of one driver there are none
LEVELS = tuple(tenth / 10 for tenth in range(1, 10))
NETWORKS = 200


@dataclass(frozen=True)
class Fairness:
    """How the crews of scarce days lie to what the medians need, over depots that need several drivers."""

    days: int
    cost: float  # expected, linear, of all depots
    worst: float  # share
    spread: float  # standard deviation of the shares of a day, the mean over days
    under: int  # depots and days with less than 0.7
    over: int  # with more than 1.3


def linear_crews(forecast: Forecast, staffing: Staffing, fleet: VanPool) -> Ints:
    """The crews of least expected linear cost: without floors, growth or a rule who may lend."""
    plain = staffing.model_copy(
        update={"cost_short_growth": 0, "crew": staffing.crew.model_copy(update={"min_share": 0})}
    )
    need = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    desired = newsvendor.cheapest_crew(need, forecast.open, staffing)
    wanted, cells = -(-desired // fleet.drivers_per_van), np.arange(desired.size).reshape(desired.shape)
    home = np.zeros(len(desired), np.int32) if fleet.home is None else fleet.home

    def place(day: int) -> Ints:
        claims = shortage.claims(desired[:, day], need.at(cells[:, day]), plain, fleet).in_order
        depots = DepotVans(home, wanted[:, day], wanted[:, day] + LEAST_NEED)
        return VanDay(claims, fleet.total, fleet.city, depots, lenders=False).place()

    placed = np.stack([place(day) for day in range(desired.shape[1])], axis=1)
    return np.minimum(desired, placed * fleet.drivers_per_van).astype(np.int32)


def before_and_after(forecasts: Iterable[Forecast], staffing: Staffing, fleet: VanPool) -> tuple[Fairness, Fairness]:
    """Of the linear optimum, and of the rosters that go out, on the days on which vans are scarce."""
    before, after = list[tuple[Need, Doubles, Ints]](), list[tuple[Need, Doubles, Ints]]()
    for forecast in forecasts:
        need = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
        plan = newsvendor.roster(forecast, staffing, fleet)
        linear = linear_crews(forecast, staffing, fleet)
        for day in np.flatnonzero((plan.drivers < plan.desired).any(axis=0)):
            of_day = Need(need.knots[:, :, day], need.levels)
            usual = np.where(forecast.open[:, day], of_day.level(0.5), 0)
            before.append((of_day, usual, linear[:, day]))
            after.append((of_day, usual, plan.drivers[:, day]))
    return _fairness(before, staffing), _fairness(after, staffing)


def fairness_figures(name: str, before: Fairness, after: Fairness) -> list[Figure]:
    told = [
        Figure(f"{name}: {what}, {who}", value, unit, n=fair.days)
        for who, fair in (("linear optimum", before), ("as rostered", after))
        for what, value, unit in (
            ("worst depot's share", fair.worst, "ratio"),
            ("spread of shares", fair.spread, "ratio"),
            ("depots and days under 0.7", fair.under, "count"),
            ("over 1.3", fair.over, "count"),
            ("expected cost", fair.cost, "money"),
        )
    ]
    return [*told, below(f"{name}: expected cost over the linear optimum's", after.cost / before.cost, "ratio", 1.03)]


def exactness(networks: int = NETWORKS) -> list[Figure]:
    """The savings of drawn networks beside those of the best placing that a solver finds (HiGHS)."""
    gaps, missed = [], 0
    for seed in range(networks):
        claims, wanted, need, fleet = drawn(seed)
        placed = fleet.allocate(wanted[:, None], need[:, None], lambda _, claimed=claims: claimed)[:, 0]
        best = best_scores(claims, wanted, need, fleet)
        assert best is not None, f"network {seed}: no proof in time"
        worth = claims.worth(placed)
        if not np.allclose(worth[:-1], best[:-1], rtol=1e-5, atol=1e-5):
            missed += 1
        else:
            gaps.append(max(best[-1] - worth[-1], 0) / max(best[-1], 1))
    return [
        Figure("networks with fewer vans at floors than the solver's", missed, "count", n=networks),
        Figure("networks with less saved than the solver's", int(np.sum(np.array(gaps) > 1e-6)), "count", n=networks),
        Figure("saved less than the solver, at most", float(max(gaps)), "ratio", n=networks),
        Figure("saved less than the solver, on average", float(np.mean(gaps)), "ratio", n=networks),
    ]


def drawn(seed: int) -> tuple[shortage.Claims, Ints, Doubles, VanPool]:
    """A day of 4 to 24 depots in up to four cities, with 0.6 to 1.1 of the vans that they want."""
    random = np.random.default_rng(seed)
    depots, cities = int(random.integers(4, 25)), int(random.integers(1, 5))
    size = random.gamma(2, random.choice([60, 150, 400]), (depots, 1, 1))
    orders = np.sort(random.gamma(8, 1 / 8, (depots, 1, 9)) * size, axis=-1)
    open_ = random.random((depots, 1)) > 0.05
    growth = float(random.choice([0, 1, 2, 4]))
    crew = Crew(min=int(random.integers(0, 2)), min_share=float(random.choice([0, 0.5, 0.7])))
    staffing = Staffing(orders_per_driver=90, cost_short=38, cost_idle=22, cost_short_growth=growth, crew=crew)
    need = Need.of(orders, LEVELS, 90)
    desired = newsvendor.cheapest_crew(need, open_, staffing)[:, 0]
    city = random.integers(0, cities, depots).astype(np.intp)
    total = max(int(desired.sum() * random.uniform(0.6, 1.1)), 1)
    at_home = int(total * (0.7, 1, 1.1)[random.integers(0, 3)])
    home = random.multinomial(at_home, random.dirichlet(np.full(depots, 3))).astype(np.int32)
    fleet = VanPool(total, city, home, int(random.integers(1, 3)))
    claims = shortage.claims(desired, need.at(np.arange(depots)), staffing, fleet)
    needed = np.maximum(need.level(0.5)[:, 0] / fleet.drivers_per_van, LEAST_NEED)
    return claims, -(-desired // fleet.drivers_per_van), needed, fleet


def _fairness(days: Sequence[tuple[Need, Doubles, Ints]], staffing: Staffing) -> Fairness:
    shares = [crew[usual >= SEVERAL] / usual[usual >= SEVERAL] for _, usual, crew in days]
    everywhere = np.concatenate(shares)
    return Fairness(
        len(days),
        float(sum(np.where(usual > 0, need.cost(crew, staffing), 0).sum() for need, usual, crew in days)),
        float(everywhere.min()),
        float(np.mean([share.std() for share in shares])),
        int((everywhere < 0.7).sum()),
        int((everywhere > 1.3).sum()),
    )
