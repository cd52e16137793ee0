"""Explanation of a forecast: parts that add up to its median, or to the width of its band, found by
swapping in one kind of knowledge after another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from forecaster.api.caller_terms import row_of
from forecaster.api.candidate_model import Reference
from forecaster.core.arrays import Doubles, Floats
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.errors import SpecError
from forecaster.serving.numpy_model import ReferenceModel

LOW, HIGH = 0.1, 0.9  # quantile levels of the band's ends
# days used to measure the scatter of a depot's counts, and minimum number of them
YEAR, ENOUGH = 364, 28
# share of a width: smaller differences are due to the arithmetic of NumPy compared with JAX or ONNX
ROUNDING = 1e-4
USUAL = 4  # weeks of the same weekday whose mean is the first part
_STEPS = "members.step.embedding"  # the network's embedding of each day ahead, (members, horizon, …)
_OF_HOLIDAYS = ("holiday", "before_holiday", "after_holiday", "day_off", "counterpart")


def parts(
    predict: Callable[[Panel], Forecast], panel: Panel, depot: str, day: np.datetime64
) -> list[tuple[str, float]]:
    """Name and orders of each part; they add up to the median. Raises SpecError for a depot or day
    without forecast."""
    row, step = _place(panel, depot, day)

    def median(of: Panel) -> float:
        return float(predict(of).median[row, step])

    usual = _usual(panel, row, panel.history + step)
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


def band_parts(
    predict: Callable[[Panel], Forecast], reference: Reference, panel: Panel, depot: str, day: np.datetime64
) -> list[tuple[str, float]]:
    """Name and orders of each part; they add up to the width of the 80 % band, from the quantile
    0.1 to 0.9. The parts are the range that a rule of thumb would have needed on this depot's own
    days of a year (`_scatter`), the network's range for a first day ahead, the day's distance, a
    last week that was missed by more than usual, the calibration on held-out days, the bound by the
    largest known count, and the youth of the depot. Raises SpecError as `parts` does."""
    row, step = _place(panel, depot, day)
    levels, rows = tuple(reference.about["levels"]), slice(row, row + 1)
    low, high = levels.index(LOW), levels.index(HIGH)
    if not panel.open[row, panel.history + step]:
        return [("closed", 0.0)]
    window = panel.window(reference.about["lookback"], rows)

    def width(quantiles: Floats) -> float:
        return float(quantiles[0, step, high] - quantiles[0, step, low])

    bounded, forecast = ReferenceModel(*reference), predict(panel)
    calibrated = _without(bounded, "times_most")
    follows = _with(calibrated, calibration=np.ones_like(calibrated.weights["calibration"]))
    settled = _without(follows, "follows")
    steps = settled.weights[_STEPS]
    first_day = _with(settled, **{_STEPS: np.broadcast_to(steps[:, :1], steps.shape)})
    widths = [
        ("own scatter", _scatter(panel, row, float(forecast.median[row, step]))),
        ("network", width(first_day(window))),
        ("days ahead", width(settled(window))),
        ("surprising last week", width(follows(window))),
        ("calibration", width(calibrated(window))),
        ("largest count", width(bounded(window))),
        ("young depot", width(forecast.quantiles[rows])),
    ]
    before = [0.0, *(orders for _, orders in widths)]
    rounding = ROUNDING * widths[-1][1]
    increments = [(name, orders - before[place]) for place, (name, orders) in enumerate(widths)]
    return [(name, orders if abs(orders) > rounding else 0.0) for name, orders in increments]


def _with(model: ReferenceModel, **weights: Doubles) -> ReferenceModel:
    """Copy of the model with other values of these parameters."""
    other = copy.copy(model)
    other.weights = {**model.weights, **weights}
    return other


def _without(model: ReferenceModel, name: str) -> ReferenceModel:
    """Copy of the model as if made before it had this among its `features`."""
    other = copy.copy(model)
    other.lengths = {feature: value for feature, value in model.lengths.items() if feature != name}
    return other


def _scatter(panel: Panel, row: int, median: float) -> float:
    """Width from the quantile 0.1 to 0.9, at a median, of the ratio of actuals to the mean of the
    four same weekdays before, over the known open days of the last year. 0 with fewer than `ENOUGH`
    such days."""
    misses = []
    for day in range(max(panel.history - YEAR, 0), panel.history):
        usual = _usual(panel, row, day)
        if usual and panel.open[row, day] and np.isfinite(panel.demand[row, day]):
            misses.append(np.log1p(panel.demand[row, day]) - np.log1p(usual))
    if len(misses) < ENOUGH:
        return 0.0
    low, high = np.expm1(np.log1p(median) + np.quantile(misses, (LOW, HIGH)))
    return float(high - max(low, 0.0))


def _place(panel: Panel, depot: str, day: np.datetime64) -> tuple[int, int]:
    """Row and day ahead of a forecast. Raises SpecError if there is none."""
    row, target_days = row_of(panel, depot), panel.days[panel.history :]
    if day not in target_days:
        raise SpecError(f"day: found {day}, wanted one from {target_days[0]} to {target_days[-1]}")
    return row, int(np.flatnonzero(target_days == day)[0])


def _usual(panel: Panel, row: int, day: int) -> float:
    """Mean of the last four known open days of the same weekday before a day; 0 if there is none."""
    same = range(day % 7, min(day, panel.history), 7)
    known_days = [past for past in same if np.isfinite(panel.demand[row, past]) and panel.open[row, past]]
    return float(np.mean([panel.demand[row, past] for past in known_days[-USUAL:]] or [0.0]))


def _without_covariates(panel: Panel) -> Floats:
    covariates = panel.covariates.copy()
    covariates[:, panel.history :] = 0
    return covariates


def _without_holidays(panel: Panel) -> Panel:
    """The panel without holidays, or days near one, among the days ahead."""
    calendar = panel.calendar.copy()
    for name in _OF_HOLIDAYS:
        calendar[:, panel.history :, panel.calendar_names.index(name)] = 0
    return replace(panel, calendar=calendar)
