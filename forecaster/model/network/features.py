"""Feature engineering inside the compiled graph: logs, levels, lags and holiday effects of a window
of raw counts.

Days are the last axis of a (depots, days) array. `origins` are the days from which a forecast is
made; in training a window has many, in a forecast only the last day. Nothing after an origin
affects its features: where a day of the first week ahead uses a value of a week before, one of the
second week uses that of two weeks before, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from forecaster.model.network import further_inputs, level_moves, special_days
from forecaster.model.network.day_sums import WEEKS, YEAR, Origins, shift
from forecaster.model.network.decoder_inputs import (
    DecoderInputs,
    DecoderSeries,
    at_origins,
    last_year,
    of_week_ahead,
    with_report_errors,
)
from forecaster.model.network.series import LEVEL, Levels, Series, levels, log_counts, week_mean

# days of history that one origin may use: a year ago, and the usual before it
LOOKBACK = 448
# number of calendar features before the last: a holiday, the day before one, the day after one, a
# day off
HOLIDAYS = 4


class Window(NamedTuple):
    """Raw input of the network: counts with NaN for "unknown", the known future, and the static
    codes."""

    demand: Float[Array, "depots days"]
    open: Float[Array, "depots days_and_horizon"]
    covariates: Float[Array, "depots days_and_horizon covariates"]
    calendar: Float[Array, "depots days_and_horizon features"]
    statics: Int[Array, "depots attributes"]


class Features(NamedTuple):
    """Feature tensors of encoder and decoder. d is the forecast day, t the origin."""

    encoder: Float[Array, "depots scan encoder_features"]
    decoder: Float[Array, "depots origins horizon decoder_features"]
    anchor: Float[Array, "depots origins horizon"]  # log count to which the network adds
    level: Float[Array, "depots origins"]
    # mean absolute error of the anchor in the last week, in log counts
    missed: Float[Array, "depots origins"]
    # distance of the last week from the anchor, in log counts (`level_moves`)
    moved: Float[Array, "depots origins"]
    trust: Float[Array, "depots origins"]  # share of it to follow
    # If requested: inputs of the boosted trees, and the share of their weight that a depot's known
    # days justify.
    trees: Float[Array, "depots origins horizon tree_features"] | None = None
    tree_trust: Float[Array, "depots origins"] | None = None


def make(
    window: Window,
    constants: Mapping[str, Array],
    *,
    scan: int,
    origins: int,
    horizon: int,
    stride: int = 1,
    trees: bool = False,
    report_errors: Float[Array, "depots origins horizon covariates"] | None = None,
) -> Features:
    """Compute the features of a window's last `origins` origins, `stride` days apart, and its last
    `scan` days.

    `trees` requests `tree_vectors`. `constants` are measured by training: `mean` and `spread` of
    log counts; `calendar` (features,), 0 for omitted features and else 1; `yearly` (), the same for
    the values of a year ago, except on days near a holiday. `report_errors` are the errors of the
    covariates of the days ahead as each origin reads them, in training.
    """
    yearly, days = constants["yearly"], window.demand.shape[1]
    places = Origins(days - 1 - stride * (origins - 1), origins, stride, horizon)
    log, observed = log_counts(window.demand, window.open)
    back = window.calendar[:, :, -1]
    near = (back > 0).astype(jnp.float32)
    plain, surprise, surprising, usual = special_days.surprises(log, observed, near[:, :days] > 0)
    # Sliced afterwards: for both at once, the exporter's nodes vary.
    holiday, day_off = window.calendar[:, :, -1 - HOLIDAYS], window.calendar[:, :, -2]
    but_holidays = surprising * near[:, :days] * (1.0 - holiday[:, :days])
    so_far = special_days.of_last_holidays(surprise, usual, but_holidays)
    carry = so_far, special_days.without_counterpart(near, surprising, back, places.first + 1)
    surprise_week = week_mean(surprise, surprising)
    level = levels(log, plain, observed, constants["mean"])
    series = Series(log, plain, observed, surprise, surprising, usual, level.level)
    # the error of the week up to the first origin is a feature, too
    start = min(places.first - 6, days - scan)
    special = special_days.of_year(series, back, day_off, start)
    special_day = special.ahead(0)
    special_so_far = jnp.pad(special_day[:, : days - start], [(0, 0), (start, 0)])
    week_error = week_mean(jnp.abs(surprise - special_so_far) * surprising, surprising)
    moved, trust = level_moves.of_last_week(plain, observed)
    read = encoder_days(series, level, surprise_week, special_so_far, constants)
    encoder = encoder_vectors(window, read, scan)
    calendar = (window.calendar * constants["calendar"][None, None])[..., :-1]
    of_days = decoder_series(window, series, level, calendar, yearly, places)
    day = places.weeks_ahead(partial(of_week_ahead, of_days, special, special_day, places))
    if report_errors is not None:
        day = with_report_errors(day, report_errors)
    decoder = at_origins(day, places, level.level, surprise_week, carry, window.covariates.shape[-1])
    of_trees = tree_trust = None
    if trees:
        size, holidays = read["size"], of_days.holidays
        of_trees = tree_vectors(window, series, size, holidays, decoder, yearly, places, report_errors)
        tree_trust = jnp.minimum(level.days[:, places.first :: stride] / further_inputs.ENOUGH, 1.0)
    anchor = decoder.anchor + jnp.squeeze(decoder.special, -1) + decoder.holiday_carry
    now, week_error, moved, trust = (x[:, places.first :: stride] for x in (level.level, week_error, moved, trust))
    return Features(encoder, decoder.vectors, anchor, now, week_error, moved, trust, of_trees, tree_trust)


def encoder_days(
    series: Series, level: Levels, surprise_week: Array, special: Array, constants: Mapping[str, Array]
) -> dict[str, Array]:
    """Values that the encoder reads for each day of the history, by name: demand relative to its
    level, week and year. Without the calendar: if all depots share their days, a run of dates
    suffices to learn the actuals by heart."""
    log, observed = series.log, series.observed
    relative = jnp.clip(log - level.level, -4.0, 4.0) * observed
    lag7 = (log - shift(log, 7)) * observed * shift(observed, 7)
    size = (level.level - constants["mean"]) / constants["spread"]
    return {
        "relative": relative,
        "observed": observed,
        "lag7": lag7,
        "week": level.week - level.level,
        "year": constants["yearly"] * level.year_days / YEAR * (level.level - level.year),
        "size": size,
        "level_days": level.days / LEVEL,
        "surprise": series.surprise,
        "surprise_week": surprise_week,
        "special": special,
    }


def encoder_vectors(window: Window, read: Mapping[str, Array], scan: int) -> Float[Array, "depots scan encoder"]:
    """Vector of each of the last `scan` days."""
    days = window.demand.shape[1]
    last = slice(days - scan, days)
    values = jnp.stack([part[:, last] for part in read.values()], axis=-1)
    return jnp.concatenate([values, window.open[:, last, None], window.covariates[:, last]], axis=-1)


def decoder_series(
    window: Window, series: Series, level: Levels, calendar: Array, yearly: Array, places: Origins
) -> DecoderSeries:
    """Series from which the decoder's vectors are taken; those of a year ago only on possible
    forecast days."""
    holidays = calendar[..., -HOLIDAYS:]
    special = jnp.concatenate([window.covariates, holidays], axis=-1)
    return DecoderSeries(
        plain=series.plain,
        observed=series.observed,
        habits=jnp.clip(series.plain - series.level, -4.0, 4.0) * series.observed,
        special=special,
        last_year=last_year(series, level, yearly, places),
        last_year_holidays=yearly * places.ago(holidays, YEAR),
        open=window.open,
        calendar=calendar,
        holidays=holidays,
        covariates=window.covariates,
    )


def tree_vectors(
    window: Window,
    series: Series,
    size: Array,
    holidays: Array,
    decoder: DecoderInputs,
    yearly: Array,
    places: Origins,
    report_errors: Array | None,
) -> Float[Array, "depots origins horizon tree_features"]:
    """Vectors of the boosted trees, in the order of `tree_inputs`."""
    known_ahead = jnp.concatenate([window.open[..., None], holidays, window.covariates], axis=-1)
    by_origin = [further_inputs.lags(series, places), window.statics.astype(jnp.float32)[:, None]]
    by_origin = [jnp.broadcast_to(x[:, :, None], (*decoder.anchor.shape, x.shape[-1])) for x in by_origin]
    further = further_inputs.make(series, size, known_ahead, decoder.anchor, yearly, places, report_errors)
    return jnp.concatenate([decoder.vectors, further, *by_origin], axis=-1)


def encoder_inputs(covariates: Sequence[str]) -> tuple[str, ...]:
    """Names of the encoder's inputs of a day, in the order of `Features.encoder`."""
    names = "relative observed lag7 week year size level_days surprise surprise_week special open"
    return (*names.split(), *(f"covariate {name}" for name in covariates))


