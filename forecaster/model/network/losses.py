"""Huber quantile loss on log counts.

Quantiles pass through a monotone map, so quantiles of log counts are the logs of quantiles of
counts, and the loss may use either; on logs, a busy depot weighs no more than a quiet one, and the
Huber form keeps a spike day from exploding the gradient. Source: Koenker & Bassett 1978 (pinball);
Dabney et al. 2018, arXiv:1710.10044, eq. 10 (Huber).
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

DELTA = 0.02  # log counts; below it the loss is quadratic, which only smooths the kink at zero


def huber_quantile(
    forecast: Float[Array, "*shape levels"],
    actual: Float[Array, "*shape"],
    observed: Bool[Array, "*shape"],
    levels: Float[Array, " levels"],
) -> Float[Array, ""]:
    """Mean Huber pinball loss over the known actuals and all levels; 0 if nothing is known."""
    error = jnp.where(observed, actual, 0.0)[..., None] - forecast
    size = jnp.abs(error)
    huber = jnp.where(size <= DELTA, 0.5 * error * error / DELTA, size - 0.5 * DELTA)
    shape = (1,) * (error.ndim - 1) + (-1,)
    tau = levels.reshape(shape)
    loss = jnp.where(error >= 0, tau, 1 - tau) * huber
    weight = observed.astype(forecast.dtype)[..., None]
    return (loss * weight).sum() / (jnp.maximum(weight.sum(), 1.0) * levels.shape[0])
