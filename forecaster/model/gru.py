"""The recurrence: a GRU layer over days, its input projection hoisted out of the scan, its gradient written by hand.

The cell is that of `flax.nnx.GRUCell` (Cho et al. 2014, arXiv:1406.1078), whose parameters these are:

    r, z = σ(x W_ir + b_r + h W_hr), σ(x W_iz + b_z + h W_hz)
    n    = tanh(x W_in + b_n + r · (h W_hn))
    h'   = (1 − z) · n + z · h

Depots are the batch axis of every step, which is what `vmap` of a per-depot scan computes; written out, the weight
gradient is one two-dimensional product over all days and depots instead of one small product a depot.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Float


def layer(
    kernel_i: Float[Array, "features gates"],
    bias_i: Float[Array, " gates"],
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
    *,
    differentiable: bool = True,
) -> Float[Array, "days depots hidden"]:
    """The states of one GRU layer after each day, from a zero state; gates = 3 · hidden in the order r, z, n.

    `differentiable=False` leaves the gradient rule away, for the exporter.
    """
    days, depots, features = x.shape
    projected = (x.reshape(days * depots, features) @ kernel_i + bias_i[None, :]).reshape(days, depots, -1)
    return recur(projected, kernel_h) if differentiable else _states(projected, kernel_h)[0]


@jax.custom_vjp
def recur(
    projected: Float[Array, "days depots gates"], kernel_h: Float[Array, "hidden gates"]
) -> Float[Array, "days depots hidden"]:
    """The sequential part of a GRU layer: states from projected inputs."""
    return _states(projected, kernel_h)[0]


def _gates(xi: Array, kernel_h: Array, h: Array) -> tuple[Array, Array, Array, Array]:
    xr, xz, xn = jnp.split(xi, 3, axis=-1)
    hr, hz, m = jnp.split(h @ kernel_h, 3, axis=-1)
    r, z = _sigmoid(xr + hr), _sigmoid(xz + hz)
    return r, z, jnp.tanh(xn + r * m), m


def _sigmoid(x: Array) -> Array:
    """σ(x) = ½ tanh(x / 2) + ½: on CPU one tanh is cheaper than one exponential and one division."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


def _states(projected: Array, kernel_h: Array, keep: bool = False) -> tuple[Array, tuple[Array, ...]]:
    def day(h: Array, xi: Array) -> tuple[Array, tuple[Array, ...]]:
        r, z, n, m = _gates(xi, kernel_h, h)
        new = n + z * (h - n)
        return new, ((new, r, z, n, m) if keep else (new,))

    start = jnp.zeros((projected.shape[1], kernel_h.shape[0]), projected.dtype)
    _, (states, *kept) = lax.scan(day, start, projected)
    return states, tuple(kept)


def _forward(projected: Array, kernel_h: Array) -> tuple[Array, tuple[Array, ...]]:
    states, kept = _states(projected, kernel_h, keep=True)
    return states, (states, *kept, kernel_h)


def _backward(residuals: tuple[Array, ...], gradient: Array) -> tuple[Array, Array]:
    states, r, z, n, m, kernel_h = residuals
    before = jnp.concatenate([jnp.zeros_like(states[:1]), states[:-1]])
    # What multiplies dh does not depend on it, so it is made for all days at once, before the scan.
    to_n = (1 - z) * (1 - n * n)
    to_z = (before - n) * z * (1 - z)
    to_r = to_n * m * r * (1 - r)
    to_m = to_n * r
    transposed = kernel_h.T

    def day(carried: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        g, a_r, a_z, a_m, z_t = inputs
        dh = g + carried
        return dh * z_t + jnp.concatenate([dh * a_r, dh * a_z, dh * a_m], axis=-1) @ transposed, dh

    _, dh = lax.scan(day, jnp.zeros_like(states[0]), (gradient, to_r, to_z, to_m, z), reverse=True)
    d_r, d_z = dh * to_r, dh * to_z
    d_hidden = jnp.concatenate([d_r, d_z, dh * to_m], axis=-1)
    hidden = kernel_h.shape[0]
    d_kernel = before.reshape(-1, hidden).T @ d_hidden.reshape(-1, 3 * hidden)
    return jnp.concatenate([d_r, d_z, dh * to_n], axis=-1), d_kernel


recur.defvjp(_forward, _backward)
