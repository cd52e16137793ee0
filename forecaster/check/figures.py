"""Plots of data quality: the network's demand, the state of every depot-day, and one plot per kind
of finding."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from forecaster.check.profile import CLOSED, MISSING, STATES, ZERO, runs, states
from forecaster.core.arrays import Doubles, Floats
from forecaster.core.panel import Panel
from forecaster.reports.finding_examples import FindingExample
from forecaster.reports.svg import ACTUAL_LINE, BAND, HIGHLIGHT, INK, LOOK, SHUT, SOFT, one_axes, over_days

STATE_COLOURS = {"observed": "#6aa5c9", "zero": "#e0a11b", "closed": "#80808055", "missing": "#d6453d"}
CONTEXT = 90  # days around a finding
AFTER = 25  # of them after its last day
COLUMNS = 700  # maximum columns of the heat map of states
BARS = 60  # approximate number of bars in the histogram of delays
SAME_WEEKDAYS, ENOUGH = 8, 3  # weeks in the usual range, and how many of them must be known
_HIGH = 3.0  # factor of the highest usual count; higher values are drawn at the upper edge


def network(panel: Panel) -> Figure:
    """Line plot of the daily total of all depots, with its moving average over seven days."""
    days = panel.days[: panel.history]
    total: Doubles = np.nansum(panel.served, axis=0, dtype=np.float64)
    with one_axes(2.6) as (figure, axes):
        axes.plot(days, total, color=BAND, lw=1)
        if len(total) >= 7:
            axes.plot(days[6:], np.convolve(total, np.full(7, 1 / 7), "valid"), color=ACTUAL_LINE, lw=1.6)
        over_days(axes, "counted a day")
    return figure


def state_heat_map(panel: Panel, depots: Sequence[int], labels: Sequence[str]) -> tuple[Figure, int]:
    """Heat map of the states of depots (rows) on days (columns), and the number of days per column.

    A column of several days shows the most critical state: missing, then zero, then the state of
    most days.
    """
    depot_states = states(panel)[list(depots)]
    size = -(-depot_states.shape[1] // COLUMNS)
    binned = _bin_states(depot_states, size)
    colours = np.array([mpl.colors.to_rgba(STATE_COLOURS[state]) for state in STATES])
    ends = mpl.dates.date2num([panel.days[0], panel.days[0] + size * binned.shape[1]])
    with one_axes(0.8 + 0.145 * max(len(depots), 3)) as (figure, axes):
        axes.imshow(
            colours[binned], aspect="auto", interpolation="none", extent=(ends[0], ends[1], len(depots) - 0.5, -0.5)
        )
        axes.set_yticks(range(len(depots)), labels, fontsize=7)
        axes.tick_params(axis="y", length=0)
        over_days(axes, "")
        axes.grid(visible=False)
    return figure, size


def finding_context(panel: Panel, example: FindingExample, rule: str) -> Figure:
    """Days of the depot around those of a finding: counts, closed days, the usual range, and the
    finding."""
    depot = panel.depot_ids.index(example.depot_id)
    window = _window(panel, max(example.days))
    days, counts = panel.days[window], panel.served[depot, window]
    low, high = _usual_range(panel.served[depot], panel.open[depot, : panel.history])
    with one_axes(2.3) as (figure, axes):
        for start, length in _runs(~panel.open[depot, window]):
            _shade(axes, days[start], length, SHUT, 1.0)
        for start, length in _runs(_days_to_shade(counts, days, example, rule)):
            _shade(axes, days[start], length, HIGHLIGHT, 0.22)
        axes.fill_between(days, low[window], high[window], color=BAND, alpha=0.6, lw=0)
        axes.plot(days, counts, color=ACTUAL_LINE, lw=1, marker="o", ms=2)
        usual = np.nanmax(np.append(np.concatenate([counts, high[window]]), 1.0))
        for day, value in example.days.items():
            _mark(axes, days, counts, day, value, _HIGH * usual)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        over_days(axes, "counted a day")
        axes.set_xlim(days[0] - np.timedelta64(1, "D"), days[-1] + np.timedelta64(1, "D"))
    return figure


def reporting_delay(ages: NDArray[np.int64], limit: int) -> Figure:
    """Histogram of reporting delay: numbers of counts by days from their day to their recording;
    those after more than `limit` days are highlighted."""
    highest = max(int(ages.max(initial=0)), limit + 1)
    width = -(-highest // BARS)
    edges = (
        np.arange((limit + 1) % width - width, highest + width + 1, width) - 0.5
    )  # one edge lies right after the limit
    counts, _ = np.histogram(np.clip(ages, 0, None), edges)
    with one_axes(2.3) as (figure, axes):
        colours = [HIGHLIGHT if edge > limit else ACTUAL_LINE for edge in edges[:-1]]
        axes.bar(edges[:-1], counts, width, align="edge", color=colours)
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")
        axes.set_ylim(bottom=0)
        axes.axvline(limit + 0.5, color=SOFT, lw=1, ls="--")
        axes.set_xlim(-0.5, edges[-1])
        axes.set_xlabel("days from the day to its recording")
        axes.set_ylabel("counts (log scale)")
    return figure


def bars(names: Sequence[str], numbers: Sequence[int]) -> Figure:
    """Bar chart: a horizontal bar with its number for each name, in the order given."""
    with one_axes(0.4 + 0.26 * len(names)) as (figure, axes):
        axes.barh(range(len(names)), numbers, color=HIGHLIGHT, height=0.62)
        for at, number in enumerate(numbers):
            axes.text(number, at, f" {number:,}", va="center", color=INK)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlim(0, max(numbers) * 1.12)
        axes.xaxis.set_visible(False)
        axes.spines[:].set_visible(False)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
    return figure


def depots_reporting(panel: Panel) -> Figure:
    """Bar chart of reporting completeness: number of depots with a count per day, up to the cutoff."""
    window = slice(max(panel.history - CONTEXT, 0), panel.history)
    reporting_depots = (~np.isnan(panel.served[:, window])).sum(axis=0)
    with one_axes(2.0) as (figure, axes):
        axes.bar(panel.days[window], reporting_depots, width=1.0, color=ACTUAL_LINE)
        over_days(axes, "depots with a count")
    return figure


def future_covariates(panel: Panel) -> Figure:
    """Step plot of each known-future covariate, as the mean over the depots, on the last days and
    those ahead."""
    window = slice(max(panel.history - CONTEXT + AFTER, 0), len(panel.days))
    names = panel.encoding.covariates
    figure = Figure(figsize=(9, 0.6 + 0.9 * max(len(names), 1)), layout="constrained")
    with mpl.rc_context(LOOK):
        for number, name in enumerate(names):
            axes = figure.add_subplot(len(names), 1, number + 1)
            axes.step(
                panel.days[window],
                panel.covariates[:, window, number].mean(axis=0),
                where="mid",
                color=ACTUAL_LINE,
                lw=1,
            )
            axes.axvspan(panel.days[panel.history - 1], panel.days[-1], color=BAND, alpha=0.4, lw=0)
            axes.set_title(name, loc="left", fontsize=9)
            over_days(axes, "")
    return figure


def _bin_states(depot_states: NDArray[np.int8], size: int) -> NDArray[np.int8]:
    """States of (depots, days), reduced to columns of `size` days."""
    padded = np.pad(depot_states, ((0, 0), (0, -depot_states.shape[1] % size)), mode="edge")
    parts = padded.reshape(len(depot_states), -1, size)
    usual = np.where((parts == CLOSED).mean(axis=2) > 0.5, CLOSED, 0)
    return np.where((parts == MISSING).any(axis=2), MISSING, np.where((parts == ZERO).any(axis=2), ZERO, usual)).astype(
        np.int8
    )


def _window(panel: Panel, last: date) -> slice:
    end = int((np.datetime64(last, "D") - panel.days[0]).astype(int)) + 1 + AFTER
    end = min(end, panel.history)
    return slice(max(end - CONTEXT, 0), end)


def _usual_range(counts: Floats, opened: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Middle 80 % of a depot's last eight same weekdays before each day; NaN if fewer than three
    are known."""
    days = len(counts)
    past = np.full((SAME_WEEKDAYS, days), np.nan, np.float32)
    for week in range(1, SAME_WEEKDAYS + 1):
        past[week - 1, 7 * week :] = np.where(opened, counts, np.nan)[: max(days - 7 * week, 0)]
    enough = (~np.isnan(past)).sum(axis=0) >= ENOUGH
    bounds = np.full((2, days), np.nan, np.float32)
    if enough.any():
        bounds[:, enough] = np.nanquantile(past[:, enough], [0.1, 0.9], axis=0)
    return bounds[0], bounds[1]


