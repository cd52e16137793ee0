"""Inputs of the decoder: a vector of each forecast day, from what its origin knows of the days
before it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from forecaster.model.network.day_sums import WEEKS, YEAR, Origins, between, trailing_sum
from forecaster.model.network.series import Levels, Series
from forecaster.model.network.special_days import SpecialDays

SEASON_WEEKS = 12  # same weekdays in a weekday's habit
SPECIAL = 2 * WEEKS + 8  # position of the effect of a special day in a day's vector


class DecoderSeries(NamedTuple):
    """Series from which a day's vector is taken, independent of its origin."""

    plain: Array
    observed: Array
    habits: Array  # plain, each day relative to its own level
    special: Array  # covariates and holidays, up to the end of the horizon
    last_year: tuple[Array, Array, Array]
    last_year_holidays: Array
    open: Array
    calendar: Array
    holidays: Array  # last features of the calendar
    covariates: Array


class DecoderInputs(NamedTuple):
    """Vectors of the forecast days, (depots, origins, horizon, …), and the starting point of the
    network on each."""

    vectors: Array
    anchor: Array  # log counts, like the rest
    special: Array  # effect of a special day, with a last axis of one
    holiday_carry: Array  # continued deviation if a depot sees its first holidays


def last_year(series: Series, levels: Levels, yearly: Array, places: Origins) -> tuple[Array, Array, Array]:
    """The same day a year of whole weeks ago relative to its level then, its mask, and the mean of
    its week."""
    mask = yearly * places.ago(series.observed, YEAR)
    level_then = places.ago(series.level, YEAR + 7)
    day = jnp.clip(places.ago(series.log, YEAR) - level_then, -4.0, 4.0) * mask
    # Its whole week, three days before and after: a single day may have been special.
    days_then = places.ago(levels.week_days, YEAR - 3)
    week = places.ago(levels.week_sum, YEAR - 3) / jnp.maximum(days_then, 1.0)
    week = jnp.clip(week - level_then, -4.0, 4.0)
    return day, mask, yearly * week * (days_then > 0).astype(jnp.float32)


def of_week_ahead(
    series: DecoderSeries, special_days: SpecialDays, first_special: Array, places: Origins, skipped: int
) -> Array:
    """Vectors of days with `skipped` days between them and an origin's first week: values of the
    weeks before them are those that the origin knows. `at_origins` relies on the order: lags and
    masks first, covariates last."""
    special_day = special_days.ahead(skipped) if skipped else first_special
    before_first = places.first - special_days.start

    def summed(x: Array, weeks: int) -> Array:
        return trailing_sum(x, weeks, every=7)[:, 7 * (weeks - 1) :]

    def lately(x: Array, weeks: int) -> Array:
        """Values of x in the last known weeks of each possible forecast day."""
        return between(x, places.first + 1 - 7 * weeks - skipped, places.end - 7 - skipped)

    # The seasonal anchor: the mean of the last four known same weekdays, and their number.
    weight = summed(lately(series.observed, WEEKS), WEEKS)
    same_weekday = summed(lately(series.plain, WEEKS), WEEKS) / jnp.maximum(weight, 1.0)
    # The habit of a weekday over a season, each week relative to its own level: steadier than the
    # anchor's four weeks.
    habit_weight = summed(lately(series.observed, SEASON_WEEKS), SEASON_WEEKS)
    habit = summed(lately(series.habits, SEASON_WEEKS), SEASON_WEEKS) / jnp.maximum(habit_weight, 1.0)
    # Special values on the days of the anchor: without them, last week's promotion looks like a
    # habit.
    at_anchor = summed(lately(series.special, WEEKS) * lately(series.observed, WEEKS)[..., None], WEEKS)
    lags = [places.ago(x, skipped + 7 * k) for x in (series.plain, series.observed) for k in range(1, WEEKS + 1)]
    usual = [same_weekday, weight, habit, habit_weight / SEASON_WEEKS]
    special = [special_day[:, before_first:-1], special_day[:, before_first + 1 :]]
    return jnp.concatenate(
        [
            jnp.stack([*lags, *usual, *series.last_year, *special, places.ago(series.open, 0)], axis=-1),
            places.ago(series.calendar, 0),
            series.last_year_holidays,
            at_anchor / jnp.maximum(weight, 1.0)[..., None],
            places.ago(series.covariates, 1),
            places.ago(series.covariates, 0),
        ],
        axis=-1,
    )


def with_report_errors(day: Array, errors: Array) -> Array:
    """Return vectors `day` of `of_week_ahead` with the covariates of the days ahead as in an
    origin's reports, with `errors` (depots, origins, horizon, covariates); those of yesterday and
    today are the last ones."""
    off = jnp.concatenate([_yesterday(errors), errors], axis=-1)
    return jnp.concatenate([day[..., : -off.shape[-1]], day[..., -off.shape[-1] :] + off], axis=-1)


def at_origins(
    day: Array, places: Origins, level: Array, surprise_week: Array, carry: tuple[Array, Array], covariates: int
) -> DecoderInputs:
    """Return vectors `day` of `of_week_ahead` relative to the level that each origin knows, with
    values that depend on it.

    `carry` is the deviation of the last days near holidays from the usual (depots, days), and the
    mask of the days after the first origin on which it continues because a depot sees its first
    holidays.
    """
    origin_level = level[:, places.first :: places.stride, None]
    lag, mask = day[..., :WEEKS], day[..., WEEKS : 2 * WEEKS]
    seasonal, weight, rest = day[..., 2 * WEEKS], day[..., 2 * WEEKS + 1], day[..., 2 * WEEKS + 2 :]
    anchor = jnp.where(weight > 0, seasonal, origin_level)
    tomorrow = _tomorrow(day[..., day.shape[-1] - covariates :])
    special = day[..., SPECIAL : SPECIAL + 1]
    so_far, unprecedented = carry
    holiday_carry = places.ahead(unprecedented) * so_far[:, places.first :: places.stride, None]
    special_tomorrow = _tomorrow(special)
    against_level = jnp.clip(lag - origin_level[..., None], -4.0, 4.0) * mask
    extremes = _extremes(lag, mask, anchor, weight)
    surprised = surprise_week[:, places.first :: places.stride, None, None]
    surprised = jnp.broadcast_to(surprised, (*anchor.shape, 1))
    compared = [against_level, mask, (anchor - origin_level)[..., None], extremes, surprised]
    vectors = [*compared, special_tomorrow, holiday_carry[..., None], rest, tomorrow]
    return DecoderInputs(jnp.concatenate(vectors, axis=-1), anchor, special, holiday_carry)


def _yesterday(x: Array) -> Array:
    """Values of the previous day of the horizon; zero for its first day."""
    return jnp.pad(x[:, :, :-1], ((0, 0), (0, 0), (1, 0), (0, 0)))


def _tomorrow(x: Array) -> Array:
    """Values of the next day of the horizon; zero for its last day: no origin knows the day after
    it, though a later origin would."""
    return jnp.pad(x[:, :, 1:], ((0, 0), (0, 0), (0, 1), (0, 0)))


def _extremes(lag: Array, mask: Array, anchor: Array, weight: Array) -> Array:
    """Distances of the lowest and highest of the four same weekdays from the anchor."""
    least = jnp.where(mask > 0, lag, jnp.inf).min(axis=-1)
    most = jnp.where(mask > 0, lag, -jnp.inf).max(axis=-1)
    some = weight[..., None] > 0
    distances = jnp.clip(jnp.stack([least - anchor, most - anchor], axis=-1), -4.0, 4.0)
    return jnp.where(some, distances, 0.0)
