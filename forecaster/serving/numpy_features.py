"""Features in plain NumPy: the second implementation of `model.network.features`, for one
origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from forecaster.core.arrays import Doubles
from forecaster.serving import numpy_special_days, numpy_trees
from forecaster.serving.day_arrays import DaySeries, Lengths, near, shift, trailing, week_mean
from forecaster.serving.numpy_special_days import SpecialDayArrays


class ModelInputs(NamedTuple):
    """Features computed from raw inputs, before any learned layer."""

    encoder: Doubles  # (depots, scan, …)
    decoder: Doubles  # (depots, horizon, …)
    anchor: Doubles  # (depots, horizon), log counts
    missed: Doubles  # (depots,), mean absolute error of the expected surprises in the last week
    # each (depots,): move of the level in the last week, and the share of it to follow
    moves: tuple[Doubles, Doubles]
    level: Doubles  # (depots,), log counts
    # (depots,): share of the trees' weight, 1 if enough of the last days are known
    trusted: Doubles
    trees: Doubles  # (depots, horizon, …), inputs of the trees; empty without trees


class RawInputs(NamedTuple):
    """Inputs of a forecast in double precision; days are the history and, except for demand, the
    horizon."""

    demand: Doubles
    open: Doubles
    covariates: Doubles
    calendar: Doubles
    statics: Any


class LevelArrays(NamedTuple):
    """Mean log counts up to each day, and the number of known days in each mean, (depots, days)."""

    level: Doubles  # of four weeks, else of a year, else of all depots
    days: Doubles
    year: Doubles
    year_days: Doubles
    week: Doubles  # of the last week, else the level


class HorizonArrays(NamedTuple):
    """Series from which a day's vector is taken, (depots, days and horizon, …)."""

    plain: Doubles
    observed: Doubles
    habits: Doubles  # plain, each day relative to its own level
    special: Doubles  # covariates and holidays
    last_year: tuple[Doubles, Doubles, Doubles]
    last_year_holidays: Doubles
    open: Doubles
    calendar: Doubles
    holidays: Doubles  # last features of the calendar
    covariates: Doubles


class HorizonInputs(NamedTuple):
    """Vectors of the forecast days, (depots, horizon, …), and the starting point of the network on
    each."""

    vectors: Doubles
    anchor: Doubles
    special: Doubles  # effect of a special day


def make(
    inputs: Mapping[str, Any], constants: Mapping[str, Doubles], of: Lengths, *, scan: int, trees: bool
) -> ModelInputs:
    """Compute the inputs of encoder, decoder and trees, and the starting point of the forecast;
    `of` has the manifest's lengths."""
    demand, open_, covariates, calendar = (inputs[name].astype(float) for name in RawInputs._fields[:-1])
    window = RawInputs(demand, open_, covariates, calendar, inputs["statics"])
    days = demand.shape[1]
    log, observed = log_counts(demand, open_)
    back = calendar[..., -1]
    near_holiday = back > 0
    plain, surprise, surprising, usual = numpy_special_days.surprises(log, observed, near_holiday[:, :days], of)
    but_holidays = surprising * near_holiday[:, :days] * (1 - calendar[:, :days, -1 - of["holidays"]])
    so_far = numpy_special_days.of_last_holidays(surprise, usual, but_holidays, of)
    unprecedented = near_holiday & (numpy_special_days.counterparts(surprising, back) == 0)
    holiday_carry = np.where(unprecedented, so_far[:, -1:], 0.0)[:, days:]
    surprise_week = week_mean(surprise, surprising)
    level = levels(log, plain, observed, constants["mean"], of)
    series = DaySeries(log, plain, observed, surprise, surprising, usual, level.level)
    special = numpy_special_days.of_year(series, back, calendar[..., -2], of)
    special_so_far = special.ahead(0)[:, :days]
    week_error = week_mean(np.abs(surprise - special_so_far) * surprising, surprising)[:, -1]
    read = encoder_days(series, level, surprise_week, special_so_far, constants, of)
    encoder = encoder_vectors(window, read, scan)
    of_days = decoder_series(
        window, series, (calendar * constants["calendar"])[..., :-1], float(constants["yearly"]), of
    )
    horizon = range(0, open_.shape[1] - days, 7)
    day = np.concatenate([of_week_ahead(of_days, special, skipped, days, of) for skipped in horizon], axis=1)
    decoder = at_origin(day, level.level, surprise_week, holiday_carry, covariates.shape[-1], of)
    of_trees, trusted = np.zeros((*decoder.anchor.shape, 0)), np.ones(len(log))
    if trees:
        of_trees = tree_vectors(window, series, read["size"], of_days.holidays, decoder, constants["yearly"], of)
        trusted = np.minimum(level.days[:, -1] / of["enough"], 1)
    anchor = decoder.anchor + decoder.special + holiday_carry
    moves = level_moves(plain, observed, of)
    return ModelInputs(encoder, decoder.vectors, anchor, week_error, moves, level.level[:, -1], trusted, of_trees)


