"""Inputs of the decoder: a vector of each day that is forecast, by what its origin knows of the
days before it."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from forecaster.model.network.day_sums import WEEKS, YEAR, Origins, between, trailing_sum
from forecaster.model.network.series import Levels, Series
from forecaster.model.network.special_days import SpecialDays

SEASON_WEEKS = 12  # same weekdays that make a weekday's habit
SPECIAL = 2 * WEEKS + 8  # where in a day's vector stands what is special on it


class DecoderSeries(NamedTuple):
    """Series from which the vector of a day is taken, whatever its origin."""

    plain: Array
    observed: Array
    habits: Array  # plain, each day against its own level
    special: Array  # covariates and holidays, to the end of the horizon
    last_year: tuple[Array, Array, Array]
    last_year_holidays: Array
    open: Array
    calendar: Array
    holidays: Array  # of it
    covariates: Array


class DecoderInputs(NamedTuple):
    """Vectors of the days that are forecast, (depots, origins, horizon, …), and from where the
    network starts there."""

    vectors: Array
    anchor: Array  # log counts, like the rest
    special: Array  # what a special day adds, with a last axis of one
    holiday_carry: Array  # what goes on where a depot sees its first holidays


def last_year(series: Series, levels: Levels, yearly: Array, places: Origins) -> tuple[Array, Array, Array]:
    """The same day a year of whole weeks ago against the level of then, its mask, and its whole
    week."""
    mask = yearly * places.ago(series.observed, YEAR)
    level_then = places.ago(series.level, YEAR + 7)
    day = jnp.clip(places.ago(series.log, YEAR) - level_then, -4.0, 4.0) * mask
    # Its whole week, three days before and after: one day may have been special.
    days_then = places.ago(levels.week_days, YEAR - 3)
    week = places.ago(levels.week_sum, YEAR - 3) / jnp.maximum(days_then, 1.0)
    week = jnp.clip(week - level_then, -4.0, 4.0)
    return day, mask, yearly * week * (days_then > 0).astype(jnp.float32)


def of_week_ahead(
    series: DecoderSeries, special_days: SpecialDays, first_special: Array, places: Origins, skipped: int
) -> Array:
    """Vectors of days of which `skipped` lie between them and an origin's first week: what they
    take from the weeks before them is what that origin knows. `at_origins` knows the order: lags
    and masks first, covariates last.
    """
    special_day = special_days.ahead(skipped) if skipped else first_special
    before_first = places.first - special_days.start

    def summed(x: Array, weeks: int) -> Array:
        return trailing_sum(x, weeks, every=7)[:, 7 * (weeks - 1) :]

    def lately(x: Array, weeks: int) -> Array:
        """Values of x in the last weeks that are known of each day that may be forecast."""
        return between(x, places.first + 1 - 7 * weeks - skipped, places.end - 7 - skipped)

    # The seasonal anchor: the mean of the last four same weekdays that are known, and of how many
    # it is.
    weight = summed(lately(series.observed, WEEKS), WEEKS)
    same_weekday = summed(lately(series.plain, WEEKS), WEEKS) / jnp.maximum(weight, 1.0)
    # The habit of a weekday over a season, each week against its own level: steadier than the
    # anchor's four.
    habit_weight = summed(lately(series.observed, SEASON_WEEKS), SEASON_WEEKS)
    habit = summed(lately(series.habits, SEASON_WEEKS), SEASON_WEEKS) / jnp.maximum(habit_weight, 1.0)
    # What was special on the days that make the anchor: without it, last week's promotion looks
    # like a habit.
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
    """Vectors `day` of `of_week_ahead` with the covariates of the days ahead as an origin's reports
    had them, off by `errors` (depots, origins, horizon, covariates); those of yesterday and today
    stand last."""
    off = jnp.concatenate([_yesterday(errors), errors], axis=-1)
    return jnp.concatenate([day[..., : -off.shape[-1]], day[..., -off.shape[-1] :] + off], axis=-1)


def at_origins(
    day: Array, places: Origins, level: Array, surprise_week: Array, carry: tuple[Array, Array], covariates: int
) -> DecoderInputs:
    """Vectors `day` of `of_week_ahead`, measured against the level that each origin knows, with
    what depends on it.

    `carry` is what the last days near holidays had out of the usual (depots, days), and the mask of
    the days from the one after the first origin on where it goes on, as a depot sees its first
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
    """Values of the day before in the horizon; zero for the origin's own day."""
    return jnp.pad(x[:, :, :-1], ((0, 0), (0, 0), (1, 0), (0, 0)))


def _tomorrow(x: Array) -> Array:
    """Values of the next day of the horizon: of what comes after it no origin knows, though a later
    one would."""
    return jnp.pad(x[:, :, 1:], ((0, 0), (0, 0), (0, 1), (0, 0)))


def _extremes(lag: Array, mask: Array, anchor: Array, weight: Array) -> Array:
    """Distances below and above the anchor that the four same weekdays reach."""
    least = jnp.where(mask > 0, lag, jnp.inf).min(axis=-1)
    most = jnp.where(mask > 0, lag, -jnp.inf).max(axis=-1)
    some = weight[..., None] > 0
    distances = jnp.clip(jnp.stack([least - anchor, most - anchor], axis=-1), -4.0, 4.0)
    return jnp.where(some, distances, 0.0)
