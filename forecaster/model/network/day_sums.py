"""Shifts and sums along the days of a window, inside the compiled graph; days are the second axis.

They consist only of shifts, products and sums, which are exact and supported by the exporter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

WEEKS = 4  # same weekdays in the seasonal anchor
YEAR = 364  # days


def trailing_sum(
    x: Float[Array, "depots days *more"], length: int, every: int = 1
) -> Float[Array, "depots days *more"]:
    """Sum `length` days up to each day, spaced by `every` days. By doubling, a year takes eight
    shifts; shifts are exact and can be exported."""
    total, summed, power, block = None, 0, 1, x
    while power <= length:
        if length & power:
            shifted = shift(block, every * summed)
            total = shifted if total is None else total + shifted
            summed += power
        power *= 2
        if power <= length:
            block = block + shift(block, every * power // 2)
    assert total is not None  # because a length is at least one
    return total


def shift(x: Float[Array, "depots days *more"], days: int) -> Float[Array, "depots days *more"]:
    """Shift x by `days`; zero before the window."""
    return between(x, -days, x.shape[1] - days)


def between(x: Array, first: int, end: int) -> Array:
    """Return the days from `first` until before `end`; zero outside of the window."""
    days = x.shape[1]
    inside = x[:, max(first, 0) : max(min(end, days), 0)]
    before = min(max(-first, 0), end - first)
    after = end - first - before - inside.shape[1]
    if before == after == 0:
        return inside
    return jnp.pad(inside, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))


def ahead_of(x: Array, first: int, origins: int, horizon: int, stride: int) -> Array:
    """Map (depots, days, …) to (depots, origins, horizon, …): the value on each forecast day of
    each origin."""
    if origins == 1:
        return x[:, None, first + 1 : first + 1 + horizon]
    span = stride * (origins - 1) + 1
    return jnp.stack([x[:, first + h : first + h + span : stride] for h in range(1, horizon + 1)], axis=2)


class Origins(NamedTuple):
    """Positions of origins: day of the first one, their number, the days between them, and the
    horizon."""

    first: int
    number: int
    stride: int
    horizon: int

    @property
    def end(self) -> int:
        """Day after the last forecast one."""
        return self.first + self.stride * (self.number - 1) + 1 + self.horizon

    def ahead(self, x: Array) -> Array:
        """Map an array that begins on the day after the first origin to (depots, origins, horizon,
        …)."""
        return ahead_of(x, -1, self.number, self.horizon, self.stride)

    def ago(self, x: Array, days: int) -> Array:
        """Values of x `days` before each possible forecast day, which are those after the first
        origin."""
        return between(x, self.first + 1 - days, self.end - days)

    def weeks_ahead(self, of_week: Callable[[int], Array]) -> Array:
        """Combine one array per week ahead into (depots, origins, horizon, …); `of_week` takes the
        number of days between the origin and that week."""
        by_week = [
            ahead_of(of_week(skipped), skipped - 1, self.number, min(7, self.horizon - skipped), self.stride)
            for skipped in range(0, self.horizon, 7)
        ]
        return by_week[0] if len(by_week) == 1 else jnp.concatenate(by_week, axis=2)