def decoder_inputs(covariates: Sequence[str], calendar: Sequence[str]) -> tuple[str, ...]:
    """Names of the decoder's inputs of a forecast day, in the order of `Features.decoder`. The last
    feature of the calendar is the position of a day's counterpart, and not an input."""
    names = [f"{name} {week}" for name in ("lag", "known") for week in range(1, WEEKS + 1)]
    names += ["anchor", "least", "most", "surprise_week", "special_tomorrow", "holiday_carry"]
    names += ["habit", "habit_weeks", "last_year", "last_year_known", "last_year_week"]
    names += ["special_yesterday", "special", "open"]
    names += [f"calendar {name}" for name in calendar[:-1]]
    holidays = [f"calendar {name}" for name in calendar[:-1][-HOLIDAYS:]]
    names += [f"last_year {name}" for name in holidays]
    names += [f"at_anchor {name}" for name in (*(f"covariate {name}" for name in covariates), *holidays)]
    return (*names, *(f"covariate {name} {day}" for day in ("yesterday", "today", "tomorrow") for name in covariates))


def tree_inputs(covariates: Sequence[str], calendar: Sequence[str], statics: Sequence[str]) -> tuple[str, ...]:
    """Names of the boosted trees' inputs of a forecast day, in the order of `Features.trees`."""
    further = further_inputs.names(covariates, calendar[:-1][-HOLIDAYS:])
    return (*decoder_inputs(covariates, calendar), *further, *(f"static {name}" for name in statics))


def encoder_width(covariates: int) -> int:
    return 11 + covariates


def decoder_width(covariates: int, calendar: int) -> int:
    return 2 * WEEKS + 13 + 4 * covariates + calendar + 2 * HOLIDAYS
