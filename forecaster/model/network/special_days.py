"""Deviations from the usual on special days: measured on known days, and predicted for days to
come.

Log counts of a window, (depots, days). This module has no origins: the caller takes from each value
what an origin knows.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from forecaster.model.network.day_sums import WEEKS, YEAR, between, shift, trailing_sum
from forecaster.model.network.series import Series

# days from a day near a holiday back to its counterpart, which is the last calendar feature
LEAST_BACK, MOST_BACK = 330, 400
SURE = 14  # fewest days for an estimate of the anchor's usual error
# log counts between the weeks before and after a day, above which the level moved there
MOVED = 1.0
# log counts between the highest and the lowest of those same weekdays, above which there is no
# usual
SWING = 2.0
MOST_SPECIAL = 2.0  # largest effect of a special day on the anchor, in log counts, up or down
ALIKE = 0.3  # share of the difference of two weekdays that disappears if both are days off
LARGEST = 100.0  # log counts, above any
# ordinary days that are added to the few special ones of a prediction (shrinkage)
DOUBT = 1.0


class SpecialDays(NamedTuple):
    """Known values that predict special days, (depots, days); counterparts are on the days from
    `start` on."""

    start: int
    surprise_then: Array
    off_then: Array
    weekday_then: Array
    day_off: Array
    weekday: Array  # `weekday_effect`
    heights: Array  # `days_off_of_year`
    days_off: Array
    usual: Array

    def ahead(self, skipped: int) -> Array:
        """Deviation of the days from `start` on from the usual, as known `skipped` days and a week
        before each."""

        def as_known(x: Array) -> Array:
            days = skipped + 7
            return between(x, self.start - days, self.day_off.shape[1] - days)

        height, days_off = as_known(self.heights), as_known(self.days_off)
        special = out_of_the_usual(
            self.surprise_then,
            self.off_then,
            self.weekday_then,
            self.day_off[:, self.start :],
            as_known(self.weekday),
            height / jnp.maximum(days_off, 1.0),
            days_off / (days_off + DOUBT),
        )
        return excess(special, as_known(self.usual))


def of_year(series: Series, back: Array, day_off: Array, start: int) -> SpecialDays:
    """Known values that predict each day near a holiday: its counterpart of last year, and the days
    off of the year. Days on which demand moved to another level are ignored, because no holiday
    caused that, and days before which nothing was usual."""
    days = series.log.shape[1]
    weekday = weekday_effect(series.plain, series.observed, series.level)
    trusted = series.surprising * (1.0 - level_shifts(series.plain, series.observed))
    trusted = trusted * (1.0 - swings(series.plain, series.observed))
    weekday_known = shift(weekday, 7)
    off_then = day_off[:, :days] * trusted
    surprise_then = jnp.clip(series.surprise, -MOST_SPECIAL, MOST_SPECIAL) * trusted
    surprise_then, off_then, weekday_then = (
        counterparts(x, back, start) for x in (surprise_then, off_then, weekday_known * off_then)
    )
    heights, days_off = days_off_of_year(series.surprise + weekday_known, day_off[:, :days] * series.surprising)
    then = surprise_then, off_then, weekday_then
    return SpecialDays(start, *then, day_off, weekday, heights, days_off, series.usual)


def surprises(log: Array, observed: Array, near: Array) -> tuple[Array, Array, Array, Array]:
    """Return log counts without deviations near holidays, the error of the anchor on each day, the
    days on which it is known, and its usual size; each (depots, days).

    Days near a holiday are held to the usual before they enter an anchor or a level, because
    Christmas says little about the Thursdays after it. Twice, since one holiday may be among the
    reference days of another. The deviations of the other days of the last week are not removed: a
    depot that lost a customer near a holiday has lost that customer afterwards too.
    """
    weeks_observed = shift(trailing_sum(observed, WEEKS, every=7), 7)
    measured = observed * (weeks_observed > 0).astype(jnp.float32)
    days_measured = trailing_sum(trailing_sum(measured, 7), YEAR // 7, every=7)

    def anchor_error(plain: Array) -> Array:
        expected = shift(trailing_sum(plain, WEEKS, every=7), 7) / jnp.maximum(weeks_observed, 1.0)
        return jnp.clip(log - expected, -4.0, 4.0) * measured

    def usual_error(surprise: Array) -> Array:
        return trailing_sum(trailing_sum(jnp.abs(surprise), 7), YEAR // 7, every=7) / jnp.maximum(days_measured, 1.0)

    surprise = anchor_error(log)
    bound, bounded = usual_error(surprise), near & (days_measured >= SURE)
    ordinary = measured * (1.0 - near.astype(jnp.float32))
    of_others = jnp.maximum(shift(trailing_sum(ordinary, 7), 1), 1.0)
    plain = log
    for _ in range(2):
        lately = excess(shift(trailing_sum(surprise * ordinary, 7), 1) / of_others, usual_error(surprise))
        plain = jnp.where(bounded, log - (surprise - jnp.clip(surprise, lately - bound, lately + bound)), log)
        surprise = anchor_error(plain)
    return plain, surprise, measured, usual_error(surprise)


def level_shifts(plain: Array, observed: Array) -> Array:
    """Return 1 on days between two dissimilar spans of four weeks: demand moved to another level
    there, as when a depot reopened, and no holiday caused it. The days after a day are known if it
    lies a year back."""
    weeks_observed = trailing_sum(observed, WEEKS, every=7)
    mean = trailing_sum(plain, WEEKS, every=7) / jnp.maximum(weeks_observed, 1.0)
    days, span = observed.shape[1], 7 * WEEKS
    moved = jnp.abs(between(mean, span, days + span) - shift(mean, 7)) > MOVED
    return (moved & (between(weeks_observed, span, days + span) > 0)).astype(jnp.float32)


def swings(plain: Array, observed: Array) -> Array:
    """Return 1 on days whose preceding same weekdays lie so far apart that none of them is the
    usual, as when a site was shut every other week and its counts show it: compared with their
    mean, an ordinary day looks special."""
    highest, lowest = jnp.zeros_like(plain), jnp.full_like(plain, LARGEST)
    for week in range(1, WEEKS + 1):
        value, is_known = shift(plain, 7 * week), shift(observed, 7 * week) > 0
        highest = jnp.maximum(highest, jnp.where(is_known, value, 0.0))
        lowest = jnp.minimum(lowest, jnp.where(is_known, value, LARGEST))
    return (highest - lowest > SWING).astype(jnp.float32)


def weekday_effect(plain: Array, observed: Array, level: Array) -> Array:
    """Deviation of each day's weekday from the level, from its last four weeks, (depots, days)."""
    weeks_observed = trailing_sum(observed, WEEKS, every=7)
    above = trailing_sum(plain, WEEKS, every=7) / jnp.maximum(weeks_observed, 1.0) - level
    return jnp.where(weeks_observed > 0, above, 0.0)


