"""What a forecast is made of: parts that add up to its median, by swapping in one kind of knowledge after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from forecaster.core.arrays import Floats
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.errors import SpecError

USUAL = 4  # weeks of the same weekday whose mean is the first part
_OF_HOLIDAYS = ("holiday", "before_holiday", "after_holiday", "day_off", "counterpart")


def parts(
    predict: Callable[[Panel], Forecast], panel: Panel, depot: str, day: np.datetime64
) -> list[tuple[str, float]]:
    """Name and orders of each part, whose sum is the median. Raises SpecError for a depot or day without forecast."""
    ahead = panel.days[panel.history :]
    if depot not in panel.depot_ids:
        raise SpecError(f"depot: found {depot!r}, wanted one of {', '.join(panel.depot_ids[:5])} …")
    if day not in ahead:
        raise SpecError(f"day: found {day}, wanted one from {ahead[0]} to {ahead[-1]}")
    row, step = panel.depot_ids.index(depot), int(np.flatnonzero(ahead == day)[0])

    def median(of: Panel) -> float:
        return float(predict(of).median[row, step])

    usual = _usual(panel, row, step)
    if not panel.open[row, panel.history + step]:
        return [("usual on this weekday", usual), ("closed", -usual)]
    plain = _without_holidays(panel)
    stages = [("level and season", replace(plain, covariates=_without_covariates(plain)))]
    for place, name in enumerate(panel.encoding.covariates):
        covariates = stages[-1][1].covariates.copy()
        covariates[:, panel.history :, place] = panel.covariates[:, panel.history :, place]
        stages.append((name, replace(plain, covariates=covariates)))
    stages.append(("holidays", panel))
    rows, before = [("usual on this weekday", usual)], usual
    for name, of in stages:
        rows.append((name, median(of) - before))
        before += rows[-1][1]
    return rows


def _usual(panel: Panel, row: int, step: int) -> float:
    """The mean of the last four known days of the weekday on which the depot was open, 0 where none is."""
    same = range((panel.history + step) % 7, panel.history, 7)
    known = [day for day in same if np.isfinite(panel.demand[row, day]) and panel.open[row, day]]
    return float(np.mean([panel.demand[row, day] for day in known[-USUAL:]] or [0.0]))


def _without_covariates(panel: Panel) -> Floats:
    covariates = panel.covariates.copy()
    covariates[:, panel.history :] = 0
    return covariates


def _without_holidays(panel: Panel) -> Panel:
    """The days ahead as if none of them were a holiday, nor near one."""
    calendar = panel.calendar.copy()
    for name in _OF_HOLIDAYS:
        calendar[:, panel.history :, panel.calendar_names.index(name)] = 0
    return replace(panel, calendar=calendar)
