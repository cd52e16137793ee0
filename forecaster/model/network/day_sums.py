"""Shifts and sums along the days of a window, inside the compiled graph; days are the second axis.

Made of shifts, products and sums alone, which are exact and which an exporter knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

WEEKS = 4  # same weekdays that make the seasonal anchor
YEAR = 364  # days


def trailing_sum(
    x: Float[Array, "depots days *more"], length: int, every: int = 1
) -> Float[Array, "depots days *more"]:
    """Sum over `length` days, each `every` days before the next, up to each day: by doubling, so
    that a year takes eight shifts, and made of shifts alone, which are exact and export.
    """
    total, summed, power, block = None, 0, 1, x
    while power <= length:
        if length & power:
            shifted = shift(block, every * summed)
            total = shifted if total is None else total + shifted
            summed += power
        power *= 2
        if power <= length:
            block = block + shift(block, every * power // 2)
    assert total is not None  # as a length is one at least
    return total


def shift(x: Float[Array, "depots days *more"], days: int) -> Float[Array, "depots days *more"]:
    """x as it was `days` earlier; zero before the window."""
    return between(x, -days, x.shape[1] - days)


def between(x: Array, first: int, end: int) -> Array:
    """The days from `first` until before `end`, zero outside of the window."""
    days = x.shape[1]
    inside = x[:, max(first, 0) : max(min(end, days), 0)]
    before = min(max(-first, 0), end - first)
    after = end - first - before - inside.shape[1]
    if before == after == 0:
        return inside
    return jnp.pad(inside, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))


def ahead_of(x: Array, first: int, origins: int, horizon: int, stride: int) -> Array:
    """(depots, days, …) → (depots, origins, horizon, …): the value on each day that is forecast
    from each origin."""
    if origins == 1:
        return x[:, None, first + 1 : first + 1 + horizon]
    span = stride * (origins - 1) + 1
    return jnp.stack([x[:, first + h : first + h + span : stride] for h in range(1, horizon + 1)], axis=2)


class Origins(NamedTuple):
    """Positions of origins: the first one's day, how many there are, the days between them, and the
    days ahead."""

    first: int
    number: int
    stride: int
    horizon: int

    @property
    def end(self) -> int:
        """The day after the last that is forecast."""
        return self.first + self.stride * (self.number - 1) + 1 + self.horizon

    def ahead(self, x: Array) -> Array:
        """(depots, origins, horizon, …) of an array whose first day is the one after the first
        origin."""
        return ahead_of(x, -1, self.number, self.horizon, self.stride)

    def ago(self, x: Array, days: int) -> Array:
        """Values of x so many days before each day that may be forecast, those after the first
        origin."""
        return between(x, self.first + 1 - days, self.end - days)

    def weeks_ahead(self, of_week: Callable[[int], Array]) -> Array:
        """(depots, origins, horizon, …) of one array a week ahead, by the days that lie between it
        and the origin."""
        by_week = [
            ahead_of(of_week(skipped), skipped - 1, self.number, min(7, self.horizon - skipped), self.stride)
            for skipped in range(0, self.horizon, 7)
        ]
        return by_week[0] if len(by_week) == 1 else jnp.concatenate(by_week, axis=2)
