"""Further inputs of boosted trees, in addition to the decoder's: rolling means, errors and trends
up to an origin, more weeks of the same weekday, a year ago by date, known values of the days around
the forecast one, and each of the last days.

Log counts, (depots, days); values of the weeks before a day are those that its origin knows, as in
`features`.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from forecaster.model.network.day_sums import WEEKS, YEAR, Origins, between, shift, trailing_sum
from forecaster.model.network.series import Series
from forecaster.model.network.special_days import LARGEST

MORE_WEEKS = 8  # same weekdays
MEANS = (1, 2, 8)  # weeks
DAYS_SURPRISED = 7  # each a separate input
NEAR = (-7, -2, -1, 1, 2)  # days relative to the forecast one
LAGS = 14  # days up to the origin, each a separate input
# known days in the last four weeks; with fewer, trees weigh less and do not learn from the depot
ENOUGH = 7
FAR = 4.0  # log counts; the largest distance of a value from its reference
OF_ORIGIN = (
    *(f"mean_{weeks}w" for weeks in MEANS),
    *("year_level", "growth", "surprise_3d", "missed_1w", "missed_4w", "size", "level_days"),
    *(f"surprise -{day}" for day in range(DAYS_SURPRISED)),
)
OF_WEEKDAY = ("weeks_mean", "weeks_spread", "weeks_least", "weeks_most")
OF_DATE = ("last_year -1", "last_year_known -1", "last_year +1", "last_year_known +1")


def make(
    series: Series,
    size: Array,
    known_ahead: Array,
    anchor: Float[Array, "depots origins horizon"],
    yearly: Array,
    origins: Origins,
    errors: Array | None = None,
) -> Float[Array, "depots origins horizon further"]:
    """Compute the inputs in the order of `names`. `size` is that of the level, in spreads of all
    log counts; `known_ahead` (depots, days and horizon, …) is open, holidays, covariates; on the
    days ahead, `errors` (depots, origins, horizon, covariates) are added to the covariates."""
    now = _up_to(series, size, yearly)[:, origins.first :: origins.stride, None]
    return jnp.concatenate(
        [
            jnp.broadcast_to(now, (*anchor.shape, now.shape[-1])),
            _same_weekdays(series, anchor, origins),
            _a_year_ago(series, yearly, origins),
            _around(known_ahead, origins, errors),
        ],
        axis=-1,
    )


def lags(series: Series, origins: Origins) -> Float[Array, "depots origins lags"]:
    """The last days up to an origin relative to its level, 0 if unknown."""
    days = series.log.shape[1]

    def before(x: Array) -> Array:
        return jnp.stack(
            [between(x, origins.first - day, days - day)[:, :: origins.stride] for day in range(LAGS)], axis=-1
        )

    return _near(before(series.log) - series.level[:, origins.first :: origins.stride, None]) * before(series.observed)


def names(covariates: Sequence[str], holidays: Sequence[str]) -> tuple[str, ...]:
    """Names of the further inputs, in the order of `make` and then `lags`."""
    known_ahead = ("open", *(f"calendar {name}" for name in holidays), *(f"covariate {name}" for name in covariates))
    return (
        *(f"now {name}" for name in OF_ORIGIN),
        *OF_WEEKDAY,
        *OF_DATE,
        *(f"{name} {near:+}" for near in NEAR for name in known_ahead),
        *(f"day -{day}" for day in range(LAGS)),
    )


def _up_to(series: Series, size: Array, yearly: Array) -> Array:
    """Values known on each day about the days up to it, (depots, days, …)."""
    level = series.level
    counts, sums, surprise_counts, misses = (
        trailing_sum(x, 7) for x in (series.observed, series.plain, series.surprising, jnp.abs(series.surprise))
    )

    def over(x: Array, of: Array, weeks: int) -> tuple[Array, Array]:
        return trailing_sum(x, weeks, every=7), trailing_sum(of, weeks, every=7)

    def against_level(weeks: int) -> Array:
        total, count = over(sums, counts, weeks)
        return _near(total / jnp.maximum(count, 1.0) - level) * (count > 0).astype(jnp.float32)

    def missed(weeks: int) -> Array:
        total, count = over(misses, surprise_counts, weeks)
        return total / jnp.maximum(count, 1.0)

    month = trailing_sum(counts, WEEKS, every=7)
    then_known = (shift(month, YEAR) > 0).astype(jnp.float32)
    growth = yearly * then_known * _near(level - shift(level, YEAR))
    three = trailing_sum(series.surprise, 3) / jnp.maximum(trailing_sum(series.surprising, 3), 1.0)
    parts = [*map(against_level, MEANS), yearly * against_level(YEAR // 7), growth, three, missed(1), missed(WEEKS)]
    parts += [size, month / (7 * WEEKS)]
    parts += [shift(series.surprise, day) for day in range(DAYS_SURPRISED)]
    return jnp.stack(parts, axis=-1)


def _same_weekdays(series: Series, anchor: Array, origins: Origins) -> Array:
    """Mean, spread, minimum and maximum of the last `MORE_WEEKS` known same weekdays, relative to
    the anchor."""

    def of_week_ahead(skipped: int) -> Array:
        values, observed = (
            jnp.stack([origins.ago(x, skipped + 7 * week) for week in range(1, MORE_WEEKS + 1)], axis=-1)
            for x in (series.plain, series.observed)
        )
        count = jnp.maximum(observed.sum(axis=-1), 1.0)
        mean = values.sum(axis=-1) / count
        spread = (jnp.abs(values - mean[..., None]) * observed).sum(axis=-1) / count
        least = jnp.where(observed > 0, values, LARGEST).min(axis=-1)
        most = jnp.where(observed > 0, values, -LARGEST).max(axis=-1)
        return jnp.stack([mean, least, most, spread, observed.max(axis=-1)], axis=-1)

    of_days = origins.weeks_ahead(of_week_ahead)
    mean, least, most = (_near(of_days[..., i] - anchor) * of_days[..., 4] for i in range(3))
    return jnp.stack([mean, of_days[..., 3], least, most], axis=-1)


def _a_year_ago(series: Series, yearly: Array, origins: Origins) -> Array:
    """The days next to the same weekday of a year ago, one of which has the same date, relative to
    the level then."""
    then = origins.ago(series.level, YEAR + 7)
    parts = []
    for days in (YEAR + 1, YEAR - 1):
        weight = yearly * origins.ago(series.observed, days)
        parts += [_near(origins.ago(series.log, days) - then) * weight, weight]
    return origins.ahead(jnp.stack(parts, axis=-1))


def _around(known_ahead: Array, origins: Origins, errors: Array | None) -> Array:
    """Known values of the days around each one; zero beyond the horizon, which no origin knows."""
    off = errors
    if errors is not None:
        off = jnp.pad(errors, [(0, 0)] * 3 + [(known_ahead.shape[-1] - errors.shape[-1], 0)])
    today = origins.ahead(origins.ago(known_ahead, 0))
    today = today if off is None else today + off
    parts = []
    for near in NEAR:
        if near < 0:
            before = origins.ahead(origins.ago(known_ahead, -near))
            if off is not None and -near < origins.horizon:
                before += jnp.pad(off[:, :, :near], ((0, 0), (0, 0), (-near, 0), (0, 0)))
            parts.append(before)
            continue
        offset = min(near, origins.horizon)
        parts.append(jnp.pad(today[:, :, offset:], ((0, 0), (0, 0), (0, offset), (0, 0))))
    return jnp.concatenate(parts, axis=-1)


def _near(x: Array) -> Array:
    return jnp.clip(x, -FAR, FAR)