def _days_to_shade(
    counts: Floats, days: NDArray[np.datetime64], example: FindingExample, rule: str
) -> NDArray[np.bool_]:
    """Days to shade: those of the finding, the whole of a flat line, and a silence up to its end."""
    shaded = np.isin(days, np.array(list(example.days), "datetime64[D]"))
    if rule == "flat_line" and shaded.any():
        at = int(np.flatnonzero(shaded)[-1])
        same = np.isclose(counts, counts[at])
        before, after = np.flatnonzero(~same[: at + 1]), np.flatnonzero(~same[at:])
        shaded[(before[-1] + 1 if before.size else 0) : (at + after[0] if after.size else len(days))] = True
    if rule in ("silent_depot", "early_end"):
        counted_days = np.flatnonzero(~np.isnan(counts))
        shaded[(counted_days[-1] + 1 if counted_days.size else 0) :] = True
    return shaded


def _runs(marked: NDArray[np.bool_]) -> list[tuple[int, int]]:
    return [(int(start), int(length)) for _, start, length in runs(marked[None])]


def _shade(axes: Axes, first: np.datetime64, days: int, colour: str, alpha: float) -> None:
    half = np.timedelta64(12, "h")
    start = first.astype("datetime64[h]") - half
    axes.axvspan(start, start + np.timedelta64(24 * days, "h"), color=colour, alpha=alpha, lw=0, zorder=0)


def _mark(
    axes: Axes, days: NDArray[np.datetime64], counts: Floats, day: date, value: float | None, highest: float
) -> None:
    """Mark the rejected value of a day, or else its known count; values far away at the edge, with
    their number."""
    at = np.flatnonzero(days == np.datetime64(day, "D"))
    if not at.size:
        return
    height = float(counts[at[0]]) if value is None else value
    if np.isnan(height):
        return
    y = min(max(height, -highest / 4), highest)
    axes.plot([days[at[0]]], [y], marker="o", ms=6, mfc="none", mec=HIGHLIGHT, mew=1.8, clip_on=False)
    if value is not None:
        axes.annotate(
            f"{value:,.6g}", (days[at[0]], y), (6, -3), textcoords="offset points", color=HIGHLIGHT, fontsize=8
        )