def log_counts(demand: Doubles, open_: Doubles) -> tuple[Doubles, Doubles]:
    """Return log counts, 0 on days that are unknown or closed, and the mask of the other days."""
    usable = np.isfinite(demand) & (open_[:, : demand.shape[1]] > 0)
    return np.log1p(np.where(usable, demand, 0.0)), usable.astype(float)


def levels(log: Doubles, plain: Doubles, observed: Doubles, mean: Doubles, of: Lengths) -> LevelArrays:
    """Local levels, relative to which other values are measured, so that large and small depots
    share one network."""
    days, year_days, week_days = (trailing(observed, length) for length in (of["level"], of["year"], 7))
    year = trailing(plain, of["year"]) / np.maximum(year_days, 1)
    recent = trailing(plain, of["level"]) / np.maximum(days, 1)
    level = np.where(days > 0, recent, np.where(year_days > 0, year, mean))
    week = np.where(week_days > 0, trailing(log, 7) / np.maximum(week_days, 1), level)
    return LevelArrays(level, days, year, year_days, week)


def level_moves(plain: Doubles, observed: Doubles, of: Lengths) -> tuple[Doubles, Doubles]:
    """Distance of the last week from the anchor of the next one, and the share of it to follow,
    each (depots,). The share grows as the days lie on one side and the distance exceeds that of
    usual weeks. Both are 0 for bundles of earlier versions."""
    weeks, year = of["weeks"], of["year"]
    if "most_moved" not in of:
        return np.zeros(len(plain)), np.zeros(len(plain))
    weeks_observed = trailing(observed, weeks, 7)
    comparable = observed * (weeks_observed > 1)
    distance = (plain - trailing(plain, weeks, 7) / np.maximum(weeks_observed, 1)) * comparable
    days = trailing(comparable, 7)
    moved = trailing(distance, 7) / np.maximum(days, 1)
    weeks_known = trailing((days > 0).astype(float), year)[:, -1]
    usual = trailing(np.abs(moved), year)[:, -1] / np.maximum(weeks_known, 1)
    sides = trailing(distance / (np.abs(distance) + of["least_distance"]), 7)[:, -1]
    days, moved = days[:, -1], moved[:, -1]
    trust = (days >= of["least_days"]) * ramp(np.abs(sides) / np.maximum(days, 1), *of["one_sided"])
    trust = trust * ramp(np.abs(moved) / np.maximum(usual, of["least_usual"]), *of["unusual"])
    return np.clip(moved, -of["most_moved"], of["most_moved"]), trust


def encoder_days(
    series: DaySeries,
    level: LevelArrays,
    surprise_week: Doubles,
    special: Doubles,
    constants: Mapping[str, Doubles],
    of: Lengths,
) -> dict[str, Doubles]:
    """Values that the encoder reads for each day of the history, by name."""
    log, observed = series.log, series.observed
    return {
        "relative": near(log - level.level) * observed,
        "observed": observed,
        "lag7": (log - shift(log, 7)) * observed * shift(observed, 7),
        "week": level.week - level.level,
        "year": constants["yearly"] * level.year_days / of["year"] * (level.level - level.year),
        "size": (level.level - constants["mean"]) / constants["spread"],
        "level_days": level.days / of["level"],
        "surprise": series.surprise,
        "surprise_week": surprise_week,
        "special": special,
    }


def encoder_vectors(window: RawInputs, read: Mapping[str, Doubles], scan: int) -> Doubles:
    """Vector of each of the last `scan` days, (depots, scan, …)."""
    days = window.demand.shape[1]
    values = np.stack([*read.values(), window.open[:, :days]], axis=-1)
    return np.concatenate([values, window.covariates[:, :days]], axis=-1)[:, -scan:]


def decoder_series(
    window: RawInputs, series: DaySeries, calendar: Doubles, yearly: float, of: Lengths
) -> HorizonArrays:
    """Series from which the decoder's vectors are taken, up to the end of the horizon."""
    horizon = window.open.shape[1] - series.log.shape[1]
    habits = near(series.plain - series.level) * series.observed
    log, plain, observed, level, habits = (
        np.pad(x, [(0, 0), (0, horizon)]) for x in (series.log, series.plain, series.observed, series.level, habits)
    )
    holidays = calendar[..., -of["holidays"] :]
    return HorizonArrays(
        plain=plain,
        observed=observed,
        habits=habits,
        special=np.concatenate([window.covariates, holidays], axis=-1) * observed[..., None],
        last_year=last_year(log, observed, level, yearly, of["year"]),
        last_year_holidays=yearly * shift(holidays, of["year"]),
        open=window.open,
        calendar=calendar,
        holidays=holidays,
        covariates=window.covariates,
    )


