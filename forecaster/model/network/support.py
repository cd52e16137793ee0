"""Bound of a depot's quantiles, from the largest count of its known days.

Distances in log counts explode if days of zero and of thousands alternate, or if a site was shut
every other week: a step from 0 to 15,000 is a factor of 15,001, and the same factor again is no
realistic demand. Of the counts of eight real datasets, one in 10,000 exceeds this bound.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from forecaster.model.network.features import Window
from forecaster.model.network.special_days import MOST_SPECIAL

# times one plus the largest count, in the first week ahead; once more in each further week
TIMES_MOST = 2.0
ENOUGH_DAYS = 28  # known days; the history of a depot with fewer sets no bound
# log counts by which a covariate that a depot has never had may raise the bound
MOST_UNSEEN = MOST_SPECIAL
LARGEST_LOG = 20.0  # log counts, above any


def bound(window: Window, horizon: int) -> Float[Array, "depots horizon"]:
    """Largest log count of each day's quantiles; `LARGEST_LOG` for a depot with too few known days.

    A covariate outside its range on the depot's known days, as its first event of a kind, may have
    an effect learned from other depots: the bound of such a day is higher.
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
    """Return 1 on days ahead on which some covariate lies outside its range on known days, (depots,
    horizon)."""
    days = window.demand.shape[1]
    before, future = window.covariates[:, :days], window.covariates[:, -horizon:]
    least = jnp.where(is_known[..., None], before, jnp.inf).min(axis=1)
    most = jnp.where(is_known[..., None], before, -jnp.inf).max(axis=1)
    outside = (future < least[:, None]) | (future > most[:, None])
    return outside.astype(jnp.float32).max(axis=-1)
