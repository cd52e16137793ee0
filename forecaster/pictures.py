"""Figures of a backtest, drawn for the people who review a run."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.figure import Figure

from forecaster.values import Panel, Scores

BEFORE = 28  # days of history shown before the first fold


def forecasts(scores: Scores, panel: Panel, most: int = 6) -> Figure:
    """Forecasts against actuals on the folds, for the best, the worst and the depots evenly between them by WAPE."""
    folds = scores.folds
    median = np.concatenate([fold.forecast.median for fold in folds], axis=1)
    actual = np.concatenate([fold.actuals for fold in folds], axis=1)
    low, high = (
        np.concatenate([f.forecast.quantiles[:, :, f.forecast.levels.index(level)] for f in folds], axis=1)
        for level in (0.1, 0.9)
    )
    days = np.concatenate([np.asarray(fold.forecast.target_dates, "datetime64[D]") for fold in folds])
    total = np.nansum(actual, axis=1)
    error = np.nansum(np.abs(median - actual), axis=1) / np.where(total > 0, total, np.nan)
    order = [int(i) for i in np.argsort(error) if np.isfinite(error[i])]
    shown = [order[int(i)] for i in np.unique(np.linspace(0, len(order) - 1, most).round())] if order else []
    figure = Figure(figsize=(10, 1 + 2.2 * max(len(shown), 1)), layout="constrained")
    figure.suptitle(f"{scores.model}: forecasts against actuals on days it had not seen")
    first = int((days[0] - panel.days[0]).astype(int))
    for row, depot in enumerate(shown, start=1):
        axes = figure.add_subplot(len(shown), 1, row)
        before = slice(max(first - BEFORE, 0), first)
        axes.plot(panel.days[before], panel.demand[depot, before], color="0.6", lw=1)
        axes.fill_between(days, low[depot], high[depot], color="#2f6fb0", alpha=0.25, lw=0, label="80 % interval")
        axes.plot(days, median[depot], color="#2f6fb0", label="forecast")
        axes.plot(days, actual[depot], "k.", ms=4, label="actual")
        axes.set_title(f"{panel.depot_ids[depot]}   WAPE {100 * error[depot]:.1f} %", loc="left", fontsize=9)
        axes.set_ylabel("orders a day")
        axes.set_ylim(bottom=0)
        if row == 1:
            axes.legend(loc="upper left", ncols=3, fontsize=8)
    return figure


def png(figure: Figure) -> bytes:
    """The picture as a file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    return file.getvalue()
