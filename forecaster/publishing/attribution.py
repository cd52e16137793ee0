"""Attribution of a forecast's change: split the difference of two forecasts of one day into parts
that add up exactly.

A sequential swap (one path of those that a Shapley value averages, so that each swap costs one
forecast): one input is swapped at a time, in `ORDER`, and the forecast made again after each. A
part is the difference between two neighbours after both were rounded to whole orders, as pages show
them; so the parts telescope, and their sum is the difference of the two published numbers to the
order.

The order follows the line, from what was known of days ahead to what people say. Data come before
models, so that each of them is judged by the model that the earlier forecast was made with; known
days change before new ones arrive, since there was a night that could have known them so; the model
changes before its calibration, which was fitted to it; and a planner's word stands above all of it.
Where an earlier forecast cannot be made again to the order (another processor's rounding, a model
that is gone), what is left is counted as the model's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles

CALENDAR, RESTATED, ACTUALS, MODEL, CALIBRATION, OVERRIDE = ORDER = (
    "calendar",  # what is known of the days ahead: holidays, events, closures
    "restated",  # other values for days that were over
    "actuals",  # days that are over since
    "model",  # other weights
    "calibration",  # how far they are drawn to the seasonal anchor
    "override",  # planners' numbers, those of both days
)

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Swaps:
    """Medians of the same days after each swap, in orders: arrays of one shape, NaN where there is
    no earlier one."""

    published: Doubles  # the earlier publication, planners' numbers included
    model: Doubles  # what its model had said
    reproduced: Doubles  # the same, made again now
    calendar: Doubles
    restated: Doubles
    actuals: Doubles
    weights: Doubles  # by tonight's weights with the earlier calibration
    tonight: Doubles  # by tonight's model
    now: Doubles  # what is published tonight


def attribute_change(swaps: Swaps) -> dict[str, Whole]:
    """The change split by cause: whole orders of each part, in `ORDER`; 0 where there is no earlier
    forecast."""
    of = {name: _whole(getattr(swaps, name)) for name in Swaps.__annotations__}
    return {
        CALENDAR: of["calendar"] - of["reproduced"],
        RESTATED: of["restated"] - of["calendar"],
        ACTUALS: of["actuals"] - of["restated"],
        MODEL: (of["weights"] - of["actuals"]) + (of["reproduced"] - of["model"]),
        CALIBRATION: of["tonight"] - of["weights"],
        OVERRIDE: (of["now"] - of["tonight"]) + (of["model"] - of["published"]),
    }


def _whole(values: Doubles) -> Whole:
    """Rounded as pages round, a half to the even neighbour."""
    return np.rint(np.nan_to_num(values)).astype(np.int64)
