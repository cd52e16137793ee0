"""Figures of forecasts, drawn with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from forecaster.api.caller_terms import row_of, whole_number
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def depot_figure(forecast: Forecast, panel: Panel, depot: str, days: int) -> Figure:
    """Figure of the counts of the last `days` days, and of the median and 80 % band of the days
    ahead; closed days are gaps.

    Raises SpecError for a depot without forecast or if `days` is not an integer, MissingExtra
    without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error}; plot needs: pip install 'harbor-forecaster[train]'") from error
    row = row_of(panel, depot)
    past = slice(max(panel.history - whole_number("days", days, least=0), 0), panel.history)
    target_dates = np.asarray(forecast.target_dates, "datetime64[D]")
    actuals = np.where(panel.open[row, past], panel.demand[row, past], np.nan)
    quantiles = np.where(forecast.open[row, :, None], forecast.quantiles[row], np.nan)
    low, median, high = (quantiles[:, forecast.levels.index(level)] for level in (0.1, 0.5, 0.9))
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(panel.days[past], actuals, color="0.3", linewidth=1, label="came")
    axes.fill_between(target_dates, low, high, color="tab:blue", alpha=0.25, linewidth=0, label="80 %")
    axes.plot(target_dates, median, color="tab:blue", label="forecast")
    axes.set_title(depot, loc="left")
    axes.set_ylabel("orders a day")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=3, loc="upper left")
    return figure
