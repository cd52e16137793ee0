"""GRU layer, the recurrence over days, with its input projection outside of the scan and a
hand-written gradient.

The cell is that of `flax.nnx.GRUCell` (Cho et al. 2014, arXiv:1406.1078), with its parameters:

    r, z = σ(x W_ir + b_r + h W_hr), σ(x W_iz + b_z + h W_hz)
    n    = tanh(x W_in + b_n + r · (h W_hn))
    h'   = (1 − z) · n + z · h

Depots are the batch axis of every step, as `vmap` of a per-depot scan would compute it; written
out, the weight gradient is one product over all days and depots instead of one small product per
depot.

Four properties of XLA on a CPU shape this code:
- It runs a fused kernel with more than one tanh element by element, several times slower. Each gate must therefore
  leave its kernel: as a value kept for the gradient, or as one that the scan carries on.
- The same holds for a kernel that ends in a concatenation. Gates are therefore concatenated once for all days.
- A product over two axes at once is several times slower than one of matrices.
- A pass over an array of all days costs as much as a small product. Values for one day are computed within that day.

If the machine has a C++ compiler, `gru_cpu` does the same for float32 in half the time.

Products accumulate in float32 even for bfloat16 inputs, and so do the state and its gradient from
day to day.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Float

from forecaster.model.network import gru_cpu


def layer(
    kernel_i: Float[Array, "inputs gates"],
    bias_i: Float[Array, " gates"],
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
    always: Float[Array, "depots unchanging"] | None = None,
) -> Float[Array, "days depots hidden"]:
    """Return the states of one GRU layer after each day, from a zero state; gates = 3 · hidden in
    the order r, z, n.

    `always` holds the static inputs of a depot; the last rows of the kernel are for them, after
    those for `x`. Parameters are cast to the precision of `x`.
    """
    kernel, of_depot = split(kernel_i, bias_i, x.shape[-1], always)
    bias = jnp.broadcast_to(of_depot, (x.shape[1], bias_i.shape[-1]))
    return recur(kernel.astype(x.dtype), bias.astype(x.dtype), kernel_h.astype(x.dtype), x)


def split(
    kernel: Float[Array, "inputs out"], bias: Float[Array, " out"], width: int, always: Float[Array, "depots _"] | None
) -> tuple[Float[Array, "width out"], Float[Array, "#depots out"]]:
    """Split the kernel into one for a depot's daily inputs and a bias for each depot: static inputs
    are multiplied once."""
    return kernel[:width], bias[None] if always is None else bias[None] + always @ kernel[width:]


@jax.custom_vjp
def recur(
    kernel_i: Float[Array, "features gates"],
    bias_i: Float[Array, "depots gates"],
    kernel_h: Float[Array, "hidden gates"],
    x: Float[Array, "days depots features"],
) -> Float[Array, "days depots hidden"]:
    """Compute `layer` without a gradient: each day first finishes the state of the previous one.

    Gates thus pass from day to day in the carry, and none of them shares a kernel with another.
    """
    if gru_cpu.serves(kernel_h.shape[0], x.dtype):
        return gru_cpu.states(kernel_i, bias_i, kernel_h, x)

    def day(carry: tuple[Array, Array, Array], xi: Array) -> tuple[tuple[Array, Array, Array], Array]:
        h = _mixed(*carry)
        with_h = _product(h.astype(x.dtype), kernel_h)
        r_and_z = _sigmoid(xi[:, : 2 * hidden] + bias[:, : 2 * hidden] + with_h[:, : 2 * hidden])
        n = jnp.tanh(xi[:, 2 * hidden :] + bias[:, 2 * hidden :] + r_and_z[:, :hidden] * with_h[:, 2 * hidden :])
        return (h, r_and_z, n), h.astype(x.dtype)

    hidden, bias, start = kernel_h.shape[0], bias_i.astype(_wide(x)), _zeros(x, kernel_h)
    last, before = lax.scan(day, (start, jnp.concatenate([start, start], -1), start), _product(x, kernel_i))
    return jnp.concatenate([before[1:], _mixed(*last)[None].astype(x.dtype)])


def _mixed(h: Array, r_and_z: Array, n: Array) -> Array:
    return n + r_and_z[:, h.shape[1] :] * (h - n)


def _forward(kernel_i: Array, bias_i: Array, kernel_h: Array, x: Array) -> tuple[Array, tuple[Array, ...]]:
    """Return the states, and the values that the gradient needs of every day: r, z, n and m = h
    W_hn."""
    if gru_cpu.serves(kernel_h.shape[0], x.dtype):
        states, residuals = gru_cpu.forward(kernel_i, bias_i, kernel_h, x)
        return states, (kernel_i, kernel_h, x, states, residuals)

    def day(h: Array, xi: Array) -> tuple[Array, tuple[Array, ...]]:
        hr, hz, m = jnp.split(_product(h.astype(x.dtype), kernel_h), 3, axis=-1)
        xr, xz, xn = jnp.split(xi + bias_i.astype(xi.dtype), 3, axis=-1)
        r, z = _sigmoid(xr + hr), _sigmoid(xz + hz)
        n = jnp.tanh(xn + r * m)
        new = n + z * (h - n)
        return new, tuple(gate.astype(x.dtype) for gate in (new, r, z, n, m))

    _, (states, *gates) = lax.scan(day, _zeros(x, kernel_h), _product(x, kernel_i))
    return states, (kernel_i, kernel_h, x, states, *gates)


def _backward(residuals: tuple[Array, ...], gradient: Array) -> tuple[Array, Array, Array, Array]:
    kernel_i, kernel_h, x, states, *gates = residuals
    if gru_cpu.serves(kernel_h.shape[0], x.dtype):
        by_x, d_kernel_i, d_bias, d_kernel_h = gru_cpu.backward(kernel_h, x, states, gates[0], gradient)
        return d_kernel_i, d_bias, d_kernel_h, _product(by_x, kernel_i.T)
    before, wide = jnp.concatenate([jnp.zeros_like(states[:1]), states[:-1]]), _wide(x)
    to_r, to_z, to_n = jnp.split(kernel_h.T, 3)

    def day(carried: Array, inputs: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        d_state, h, r, z, n, m = (value.astype(wide) for value in inputs)
        dh = d_state + carried
        d_n = dh * (1 - z) * (1 - n * n)  # n before its tanh, and likewise r and z
        d_z = dh * (h - n) * z * (1 - z)
        d_m = d_n * r
        d_r = d_m * m * (1 - r)
        narrow = [value.astype(x.dtype) for value in (d_r, d_z, d_n, d_m)]
        back = _product(narrow[0], to_r) + _product(narrow[1], to_z) + _product(narrow[3], to_n)
        return dh * z + back, tuple(narrow)

    _, (d_r, d_z, d_n, d_m) = lax.scan(day, _zeros(x, kernel_h), (gradient, before, *gates), reverse=True)
    # r and z depend on x and h alike; n depends on h through m.
    by_x, by_h = jnp.concatenate([d_r, d_z, d_n], axis=-1), jnp.concatenate([d_r, d_z, d_m], axis=-1)
    d_kernel_i, d_bias, d_kernel_h = _summed(x, by_x), by_x.sum(axis=0, dtype=wide), _summed(before, by_h)
    gradients = (value.astype(x.dtype) for value in (d_kernel_i, d_bias, d_kernel_h, _product(by_x, kernel_i.T)))
    return tuple(gradients)  # type: ignore[return-value]


recur.defvjp(_forward, _backward)


def _sigmoid(x: Array) -> Array:
    """σ(x) = ½ tanh(x / 2) + ½: on CPU, one tanh is cheaper than one exponential and one division."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


def _wide(x: Array) -> jnp.dtype:
    return x.dtype if x.dtype.itemsize >= 4 else jnp.dtype(jnp.float32)


def _zeros(x: Array, kernel_h: Array) -> Array:
    return jnp.zeros((x.shape[1], kernel_h.shape[0]), _wide(x))


def _product(x: Array, kernel: Array) -> Array:
    """Multiply x by the kernel, over the last axis of x."""
    flat = jnp.matmul(x.reshape(-1, x.shape[-1]), kernel, preferred_element_type=_wide(x))
    return flat.reshape(*x.shape[:-1], flat.shape[-1])


def _summed(x: Float[Array, "days depots a"], d: Float[Array, "days depots b"]) -> Float[Array, "a b"]:
    """Sum x ⊗ d over days and depots as one product, several times faster than a sum over two axes."""
    return jnp.matmul(x.reshape(-1, x.shape[-1]).T, d.reshape(-1, d.shape[-1]), preferred_element_type=_wide(x))
