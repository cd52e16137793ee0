"""Only worthwhile changes of days with shifts: a day's crew is that of its shifts, and stays or
changes as one.

What `changes` asks of whole days is asked here of the sum over shifts: a change saves what the
published crew of each shift is expected to cost less what the plan's is, and the drivers by which a
plan is beyond what is published are counted shift by shift, so that one who moves from late to
early counts as one more. Shares are fixed, so that the sum is what the day is expected to cost
(`shift_crews`).
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
    """The plan, but for the days whose shifts stay as they are published."""
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
