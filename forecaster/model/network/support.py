"""Bound of a depot's quantiles by the largest count that its days know: what lies far beyond it is
not promised.

Distances in log counts explode where days of nothing and of thousands take turns, or where a site
was shut every other week: a step from 0 to 15,000 is a factor of 15,001, and the same again is no
orders that anybody has. Of the counts of eight real datasets one in 10,000 lies beyond this bound.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from forecaster.model.network.features import Window
from forecaster.model.network.special_days import MOST_SPECIAL

# times one more than the largest count, in the first week ahead; once more in each further week
TIMES_MOST = 2.0
ENOUGH_DAYS = 28  # days that a depot must know, or its history supports nothing and bounds nothing
# log counts by which a covariate that a depot has never had may go beyond
MOST_UNSEEN = MOST_SPECIAL
LARGEST_LOG = 20.0  # log counts, above any


def bound(window: Window, horizon: int) -> Float[Array, "depots horizon"]:
    """The largest log count that each day's quantiles may say; `LARGEST_LOG` of a depot that knows
    too few days.

    A covariate that lies outside of what it was on the days that the depot knows, as its first
    event of a kind, may be what other depots have taught: on such a day the bound lies higher.
    """
    days = window.demand.shape[1]
    is_known = jnp.isfinite(window.demand) & (window.open[:, :days] > 0)
    log = jnp.where(is_known, jnp.log1p(jnp.where(is_known, window.demand, 0.0)), 0.0)
    growth = np.log(TIMES_MOST + np.arange(horizon) // 7)
    highest = log.max(axis=1)[:, None] + jnp.asarray(growth, jnp.float32)[None]
    if window.covariates.shape[-1]:
        highest = highest + MOST_UNSEEN * _unseen(window, is_known, horizon)
    enough = is_known.astype(jnp.float32).sum(axis=1) >= ENOUGH_DAYS
    return jnp.where(enough[:, None], highest, LARGEST_LOG)


def _unseen(window: Window, is_known: Array, horizon: int) -> Array:
    """1 on days ahead on which some covariate lies below or above all that it was on known days,
    (depots, horizon)."""
    days = window.demand.shape[1]
    before, ahead = window.covariates[:, :days], window.covariates[:, -horizon:]
    least = jnp.where(is_known[..., None], before, jnp.inf).min(axis=1)
    most = jnp.where(is_known[..., None], before, -jnp.inf).max(axis=1)
    outside = (ahead < least[:, None]) | (ahead > most[:, None])
    return outside.astype(jnp.float32).max(axis=-1)
