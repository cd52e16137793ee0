"""Trees over what the network's graph computes, or could: the boosted member as a bundle might hold it.

Read of each day that is forecast: the decoder's inputs without the waves of month and year, by which trees learn the
dates by heart; further inputs beside them, which the decoder does not read (rolling means, misses and trends up to the
origin, eight same weekdays instead of four, a year ago by date, what is known of the days around); the last
`LAGS` days against the level; and the codes of statics. A model for each step ahead says the median against the level;
its spread is that of its errors on the last `HELD_OUT` days, as of our LightGBM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import lightgbm
import numpy as np
from jax import Array
from jaxtyping import Float
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles, Floats
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines import lightgbm as baseline
from forecaster.evaluation.baselines.features import Rows
from forecaster.evaluation.baselines.naive import complete
from forecaster.model.fitting import train
from forecaster.model.network import features, special_days
from forecaster.model.network.day_sums import ahead_of, between, shift, trailing_sum
from forecaster.model.network.features import HOLIDAYS, LOOKBACK, Features, Window
from forecaster.model.network.special_days import LARGEST, WEEKS, YEAR

LAGS = 14  # days up to the origin, each by itself
LEAST_BEFORE = 14  # days before the first origin
MOST_CELLS = 200_000_000  # of a window's days, its counterparts' and depots, at once
DATES = ("calendar year_", "calendar month_")  # inputs that name the date
MORE_WEEKS = 8  # same weekdays
MEANS = (1, 2, 8)  # weeks
DAYS_SURPRISED = 7  # each by itself
NEAR = (-7, -2, -1, 1, 2)  # days around the one that is forecast
FAR = 4.0  # log counts: how far anything may lie from what it is compared with
OF_ORIGIN = (
    *(f"mean_{weeks}w" for weeks in MEANS),
    *("year_level", "growth", "surprise_3d", "missed_1w", "missed_4w", "size", "level_days"),
    *(f"surprise -{day}" for day in range(DAYS_SURPRISED)),
)
OF_WEEKDAY = ("weeks_mean", "weeks_spread", "weeks_least", "weeks_most")
OF_DATE = ("last_year -1", "last_year_known -1", "last_year +1", "last_year_known +1")


def predictor(panel: Panel, levels: tuple[float, ...], rows: int, rounds: int, changes: Mapping[str, Any]) -> Predictor:
    """Trained on the days before the last `baseline.HELD_OUT` of a panel, which stop it; `rows` are those of all steps
    that it learns from at most, `changes` of the
    baseline's parameters."""
    known = train.constants(panel, panel.history - baseline.HELD_OUT)
    columns = _columns(panel)
    origins = panel.history - panel.horizon - LEAST_BEFORE
    made = _made(panel.at(panel.cutoff - timedelta(days=panel.horizon)), known, origins)
    last = panel.history - panel.horizon - origins + np.arange(origins)  # an origin's last known day
    log = _log_counts(panel)
    random, parameters = np.random.default_rng(0), {**baseline.PARAMETERS, **changes}
    boosters, errors, held_out = [], [], []
    for step in range(panel.horizon):
        actual = log[:, last + 1 + step] - made.level  # (depots, origins)
        is_known, late = (
            np.isfinite(actual),
            np.broadcast_to(last + 1 + step >= panel.history - baseline.HELD_OUT, actual.shape),
        )
        learned, stopping = np.flatnonzero(is_known & ~late), np.flatnonzero(is_known & late)
        if len(learned) > rows // panel.horizon:
            learned = np.sort(random.choice(learned, rows // panel.horizon, replace=False))
        x, target = made.of_step(step)[:, columns], actual.ravel()
        data = lightgbm.Dataset(x[learned], target[learned], params=parameters)
        stop = data.create_valid(x[stopping], target[stopping])
        patience = lightgbm.early_stopping(baseline.PATIENCE, verbose=False)
        boosters.append(lightgbm.train(parameters, data, rounds, valid_sets=[stop], callbacks=[patience]))
        errors.append(target[stopping] - boosters[-1].predict(x[stopping]))
        depot = stopping // origins
        held_out.append(Rows(depot, depot, depot))
    spread = baseline._spread(errors, held_out, len(panel.depot_ids), levels)
    return partial(_predict, known=known, columns=columns, boosters=boosters, spread=spread, levels=levels)


def _predict(
    panel: Panel,
    *,
    known: Mapping[str, Array],
    columns: NDArray[np.intp],
    boosters: Sequence[Any],
    spread: Doubles,
    levels: tuple[float, ...],
) -> Forecast:
    made = _made(panel, known, 1)
    point = [booster.predict(made.of_step(step)[:, columns]) for step, booster in enumerate(boosters)]
    median = np.where(panel.cold[:, None], np.nan, np.stack(point, axis=1) + made.level)
    return complete(panel, levels, np.expm1(median[:, :, None] + spread))


@dataclass(frozen=True)
class _Made:
    """What trees read of a panel's last origins, and the level that each knows."""

    days: Floats  # (depots, origins, horizon, inputs)
    now: Floats  # (depots, origins, inputs): what is the same on all days ahead
    level: Floats  # (depots, origins)

    def of_step(self, step: int) -> Floats:
        """(depots · origins, inputs)"""
        both = np.concatenate([self.days[:, :, step], self.now], axis=-1)
        return both.reshape(-1, both.shape[-1])


def _columns(panel: Panel) -> NDArray[np.intp]:
    """Places of the inputs that do not name the date."""
    names = features.decoder_inputs(panel.encoding.covariates, panel.calendar_names)
    further = width(len(panel.encoding.covariates), HOLIDAYS) + LAGS + panel.statics.shape[1]
    of_dates = np.array([name.startswith(DATES) for name in names] + [False] * further)
    return np.flatnonzero(~of_dates)


def _made(panel: Panel, known: Mapping[str, Array], origins: int) -> _Made:
    window = Window(**{name: jnp.asarray(x) for name, x in panel.window(LOOKBACK + origins - 1).items()})
    depots, days = window.demand.shape
    most = max(1, MOST_CELLS // (days * (special_days.MOST_BACK - special_days.LEAST_BACK + days)))
    parts = []
    for first in range(0, depots, most):
        rows = np.minimum(np.arange(first, first + min(most, depots)), depots - 1)
        part = jax.tree.map(lambda x, rows=rows: x[rows], window)
        made = _compiled(part, known, origins=origins, horizon=panel.horizon)
        parts.append([np.asarray(x)[: min(most, depots - first)] for x in made])
    of_days, level = (np.concatenate(x) for x in zip(*parts, strict=True))
    place = panel.history - origins + np.arange(origins)
    log = np.nan_to_num(_log_counts(panel))[:, np.maximum(place[:, None] - np.arange(LAGS), 0)]
    is_known = np.isfinite(_log_counts(panel))[:, np.maximum(place[:, None] - np.arange(LAGS), 0)]
    lags = np.where(is_known, np.clip(log - level[..., None], -FAR, FAR), 0)
    statics = np.broadcast_to(panel.statics[:, None], (depots, origins, panel.statics.shape[1]))
    return _Made(of_days, np.concatenate([lags, statics], axis=-1).astype(np.float32), level)


def _log_counts(panel: Panel) -> Floats:
    """(depots, history); NaN where a day is not known or the depot was closed."""
    log: Floats = np.log1p(np.where(panel.open[:, : panel.history], panel.demand, np.nan)).astype(np.float32)
    return log


@partial(jax.jit, static_argnames=("origins", "horizon"))
def _compiled(window: Window, known: Mapping[str, Array], *, origins: int, horizon: int) -> tuple[Array, Array]:
    """Decoder's and further inputs (depots, origins, horizon, …), and the level (depots, origins)."""
    made: Features = features.make(window, known, scan=LAGS, origins=origins, horizon=horizon)
    days = window.demand.shape[1]
    usable = jnp.isfinite(window.demand) & (window.open[:, :days] > 0)
    observed = usable.astype(jnp.float32)
    log = jnp.where(usable, jnp.log1p(jnp.where(usable, window.demand, 0.0)), 0.0)
    near = window.calendar[:, :days, -1] > 0
    plain, surprise, surprising, _ = special_days.surprises(log, observed, near)
    level = _level(plain, observed, known["mean"])
    series = Series(log, plain, observed, surprise, surprising, level, (level - known["mean"]) / known["spread"])
    holidays = window.calendar[..., -1 - HOLIDAYS : -1]
    ahead = jnp.concatenate([window.open[..., None], holidays, window.covariates], axis=-1)
    # The anchor is the one that the decoder is told of, before holidays are added to it.
    anchor = made.decoder[..., 2 * WEEKS] + made.level[..., None]
    more = make(series, ahead, anchor, known["yearly"], Origins(days - origins, origins, 1, horizon))
    return jnp.concatenate([made.decoder, more], axis=-1), made.level


def _level(plain: Array, observed: Array, mean: Array) -> Array:
    """The local level of each day, as `features` has it: of four weeks, else of a year, else of all depots."""
    count, year_count = trailing_sum(observed, 7 * WEEKS), trailing_sum(observed, YEAR)
    recent = trailing_sum(plain, 7 * WEEKS) / jnp.maximum(count, 1.0)
    year = trailing_sum(plain, YEAR) / jnp.maximum(year_count, 1.0)
    return jnp.where(count > 0, recent, jnp.where(year_count > 0, year, mean))


class Series(NamedTuple):
    """What `features` knows of each day of the history, (depots, days)."""

    log: Array
    plain: Array
    observed: Array
    surprise: Array
    surprising: Array
    level: Array
    size: Array  # of the level, in spreads of all log counts


class Origins(NamedTuple):
    """Where origins lie: the first one's day, how many there are, the days between them, and the days ahead."""

    first: int
    number: int
    stride: int
    horizon: int

    def ahead(self, x: Array) -> Array:
        """(depots, origins, horizon, …) of an array whose first day is the one after the first origin."""
        return ahead_of(x, -1, self.number, self.horizon, self.stride)

    def ago(self, x: Array, days: int, end: int) -> Array:
        """What x was so many days before each of the days from the one after the first origin until before `end`."""
        return between(x, self.first + 1 - days, end - days)


def make(
    series: Series, known_ahead: Array, anchor: Float[Array, "depots origins horizon"], yearly: Array, origins: Origins
) -> Float[Array, "depots origins horizon further"]:
    """The further inputs; `known_ahead` (depots, days and horizon, …) is open, holidays, covariates."""
    now = _up_to(series, yearly)[:, origins.first :: origins.stride, None]
    return jnp.concatenate(
        [
            jnp.broadcast_to(now, (*anchor.shape, now.shape[-1])),
            _same_weekdays(series, anchor, origins),
            _a_year_ago(series, yearly, origins),
            _around(known_ahead, origins),
        ],
        axis=-1,
    )


def width(covariates: int, holidays: int) -> int:
    """How many inputs there are."""
    return len(OF_ORIGIN) + len(OF_WEEKDAY) + len(OF_DATE) + len(NEAR) * (1 + holidays + covariates)


def _up_to(series: Series, yearly: Array) -> Array:
    """What is known on each day of the days up to it, (depots, days, …)."""
    level = series.level
    counts, sums, known, misses = (
        trailing_sum(x, 7) for x in (series.observed, series.plain, series.surprising, jnp.abs(series.surprise))
    )

    def over(x: Array, of: Array, weeks: int) -> tuple[Array, Array]:
        return trailing_sum(x, weeks, every=7), trailing_sum(of, weeks, every=7)

    def against_level(weeks: int) -> Array:
        total, count = over(sums, counts, weeks)
        return _near(total / jnp.maximum(count, 1.0) - level) * (count > 0).astype(jnp.float32)

    def missed(weeks: int) -> Array:
        total, count = over(misses, known, weeks)
        return total / jnp.maximum(count, 1.0)

    month = trailing_sum(counts, WEEKS, every=7)
    then_known = (shift(month, YEAR) > 0).astype(jnp.float32)
    growth = yearly * then_known * _near(level - shift(level, YEAR))
    three = trailing_sum(series.surprise, 3) / jnp.maximum(trailing_sum(series.surprising, 3), 1.0)
    parts = [*map(against_level, MEANS), yearly * against_level(YEAR // 7), growth, three, missed(1), missed(WEEKS)]
    parts += [series.size, month / (7 * WEEKS)]
    parts += [shift(series.surprise, day) for day in range(DAYS_SURPRISED)]
    return jnp.stack(parts, axis=-1)


def _same_weekdays(series: Series, anchor: Array, origins: Origins) -> Array:
    """Mean, spread, least and most of the last `MORE_WEEKS` same weekdays that are known, against the anchor."""
    end = series.log.shape[1] + origins.horizon
    by_week = []
    for skipped in range(0, origins.horizon, 7):
        values, known = (
            jnp.stack([origins.ago(x, skipped + 7 * week, end) for week in range(1, MORE_WEEKS + 1)], axis=-1)
            for x in (series.plain, series.observed)
        )
        count = jnp.maximum(known.sum(axis=-1), 1.0)
        mean = values.sum(axis=-1) / count
        spread = (jnp.abs(values - mean[..., None]) * known).sum(axis=-1) / count
        least = jnp.where(known > 0, values, LARGEST).min(axis=-1)
        most = jnp.where(known > 0, values, -LARGEST).max(axis=-1)
        of_day = jnp.stack([mean, least, most, spread, known.max(axis=-1)], axis=-1)
        days = min(7, origins.horizon - skipped)
        by_week.append(ahead_of(of_day, skipped - 1, origins.number, days, origins.stride))
    of_days = by_week[0] if len(by_week) == 1 else jnp.concatenate(by_week, axis=2)
    mean, least, most = (_near(of_days[..., i] - anchor) * of_days[..., 4] for i in range(3))
    return jnp.stack([mean, of_days[..., 3], least, most], axis=-1)


def _a_year_ago(series: Series, yearly: Array, origins: Origins) -> Array:
    """The days beside the same weekday of a year ago, one of which has the same date, against the level of then."""
    end = series.log.shape[1] + origins.horizon
    then = origins.ago(series.level, YEAR + 7, end)
    parts = []
    for days in (YEAR + 1, YEAR - 1):
        known = yearly * origins.ago(series.observed, days, end)
        parts += [_near(origins.ago(series.log, days, end) - then) * known, known]
    return origins.ahead(jnp.stack(parts, axis=-1))


def _around(known_ahead: Array, origins: Origins) -> Array:
    """What is known of the days around each one; zero beyond the horizon, of which no origin knows."""
    end = known_ahead.shape[1]
    today = origins.ahead(origins.ago(known_ahead, 0, end))
    parts = []
    for near in NEAR:
        if near < 0:
            parts.append(origins.ahead(origins.ago(known_ahead, -near, end)))
            continue
        left = min(near, origins.horizon)
        parts.append(jnp.pad(today[:, :, left:], ((0, 0), (0, 0), (0, left), (0, 0))))
    return jnp.concatenate(parts, axis=-1)


def _near(x: Array) -> Array:
    return jnp.clip(x, -FAR, FAR)
