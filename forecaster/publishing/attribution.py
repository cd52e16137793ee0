"""Attribution of a forecast's change: split the difference of two forecasts of one day into parts
that add up exactly.

A sequential swap (one of the paths that a Shapley value averages, so that each swap costs one
forecast): one input is swapped at a time, in `ORDER`, and the forecast is recomputed after each. A
part is the difference between two consecutive results, both rounded to whole orders as on the page;
so the parts telescope, and their sum is exactly the difference of the two published numbers.

The order follows the pipeline, from what is known in advance to human input. Data come before
models, so that their effect is that under the model of the earlier forecast; known days change
before new ones are added, since an earlier run could have known their corrections; the model
changes before its calibration, which was fitted to it; planners' numbers come last, on top of
everything. If an earlier forecast cannot be reproduced exactly (different rounding of another
processor, a deleted model), the remainder counts as the model's part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles

CALENDAR, RESTATED, ACTUALS, MODEL, CALIBRATION, OVERRIDE = ORDER = (
    "calendar",  # known facts about the forecast days: holidays, events, closures
    "restated",  # corrected values of past days
    "actuals",  # days completed since
    "model",  # new weights
    "calibration",  # strength of the pull to the seasonal anchor
    "override",  # planners' numbers, those of both days
)

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Swaps:
    """Medians of the same days after each swap, in orders: arrays of one shape, NaN if there is no
    earlier one."""

    published: Doubles  # the earlier publication, including planners' numbers
    model: Doubles  # forecast of its model
    reproduced: Doubles  # the same, recomputed now
    calendar: Doubles
    restated: Doubles
    actuals: Doubles
    weights: Doubles  # by the new weights with the earlier calibration
    tonight: Doubles  # by the new model
    now: Doubles  # as published now


def attribute_change(swaps: Swaps) -> dict[str, Whole]:
    """Split the change by cause: whole orders of each part, in `ORDER`; 0 if there is no earlier
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
    """Round as the page does, half to even."""
    return np.rint(np.nan_to_num(values)).astype(np.int64)
