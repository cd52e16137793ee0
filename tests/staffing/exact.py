"""Optimal allocation of a day's vans by mixed-integer programming (HiGHS), a reference for
`VanPool.allocate`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from forecaster.core.arrays import Doubles, Ints
from forecaster.staffing.placing import Claims
from forecaster.staffing.vans import VanPool

Row = tuple[npt.NDArray[np.float64], float, float]  # coefficients, lower bound, upper bound


def best_scores(claims: Claims, wanted: Ints, need: Doubles, pool: VanPool, seconds: float = 20) -> Doubles | None:
    """Maximize the criteria of `Claims.weights` lexicographically; None if the solver does not
    prove an optimum in time.

    One binary variable per claimed van, two per depot (lends, borrows), and per city the number of
    its vans without a home, and the share that is a lower bound for lenders and an upper bound for
    borrowers.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # its import takes seconds, in each worker

    rows, depots, cities = len(claims.depot), len(wanted), int(pool.city.max()) + 1
    home = np.zeros(depots, int) if pool.home is None else pool.home
    reserve = max(pool.total - int(home.sum()), 0)
    size = rows + 2 * depots + 2 * cities
    integer = np.ones(size)
    integer[-cities:] = 0
    most = np.concatenate([np.ones(rows + 2 * depots), np.full(cities, reserve), np.full(cities, np.inf)])
    limits = list(_limits(claims, wanted, need, pool, home, reserve, size))
    scores: list[float] = []
    for weights in claims.weights.T:
        goal = np.append(weights, np.zeros(size - rows))
        matrix, least, upper = (np.array(column) for column in zip(*limits, strict=True))
        solution = milp(
            -goal,
            integrality=integer,
            bounds=Bounds(0, most),
            constraints=[LinearConstraint(matrix, least, upper)],
            options={"mip_rel_gap": 0, "time_limit": seconds},
        )
        if solution.status != 0:
            return None
        scores.append(-float(solution.fun))
        limits.append((goal, scores[-1] - 1e-6 * max(abs(scores[-1]), 1), np.inf))
    return np.array(scores)


def _limits(
    claims: Claims, wanted: Ints, need: Doubles, pool: VanPool, home: npt.NDArray[np.int_], reserve: int, size: int
) -> Iterator[Row]:
    rows, depots, cities = len(claims.depot), len(wanted), int(pool.city.max()) + 1

    def row(*parts: tuple[npt.ArrayLike, float]) -> npt.NDArray[np.float64]:
        coefficients = np.zeros(size)
        for where, what in parts:
            coefficients[where] = what
        return coefficients

    for city in range(cities):
        members = np.flatnonzero(pool.city == city)
        of_city = np.flatnonzero(np.isin(claims.depot, members))
        yield row((of_city, 1), (rows + 2 * depots + city, -1)), -np.inf, float(home[members].sum())
    yield row((np.arange(rows + 2 * depots, rows + 2 * depots + cities), 1)), -np.inf, reserve
    yield row((np.arange(rows), 1)), -np.inf, pool.total
    for depot in range(depots):
        own = np.flatnonzero(claims.depot == depot)
        for earlier, later in itertools.pairwise(own):
            yield row((earlier, 1), (later, -1)), 0, np.inf
        if pool.home is None or wanted[depot] == 0:
            continue
        lends, borrows = rows + depot, rows + depots + depot
        between, enough = size - cities + pool.city[depot], 1 + wanted[depot] / need[depot]
        yield row((own, 1), (lends, home[depot])), min(home[depot], wanted[depot]), np.inf
        yield row((own, 1), (borrows, -wanted[depot])), -np.inf, home[depot]
        # no share of the city exceeds `most`, so this big-M constraint is not binding
        most = max(wanted[other] / need[other] for other in np.flatnonzero(pool.city == pool.city[depot])) + 1
        yield row((own, 1 / need[depot]), (between, -1), (lends, -most)), -most, np.inf
        yield row((own, 1 / need[depot]), (between, -1), (borrows, enough)), -np.inf, enough + 1 / need[depot]
