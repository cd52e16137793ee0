"""Special days in plain NumPy: the second implementation of `model.network.special_days`, with the
same functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forecaster.core.arrays import Bools, Doubles
from forecaster.serving.day_arrays import DaySeries, Lengths, near, shift, trailing


class SpecialDayArrays(NamedTuple):
    """Known values that predict special days, (depots, days and horizon)."""

    surprise_then: Doubles
    off_then: Doubles
    weekday_then: Doubles
    day_off: Doubles
    weekday: Doubles
    heights: Doubles
    days_off: Doubles
    usual: Doubles
    lengths: Lengths

    def ahead(self, skipped: int) -> Doubles:
        """Deviation of each day from the usual, as known `skipped` days and a week before it."""
        weekday, height, days_off, usual = (
            shift(x, skipped + 7) for x in (self.weekday, self.heights, self.days_off, self.usual)
        )
        trust = days_off / (days_off + self.lengths["doubt"])
        return excess(self.out_of_the_usual(weekday, height / np.maximum(days_off, 1), trust), usual)

    def out_of_the_usual(self, weekday: Doubles, height: Doubles, trust: Doubles) -> Doubles:
        """Deviation of each day from the usual, from its counterpart and from the days off of a
        year, given their height above the level and the share of it to trust.

        Between two days off, part of the difference of their weekdays is removed; if only one of
        them is a day off, the typical effect of days off is added or removed.
        """
        surprise, off_then, off = self.surprise_then, self.off_then > 0, self.day_off > 0
        of_off = trust * (height - np.where(off, weekday, self.weekday_then))
        as_then = surprise + self.lengths["alike"] * (self.weekday_then - weekday)
        rest = np.where(surprise * of_off > 0, excess(surprise, np.abs(of_off)), surprise)
        when_off = np.where(off_then, as_then, surprise + of_off)
        return bounded(np.where(off, when_off, np.where(off_then, rest, surprise)), self.lengths)


def of_year(series: DaySeries, back: Doubles, day_off: Doubles, of: Lengths) -> SpecialDayArrays:
    """Known values that predict each day near a holiday: its counterpart of last year, and the days
    off of the year. Days on which demand moved to another level are ignored, and days before which
    nothing was usual."""
    days, horizon = series.log.shape[1], back.shape[1] - series.log.shape[1]

    def extended(x: Doubles) -> Doubles:
        return np.pad(x, [(0, 0), (0, horizon)])

    weekday = extended(weekday_effect(series, of))
    weekday_known, off = shift(weekday, 7)[:, :days], day_off[:, :days]
    trusted = series.surprising * ~level_shifts(series, of) * ~swings(series, of)
    days_off = off * series.surprising
    heights = bounded(series.surprise + weekday_known, of) * days_off
    return SpecialDayArrays(
        counterparts(bounded(series.surprise, of) * trusted, back),
        counterparts(off * trusted, back),
        counterparts(weekday_known * off * trusted, back),
        day_off,
        weekday,
        extended(trailing(heights, of["year"])),
        extended(trailing(days_off, of["year"])),
        extended(series.usual),
        of,
    )


def surprises(
    log: Doubles, observed: Doubles, near_holiday: Bools, of: Lengths
) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Return log counts without deviations near holidays, the error of the anchor on each day, the
    days on which it is known, and its usual size; each (depots, days).

    Near a holiday, a day is held to the usual before it counts for other days; twice, because one
    holiday may be among the reference days of another. Deviations of the other days of the week
    before are not attributed to the holiday.
    """
    weeks, year = of["weeks"], of["year"]
    weeks_observed = shift(trailing(observed, weeks, 7), 7)
    measured = observed * (weeks_observed > 0)
    days_measured = trailing(measured, year)

    def anchor_error(plain: Doubles) -> Doubles:
        return near(log - shift(trailing(plain, weeks, 7), 7) / np.maximum(weeks_observed, 1)) * measured

    def usual_error(surprise: Doubles) -> Doubles:
        return trailing(np.abs(surprise), year) / np.maximum(days_measured, 1)

    surprise = anchor_error(log)
    bound, is_bounded = usual_error(surprise), near_holiday & (days_measured >= of["sure"])
    ordinary = measured * ~near_holiday
    of_others = np.maximum(shift(trailing(ordinary, 7), 1), 1)
    for _ in range(2):
        lately = excess(shift(trailing(surprise * ordinary, 7), 1) / of_others, usual_error(surprise))
        plain = np.where(is_bounded, log - surprise + np.clip(surprise, lately - bound, lately + bound), log)
        surprise = anchor_error(plain)
    return plain, surprise, measured, usual_error(surprise)


def level_shifts(series: DaySeries, of: Lengths) -> Bools:
    """Mark days between two dissimilar spans of four weeks: demand moved to another level there."""
    span = 7 * of["weeks"]
    weeks_observed = trailing(series.observed, of["weeks"], 7)
    mean = trailing(series.plain, of["weeks"], 7) / np.maximum(weeks_observed, 1)
    later, known_later = (np.pad(x[:, span:], [(0, 0), (0, span)]) for x in (mean, weeks_observed))
    moved: Bools = (np.abs(later - shift(mean, 7)) > of["moved"]) & (known_later > 0)
    return moved


def swings(series: DaySeries, of: Lengths) -> Bools:
    """Mark days whose preceding same weekdays lie so far apart that none of them is the usual."""
    weeks = [7 * week for week in range(1, of["weeks"] + 1)]
    lagged, observed = (np.stack([shift(x, days) for days in weeks]) for x in (series.plain, series.observed))
    highest, lowest = np.where(observed > 0, lagged, 0).max(axis=0), np.where(observed > 0, lagged, np.inf).min(axis=0)
    apart: Bools = highest - lowest > of.get("swing", np.inf)
    return apart


def weekday_effect(series: DaySeries, of: Lengths) -> Doubles:
    """Deviation of each day's weekday from the level, from its last four weeks, (depots, days)."""
    weeks_observed = trailing(series.observed, of["weeks"], 7)
    mean = trailing(series.plain, of["weeks"], 7) / np.maximum(weeks_observed, 1)
    return np.where(weeks_observed > 0, mean - series.level, 0.0)


def of_last_holidays(surprise: Doubles, usual: Doubles, near_holiday: Doubles, of: Lengths) -> Doubles:
    """Mean deviation of the days near holidays in the last week, (depots, days)."""
    beyond = excess(bounded(surprise, of), shift(usual, 7)) * near_holiday
    mean: Doubles = trailing(beyond, 7) / (trailing(near_holiday, 7) + of["doubt"])
    return mean


def counterparts(x: Doubles, back: Doubles) -> Doubles:
    """Values of x (depots, days) on the counterpart of each day, 0 if there is none."""
    place = np.arange(back.shape[1]) - back.astype(int)
    then = np.take_along_axis(x, np.clip(place, 0, x.shape[1] - 1), axis=1)
    return np.where((back > 0) & (place >= 0), then, 0.0)


def excess(surprise: Doubles, usual: Doubles) -> Doubles:
    """Part of a surprise that exceeds the usual."""
    return np.sign(surprise) * np.maximum(np.abs(surprise) - usual, 0.0)


def bounded(x: Doubles, of: Lengths) -> Doubles:
    """Clip x to the largest effect of a special day, in log counts."""
    return np.clip(x, -of["most_special"], of["most_special"])