def last_year(
    log: Doubles, observed: Doubles, level: Doubles, yearly: float, year: int
) -> tuple[Doubles, Doubles, Doubles]:
    """The same day a year of whole weeks ago relative to its level then, its mask, and the mean of
    its week."""
    mask, level_then = yearly * shift(observed, year), shift(level, year + 7)
    days_then = shift(trailing(observed, 7), year - 3)
    week = near(shift(trailing(log, 7), year - 3) / np.maximum(days_then, 1) - level_then)
    return near(shift(log, year) - level_then) * mask, mask, yearly * week * (days_then > 0)


def of_week_ahead(
    series: HorizonArrays, special_days: SpecialDayArrays, skipped: int, days: int, of: Lengths
) -> Doubles:
    """Vectors of at most a week of days ahead, starting after `skipped` days; values of the weeks
    before them are those known on the last day of history."""
    weeks, season, week = of["weeks"], of["season_weeks"], slice(days + skipped, days + skipped + 7)
    special_day = special_days.ahead(skipped)

    def summed(x: Doubles, count: int) -> Doubles:
        """Sum over the same weekdays of the last `count` known weeks."""
        return shift(trailing(x, count, 7), 7 + skipped)[:, week]

    weight, habit_weight = summed(series.observed, weeks), summed(series.observed, season)
    same_weekday = summed(series.plain, weeks) / np.maximum(weight, 1)
    habit = summed(series.habits, season) / np.maximum(habit_weight, 1)
    at_anchor = summed(series.special, weeks) / np.maximum(weight, 1)[..., None]
    lags = [shift(x, 7 * k + skipped)[:, week] for x in (series.plain, series.observed) for k in range(1, weeks + 1)]
    usual = [same_weekday, weight, habit, habit_weight / season]
    of_day = [x[:, week] for x in (*series.last_year, shift(special_day, 1), special_day, series.open)]
    calendar = [x[:, week] for x in (series.calendar, series.last_year_holidays)]
    covariates = [x[:, week] for x in (shift(series.covariates, 1), series.covariates)]
    return np.concatenate([np.stack([*lags, *usual, *of_day], axis=-1), *calendar, at_anchor, *covariates], axis=-1)


def at_origin(
    day: Doubles, level: Doubles, surprise_week: Doubles, holiday_carry: Doubles, covariates: int, of: Lengths
) -> HorizonInputs:
    """Vectors `day` from `of_week_ahead`, relative to the level on the last day of history."""
    weeks, now = of["weeks"], level[:, -1:]
    lag, mask = day[..., :weeks], day[..., weeks : 2 * weeks]
    seasonal, weight, rest = day[..., 2 * weeks], day[..., 2 * weeks + 1], day[..., 2 * weeks + 2 :]
    anchor = np.where(weight > 0, seasonal, now)
    special = day[..., 2 * weeks + 8]
    # The day after the last one is unknown.
    special_tomorrow, tomorrow = (
        np.pad(x[:, 1:], [(0, 0), (0, 1), (0, 0)]) for x in (special[..., None], day[..., day.shape[-1] - covariates :])
    )
    least, most = np.where(mask > 0, lag, np.inf).min(-1), np.where(mask > 0, lag, -np.inf).max(-1)
    extremes = [np.where(weight > 0, near(bound - anchor), 0.0) for bound in (least, most)]
    compared = np.stack([anchor - now, *extremes, np.broadcast_to(surprise_week[:, -1:], anchor.shape)], axis=-1)
    vectors = [near(lag - now[..., None]) * mask, mask, compared, special_tomorrow, holiday_carry[..., None]]
    return HorizonInputs(np.concatenate([*vectors, rest, tomorrow], axis=-1), anchor, special)


def tree_vectors(
    window: RawInputs,
    series: DaySeries,
    size: Doubles,
    holidays: Doubles,
    decoder: HorizonInputs,
    yearly: Doubles,
    of: Lengths,
) -> Doubles:
    """Vectors that the boosted trees read, (depots, horizon, …)."""
    known_ahead = np.concatenate([window.open[..., None], holidays, window.covariates], axis=-1)
    further = numpy_trees.further_inputs(series, size, known_ahead, decoder.anchor, float(yearly), of)
    statics = np.broadcast_to(window.statics[:, None], (*decoder.anchor.shape, window.statics.shape[1]))
    return np.concatenate([decoder.vectors, further, statics], axis=-1)


def ramp(x: Doubles, low: float, high: float) -> Doubles:
    """0 up to `low`, 1 from `high` on."""
    return np.clip((x - low) / (high - low), 0, 1)
