"""Crews that a planner sets by hand: they stay whatever a change would save, within the vans that there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import numpy as np

from forecaster.config import Staffing
from forecaster.core.forecast import Forecast
from forecaster.staffing.changes import PublishedCrews
from forecaster.staffing.newsvendor import NOT_PUBLISHED, PublishedSchedule

PROHIBITIVE = 1e9  # premium of a change of a crew set by hand, in the unit of the costs
WHOLE_DAY = ""  # the name of a day's crew where no shifts are declared


def crew_names(staffing: Staffing) -> list[str]:
    """Names of a day's crews: those of the shifts, or the whole day's."""
    return [shift.name for shift in staffing.shifts] or [WHOLE_DAY]


def with_set_crews(
    published: PublishedCrews | None,
    set_crews: Mapping[tuple[str, date], Mapping[str, int]],
    forecast: Forecast,
    staffing: Staffing,
) -> PublishedCrews | None:
    """Published crews of a forecast's days, in which those set by hand come first; crews of other shifts than those
    declared are left out."""
    names, shape = crew_names(staffing), forecast.open.shape
    crews = np.full((len(names), *shape), NOT_PUBLISHED, np.int32)
    for row, depot in enumerate(forecast.depot_ids):
        for step, day in enumerate(forecast.target_dates):
            crew = set_crews.get((depot, day))
            if crew is not None and sorted(crew) == sorted(names):
                crews[:, row, step] = [crew[name] for name in names]
    by_hand = np.asarray((crews >= 0).all(axis=0), bool)
    if not by_hand.any():
        return published
    before = published or PublishedCrews(
        np.full(shape, NOT_PUBLISHED, np.int32),
        np.zeros(shape, bool),
        shifts=np.zeros_like(crews) if staffing.shifts else None,
    )
    nothing = np.zeros(crews.shape)
    schedule = before.schedule or PublishedSchedule(np.full(crews.shape, NOT_PUBLISHED, np.int32), nothing, nothing)
    return replace(
        before,
        drivers=np.where(by_hand, crews.sum(axis=0), before.drivers).astype(np.int32),
        had_change=before.had_change & ~by_hand,
        shifts=None if before.shifts is None else np.where(by_hand, crews, before.shifts),
        schedule=PublishedSchedule(
            np.where(by_hand, crews, schedule.crews).astype(np.int32),
            np.where(by_hand, PROHIBITIVE, schedule.added),
            np.where(by_hand, PROHIBITIVE, schedule.removed),
            by_hand,
        ),
    )
