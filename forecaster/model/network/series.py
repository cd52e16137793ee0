"""Log counts of each day of the history, and the levels relative to which they are measured;
(depots, days)."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from forecaster.model.network.day_sums import YEAR, trailing_sum

LEVEL = 28  # days of the local level


class Levels(NamedTuple):
    """Mean log counts up to each day, and the number of known days in each mean."""

    level: Array  # of four weeks, else of a year, else of all depots
    days: Array
    year: Array
    year_days: Array
    week: Array  # of the last week, else the level
    week_days: Array
    week_sum: Array


class Series(NamedTuple):
    """Known values of each day of the history."""

    log: Array
    plain: Array  # without the effects of holidays
    observed: Array
    surprise: Array
    surprising: Array  # where the surprise is known
    usual: Array  # its usual absolute size
    level: Array


def log_counts(demand: Array, open_: Array) -> tuple[Array, Array]:
    """Return log counts, 0 on days that are unknown or closed, and the mask of the other days."""
    usable = jnp.isfinite(demand) & (open_[:, : demand.shape[1]] > 0)
    observed = usable.astype(jnp.float32)
    return jnp.where(usable, jnp.log1p(jnp.where(usable, demand, 0.0)), 0.0), observed


def week_mean(x: Array, known_days: Array) -> Array:
    """Mean of x over the known days of the week up to each day, 0 without any."""
    return trailing_sum(x, 7) / jnp.maximum(trailing_sum(known_days, 7), 1.0)


def levels(log: Array, plain: Array, observed: Array, mean: Float[Array, ""]) -> Levels:
    """Local levels, relative to which other values are measured, so that large and small depots
    share one network.

    They are sums of whole weeks, which are already available.
    """
    week_days, week_sum, plain_sum = (trailing_sum(x, 7) for x in (observed, log, plain))
    days, year_days = (trailing_sum(week_days, length // 7, every=7) for length in (LEVEL, YEAR))
    recent = trailing_sum(plain_sum, LEVEL // 7, every=7) / jnp.maximum(days, 1.0)
    year = trailing_sum(plain_sum, YEAR // 7, every=7) / jnp.maximum(year_days, 1.0)
    level = jnp.where(days > 0, recent, jnp.where(year_days > 0, year, mean))
    week = jnp.where(week_days > 0, week_sum / jnp.maximum(week_days, 1.0), level)
    return Levels(level, days, year, year_days, week, week_days, week_sum)
