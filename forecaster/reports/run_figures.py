"""Plots of a backtest for the review of a run: forecasts, calibration curve, errors by lead time,
model duel.

A plot without any finite value, such as WAPE without demand, is None.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from forecaster.core.forecast import Scores
from forecaster.core.panel import Panel
from forecaster.evaluation.backtest import first_weeks
from forecaster.evaluation.metrics import Scored, by, scored

BEFORE = 28  # days of history shown before the first fold


def forecasts(scores: Scores, panel: Panel, most: int = 6) -> Figure | None:
    """Plot forecasts against actuals on the first week of the folds, for the best depot, the worst,
    and evenly spaced ones between them by WAPE."""
    folds = first_weeks(scores.folds)
    if not folds:
        return None
    median = np.concatenate([fold.forecast.median for fold in folds], axis=1)
    actual = np.concatenate([fold.actuals for fold in folds], axis=1)
    low, high = (
        np.concatenate([f.forecast.quantiles[:, :, f.forecast.levels.index(level)] for f in folds], axis=1)
        for level in (0.1, 0.9)
    )
    days = np.concatenate([np.asarray(fold.forecast.target_dates, "datetime64[D]") for fold in folds])
    total = np.nansum(actual, axis=1)
    error = np.nansum(np.abs(median - actual), axis=1) / np.where(total > 0, total, np.nan)
    order = np.argsort(error)[: np.isfinite(error).sum()]  # NaN is sorted to the end
    if not len(order):
        return None
    depots = order[np.unique(np.linspace(0, len(order) - 1, most).round().astype(int))].tolist()
    figure = Figure(figsize=(10, 1 + 2.2 * len(depots)), layout="constrained")
    figure.suptitle(f"{scores.model}: forecasts against actuals on days it had not seen")
    first = int((days[0] - panel.days[0]).astype(int))
    before = slice(max(first - BEFORE, 0), first)
    for row, depot in enumerate(depots, start=1):
        axes = figure.add_subplot(len(depots), 1, row)
        axes.plot(panel.days[before], panel.demand[depot, before], color="0.6", lw=1)
        axes.fill_between(days, low[depot], high[depot], color="#2f6fb0", alpha=0.25, lw=0, label="80 % interval")
        axes.plot(days, median[depot], color="#2f6fb0", label="forecast")
        axes.plot(days, actual[depot], "k.", ms=4, label="actual")
        title = f"{panel.depot_ids[depot]}   WAPE {100 * error[depot]:.1f} %"
        axes.set_title(title, loc="left", fontsize=9, parse_math=False)  # an id may contain dollar signs
        axes.set_ylabel("orders a day")
        axes.set_ylim(bottom=0)
        if row == 1:
            axes.legend(loc="upper left", ncols=3, fontsize=8)
    return figure


def calibration(scores: Mapping[str, Scores]) -> Figure:
    """Plot the calibration curve (reliability diagram) of the quantiles: the share of actuals at or
    below each level; calibrated levels lie on the diagonal (Gneiting, Balabdaoui & Raftery 2007)."""
    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="0.7", lw=1)
    for name, model_scores in scores.items():
        days = scored(model_scores.folds, model_scores.scale)
        if len(days.actual):
            below = (days.actual[:, None] <= days.quantiles).mean(axis=0)
            axes.plot(days.levels, below, marker="o", ms=4, label=name)
    axes.set_xlabel("quantile level")
    axes.set_ylabel("share of actuals at or below it")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_title("Do the quantiles hold what they promise?", loc="left", fontsize=10)
    if len(axes.lines) > 1:
        axes.legend(fontsize=8)
    return figure


def errors(scores: Mapping[str, Scores]) -> Figure | None:
    """Plot WAPE by days ahead and by weekday, for all models side by side."""
    if not any(np.isfinite(model_scores.metrics.get("wape", np.nan)) for model_scores in scores.values()):
        return None
    figure = Figure(figsize=(9, 4), layout="constrained")
    parts: dict[str, Callable[[Scored], NDArray[Any]]] = {
        "days ahead": lambda days: days.ahead,
        "weekday": lambda days: (days.day.astype(np.int64) + 3) % 7,  # 0 is a Monday
    }
    for place, (part, labels) in enumerate(parts.items(), 1):
        axes = figure.add_subplot(1, 2, place)
        for number, (name, model_scores) in enumerate(scores.items()):
            days = scored(model_scores.folds, model_scores.scale)
            metrics_of = by(days, labels(days))
            at = np.array([int(label) for label in metrics_of])
            share = [100 * metrics["wape"] for metrics in metrics_of.values()]
            axes.bar(at + 0.8 * (number + 0.5) / len(scores) - 0.4, share, 0.8 / len(scores), label=name)
        axes.set_title(f"WAPE by {part}", loc="left", fontsize=10)
        axes.set_ylabel("WAPE, %")
        if part == "weekday":
            axes.set_xticks(range(7), ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"])
        if place == 1:
            axes.legend(fontsize=8)
    return figure


def duel(candidate: Scores, rival: Scores) -> Figure | None:
    """Plot each depot's WAPE with one model against the other; below the line the candidate is
    better."""
    ours, rivals = (
        by(days, days.depot) for days in (scored(scores.folds, scores.scale) for scores in (candidate, rival))
    )
    common = sorted(ours.keys() & rivals.keys(), key=int)
    both = [depot for depot in common if np.isfinite(ours[depot]["wape"] + rivals[depot]["wape"])]
    if not both:
        return None
    mine, theirs = ([100 * metrics[depot]["wape"] for depot in both] for metrics in (ours, rivals))
    # MAE / WAPE = mean demand
    size = [max(ours[depot]["mae"] / max(ours[depot]["wape"], 1e-9), 0.0) for depot in both]
    largest = max(size) or 1.0
    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.scatter(theirs, mine, s=[10 + 90 * demand / largest for demand in size], alpha=0.6, color="#2f6fb0")
    most = 1.05 * max([*mine, *theirs, 1.0])
    axes.plot([0, most], [0, most], color="0.7", lw=1)
    axes.set_xlim(0, most)
    axes.set_ylim(0, most)
    axes.set_xlabel(f"WAPE of {rival.model}, %")
    axes.set_ylabel(f"WAPE of {candidate.model}, %")
    axes.set_title("Each depot; the larger the dot, the more demand", loc="left", fontsize=10)
    return figure


def png(figure: Figure) -> bytes:
    """Return the picture as a PNG file."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        # letters that the font lacks become boxes; that is acceptable
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(file, format="png", dpi=120)
    return file.getvalue()
