"""Cost of a shortage of vans, so that it is shared: convex in the share of a depot's missing
drivers, above a floor.

A day that needs N drivers and has n misses m = N - n. The k-th missing one costs cost_short (1 +
growth (k - 1) / N), in total cost_short (m + growth m (m - 1) / 2N): the first costs as declared,
later ones more, by the share of the day that is missing already. In shares s = m / N that is N
cost_short (s + growth s² / 2), except for half a driver: equal shares have equal marginal costs,
whatever the size of the depot. Convex penalties of unmet shares are the standard way to a fair
allocation by minimizing a sum (Kelly, Maulloo & Tan 1998, "Rate control for communication
networks", Journal of the Operational Research Society 49; Mo & Walrand 2000, "Fair end-to-end
window-based congestion control", IEEE/ACM Transactions on Networking 8), and Webster's
apportionment minimizes Σ (N - n)² / N (Sainte-Laguë 1910; Balinski & Young 2001, Fair
Representation, appendix A). A linear cost has no such effect: to starve one depot then costs no
more than to take a little from three.

The (n + 1)-th driver of a crew is expected to save

    cost_short (P(N > n) + growth (n + 1) Σ_{k > n} P(N > k) / (k (k + 1))) - cost_idle P(N ≤ n),

since E((N - m)+ / N) = m Σ_{k ≥ m} P(N > k) / (k (k + 1)) for m ≥ 1. That falls with n, so costs
remain convex.

Growth decides only where scarce vans go. The number of drivers that a depot wants remains the
newsvendor's answer, in which `cost_short` is weighed against `cost_idle`: with growth in it, every
depot would pay for idle drivers on every day, to guard against a shortage that a sufficient fleet
never has.
"""

from __future__ import annotations

import numpy as np

from forecaster.config import Staffing
from forecaster.core.arrays import Doubles, Ints
from forecaster.ledger.publication import Shortage
from forecaster.staffing import placing
from forecaster.staffing.need import DIGITS, Need
from forecaster.staffing.placing import Claims
from forecaster.staffing.vans import VanPool


def claims(desired: Ints, need: Need, staffing: Staffing, fleet: VanPool) -> Claims:
    """Claims of each depot for the vans of its crew, (depots,), on a day with this need (depots,).

    Vans of `crew.min` drivers come first, then those of `crew.min_share` of the median's need,
    smallest share first, then all others by their expected savings.
    """
    sharing, limits = fleet.drivers_per_van, staffing.crew
    desired_vans = -(-desired // sharing)
    depot, van = Claims.rows(desired_vans)
    usual, floor = need.level(0.5), floors(need, staffing)
    before = van * sharing
    tier = np.where(before < limits.min, placing.FIRST, np.where(before < floor[depot], placing.FLOOR, placing.FURTHER))
    share = np.where(tier == placing.FLOOR, before / np.maximum(usual[depot], 1e-9), 1.0)
    of_drivers = driver_savings(desired, need, staffing)
    firsts = np.repeat(np.cumsum(desired) - desired, desired_vans) + before
    saving = np.add.reduceat(of_drivers, firsts) if len(firsts) else np.zeros(0)
    return Claims(depot, van, tier, share, saving)


def floors(need: Need, staffing: Staffing) -> Doubles:
    """Drivers of `crew.min_share` of the median's need."""
    drivers: Doubles = np.ceil(np.round(staffing.crew.min_share * need.level(0.5), DIGITS))
    return drivers


def driver_savings(desired: Ints, need: Need, staffing: Staffing) -> Doubles:
    """Expected savings of each driver of each crew (depots,), depot by depot, first driver first."""
    most = np.maximum(desired, np.ceil(need.knots[-1]).astype(np.int32))
    depot, count = Claims.rows(most)
    exceeds = 1 - need.at(depot).suffices(count)
    steps = np.divide(exceeds, count * (count + 1.0), out=np.zeros(len(count)), where=count > 0)
    # Σ over all counts of the depot from this one on
    total = np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    beyond = total[:-1] - total[np.repeat(np.cumsum(most), most)]
    # of the next count; 0 beyond a depot's last
    following = np.append(beyond[1:], 0.0)
    following = np.where(count + 1 < most[depot], following, 0.0)
    share = (count + 1) * following
    saving = staffing.cost_short * (exceeds + staffing.cost_short_growth * share) - staffing.cost_idle * (1 - exceeds)
    rostered: Doubles = saving[count < desired[depot]]
    return rostered


def shortages(
    desired: Ints, drivers: Ints, placed: Ints, fleet: VanPool, desired_vans: Ints | None = None
) -> dict[tuple[int, int], Shortage]:
    """Reasons for missing vans, by the positions of depot and day; arrays (depots, days).

    `desired_vans` are the vans for all drivers, if `drivers_per_van` alone does not determine them.
    """
    desired_vans = -(-desired // fleet.drivers_per_van) if desired_vans is None else desired_vans
    # (cities, days)
    of_city, placed_in_city = placing.by_city(desired_vans, fleet.city), placing.by_city(placed, fleet.city)
    of_all = of_city.sum(axis=0)
    reasons: dict[tuple[int, int], Shortage] = {}
    for row, day in zip(*(axis.tolist() for axis in (drivers < desired).nonzero()), strict=True):
        city = int(fleet.city[row])
        network = bool(fleet.home is None or of_all[day] > fleet.total)
        share = fleet.total / of_all[day] if network else placed_in_city[city, day] / of_city[city, day]
        place = fleet.city_names[city] if fleet.home is not None and fleet.city_names else ""
        reasons[row, day] = Shortage(place, float(share), network)
    return reasons
