"""Worthwhile changes of days with shifts: the crews of a day's shifts stay or change together.

The rules of `changes` for whole days apply here to the sum over shifts: a change saves the expected
cost of the published crews less that of the plan's, and the drivers added by a plan are counted
shift by shift, so that one who moves from late to early counts as one more. Shares are fixed, so
that the sum is the expected cost of the day (`shift_crews`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from forecaster.config import Staffing
from forecaster.core.forecast import Forecast
from forecaster.staffing.changes import CrewChange, PublishedCrews, Staying, VanChange, with_premiums
from forecaster.staffing.need import Need
from forecaster.staffing.shift_values import ShiftRoster
from forecaster.staffing.shifts import shift_crews
from forecaster.staffing.van_sharing import VanSharing
from forecaster.staffing.vans import VanPool


def keep_unless_worthwhile(
    plan: ShiftRoster, crews: PublishedCrews, forecast: Forecast, staffing: Staffing, fleet: VanPool | None
) -> ShiftRoster:
    """Return the plan, except for the days whose shifts stay as published."""
    assert crews.shifts is not None
    day = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    vans = None
    if fleet is not None and plan.vans is not None and plan.desired_vans is not None:
        sharing = VanSharing.of(crews.shifts, plan.needs, staffing, fleet.drivers_per_van)
        before = sharing.wanted_vans.reshape(plan.vans.shape)
        usual = day.level(0.5) * shift_crews.vans_per_driver(forecast, staffing, fleet, plan.shares)
        vans = VanChange(plan.vans, before, plan.desired_vans, usual)
    paired = zip(plan.needs, crews.shifts, plan.crews, strict=True)
    change = CrewChange(
        drivers=plan.drivers,
        differs=(crews.shifts != plan.crews).any(axis=0),
        further=np.maximum(plan.crews - crews.shifts, 0).sum(axis=0),
        saving=np.sum(
            [need.cost(was, staffing) - need.cost(planned, staffing) for need, was, planned in paired], axis=0
        ),
        cost=staffing.change_cost + crews.premium(plan.crews),
        vans=vans,
        shifts=tuple(zip(plan.names, plan.crews, strict=True)),
    )
    staying = Staying.of(change, crews, day, forecast.open, staffing, fleet)
    shifts = np.where(staying.stay, crews.shifts, plan.crews).astype(np.int32)
    bare = shift_crews.with_crews(shifts, plan.desired, staying.vans(change), plan.needs, forecast.open, staffing)
    explained = staying.explained(bare, change, crews, staffing, fleet)
    if crews.schedule is not None:
        free = shift_crews.cheapest_crews(plan.needs, forecast.open, staffing)
        explained = with_premiums(explained, shifts, free, plan.needs, crews.schedule, staffing, plan.names)
    return replace(explained, desired_vans=plan.desired_vans, shares=plan.shares)