def days_off_of_year(height: Array, off: Array) -> tuple[Array, Array]:
    """Sum of the deviations from the level on the days off of the year up to each day, and their
    number; each (depots, days)."""
    height = jnp.clip(height, -MOST_SPECIAL, MOST_SPECIAL) * off
    heights, count = (trailing_sum(trailing_sum(x, 7), YEAR // 7, every=7) for x in (height, off))
    return heights, count


def out_of_the_usual(
    surprise: Array, free: Array, free_weekday: Array, off: Array, weekday: Array, height: Array, trust: Array
) -> Array:
    """Deviation of each day from the usual, from its counterpart and from the days off of a year,
    each (depots, days).

    `surprise` is the counterpart's, 0 if there is none; nothing else of the counterpart is used,
    because the rest is last year's weather, from which a network would learn the date. `free` marks
    that it was a day off, and `free_weekday` is the height of its weekday above the level. `off`
    and `weekday` are the day's own; `height` is the mean height of the days off of a year above the
    level, and `trust` the share of it to trust. Between two days off, part of the difference of
    their weekdays disappears. A day off whose counterpart was not one gets the typical effect of
    days off in addition; an ordinary day whose counterpart was a day off gets the rest without that
    effect.
    """
    # typical effect on such a weekday
    of_off = trust * (height - jnp.where(off > 0, weekday, free_weekday))
    as_then = surprise + ALIKE * (free_weekday - weekday)
    rest = jnp.where(
        surprise > 0,
        jnp.maximum(surprise - jnp.maximum(of_off, 0.0), 0.0),
        jnp.minimum(surprise - jnp.minimum(of_off, 0.0), 0.0),
    )
    when_off = jnp.where(free > 0, as_then, surprise + of_off)
    return jnp.clip(jnp.where(off > 0, when_off, jnp.where(free > 0, rest, surprise)), -MOST_SPECIAL, MOST_SPECIAL)


def of_last_holidays(surprise: Array, usual: Array, near: Array) -> Array:
    """Mean deviation of the days near holidays in the last week, those of `near`, (depots, days).

    It continues until the holidays are over, as from Christmas to the new year: nothing else is
    known of the first holidays that a depot sees. A holiday itself says nothing about the days
    after it.
    """
    usual = shift(usual, 7)  # as of a week before
    beyond = excess(jnp.clip(surprise, -MOST_SPECIAL, MOST_SPECIAL), usual) * near
    return trailing_sum(beyond, 7) / (trailing_sum(near, 7) + DOUBT)


def without_counterpart(near: Array, surprising: Array, back: Array, start: int) -> Array:
    """Return 1 on the days near a holiday from `start` on whose counterpart is unknown."""
    return near[:, start:] * (counterparts(surprising, back, start) == 0).astype(jnp.float32)


def excess(surprise: Array, usual: Array) -> Array:
    """Part of a surprise that exceeds the usual."""
    beyond = jnp.maximum(jnp.abs(surprise) - usual, 0.0)
    return jnp.where(surprise > 0, beyond, -beyond)


def counterparts(x: Array, back: Array, start: int) -> Array:
    """Values of x `back` days (depots, days and horizon) before each day from `start` on; 0 where
    `back` is 0.

    A sum over all possible days, because a gather would be one of the few operations that are no
    product or sum.
    """
    end = back.shape[1]
    first, last = start - MOST_BACK, end - LEAST_BACK
    back = back[:, start:]
    counterpart = jnp.where(back > 0, jnp.arange(start, end, dtype=back.dtype)[None] - back, -1.0)
    matches = counterpart[..., None] == jnp.arange(first, last, dtype=back.dtype)[None, None]
    return jnp.where(matches, between(x, first, last)[:, None], 0.0).sum(axis=-1)
