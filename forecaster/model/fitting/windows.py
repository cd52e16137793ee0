"""Windows of random depots that end on random days: what one gradient step learns from.

The panel lies on the device once, as raw counts and covariates, the calendar once a group of depots; windows are cut
from it inside the compiled step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from forecaster.core.panel import Panel
from forecaster.model.network.features import LEAST_BACK, LOOKBACK, Window

DAYS = 56  # of which the days on the device are a multiple, so that two months of nights share a program
MOST_GAPS = 0.4  # share of a crop's days that are hidden at random, at most: whole ones are learned by heart
HIDE = 0.15  # share of crops that begin as if the depot had opened within them, so that new depots are no surprise
SHIFT = 0.03  # share of crops in which demand moves to another level for good, as when a large customer leaves
FAR = 1.0  # how far, as a standard deviation in log counts; small shifts happen by themselves
LATELY = 60  # days up to the first origin, on one of which it moves


class Data(NamedTuple):
    """The panel on the device, with `LOOKBACK` unknown days before its first, and some after its last."""

    demand: Array  # (depots, days), NaN = not known
    open: Array  # (depots, days + horizon), bool
    covariates: Array
    calendar: Array  # (groups, …)
    group: Array
    statics: Array


@dataclass(frozen=True)
class Cut:
    """The sizes of a crop."""

    horizon: int
    origins: int  # days from which a crop forecasts
    stride: int  # days between them
    scan: int  # days that the encoder reads
    whole: bool = False  # crops are whole histories, of one depot after the other, as they are

    @property
    def span(self) -> int:
        """Days from the first origin to the last."""
        return self.stride * (self.origins - 1)

    @property
    def length(self) -> int:
        """Days of a window up to its last origin."""
        return LOOKBACK + self.span


def on_device(panel: Panel, depots: int, place: Callable[[NDArray[Any]], Array] = jnp.asarray) -> Data:
    """The panel as `depots` depots, those beyond its own unknown, over a round number of days; `place` puts an array
    with the depots as its first axis on the devices."""
    ahead = -panel.history % DAYS

    def days(x: NDArray[Any], value: Any) -> NDArray[Any]:
        return np.pad(x, [(0, 0), (LOOKBACK, ahead)] + [(0, 0)] * (x.ndim - 2), constant_values=value)

    def padded(x: NDArray[Any], value: Any) -> Array:
        return place(np.pad(x, [(0, depots - len(x))] + [(0, 0)] * (x.ndim - 1), constant_values=value))

    return Data(
        padded(days(panel.demand, np.nan), np.nan),
        padded(days(panel.open, True), True),
        padded(days(panel.covariates, 0), 0),
        jnp.asarray(days(panel.calendar, 0)),
        padded(panel.calendar_group, 0),
        padded(panel.statics, 0),
    )


def cut(data: Data, depots: Array, last: Array, days_back: int, horizon: int) -> tuple[Window, Array]:
    """Windows of `days_back` days that end on day `last` (an index into the panel's days), and the demand of these
    and the horizon's days."""

    def one(depot: Array, end: Array) -> tuple[Array, Array, Array, Array]:
        start = end + 1 + LOOKBACK - days_back

        def take(x: Array, row: Array) -> Array:
            return lax.dynamic_slice_in_dim(x[row], start, days_back + horizon, axis=0)

        return (
            take(data.demand, depot),
            take(data.open, depot),
            take(data.covariates, depot),
            take(data.calendar, data.group[depot]),
        )

    demand, open_, covariates, calendar = jax.vmap(one)(depots, last)
    return Window(demand[:, :days_back], open_.astype(jnp.float32), covariates, calendar, data.statics[depots]), demand


class Places(NamedTuple):
    """Where a batch's crops lie in the panel; each array is (batch,)."""

    depots: Array
    last: Array  # the day of the crop's last origin
    opened: Array  # days at the crop's beginning that are hidden
    blur: Array  # (batch, features): what is added to the calendar, the same on all days of a crop
    gaps: Array  # the share of days that are hidden
    moved: Array  # the crop's day on which demand moves to another level
    shift: Array  # how far, in log counts
    key: Array  # which days are hidden


def draw(key: Array, sizes: Cut, *, batch: int, depots: Array, days: Array, blur: Array) -> Places:
    """Places of crops of the first `depots` depots within the first `days` days, some with their beginning hidden,
    a few with demand that moves to another level before the first origin.

    `blur` (features,) is how far each feature of the calendar is off, as a standard deviation.
    """
    pick, when, hide, where, off, gap, which, move, since, far = jax.random.split(key, 10)
    if sizes.whole:
        whose = (jax.random.randint(pick, (), 0, depots) + jnp.arange(batch)) % depots
        nothing = jnp.zeros(batch, jnp.int32)
        last = jnp.broadcast_to(days - sizes.horizon - 1, (batch,))
        none = jnp.zeros(batch)
        return Places(
            whose, last, nothing, jnp.zeros((batch, len(blur))), none, nothing, none, jax.random.split(which, batch)
        )
    whose = jax.random.randint(pick, (batch,), 0, depots)
    last = jax.random.randint(when, (batch,), sizes.span, days - sizes.horizon)
    opened = jax.random.randint(where, (batch,), sizes.length - sizes.scan, sizes.length - 1)
    opened = jnp.where(jax.random.bernoulli(hide, HIDE, (batch,)), opened, 0)
    blurred = blur[None] * jax.random.normal(off, (batch, len(blur)))
    gaps = MOST_GAPS * jax.random.uniform(gap, (batch,))
    moved = sizes.length - sizes.span - jax.random.randint(since, (batch,), 1, LATELY + 1)
    moves = jax.random.bernoulli(move, SHIFT, (batch,))
    shift = jnp.where(moves, FAR * jax.random.normal(far, (batch,)), 0.0)
    return Places(whose, last, opened, blurred, gaps, moved, shift, jax.random.split(which, batch))


def crop(data: Data, places: Places, sizes: Cut) -> tuple[Window, Array]:
    """The windows of a batch, and the demand of their days and of the horizon's."""
    window, demand = cut(data, places.depots, places.last, sizes.length, sizes.horizon)
    since = jnp.arange(demand.shape[1])[None] >= places.moved[:, None]
    demand = demand * jnp.where(since, jnp.exp(places.shift)[:, None], 1.0)
    hidden = jnp.arange(sizes.length)[None] < places.opened[:, None]
    gaps = jax.vmap(lambda key, share: jax.random.bernoulli(key, share, (sizes.length,)))(places.key, places.gaps)
    # Not of the counterparts: a holiday that is unknown half of the time teaches that those of last year tell little.
    hidden |= gaps & (jnp.arange(sizes.length)[None] >= sizes.length - LEAST_BACK + sizes.horizon)
    calendar = window.calendar + places.blur[:, None]
    seen = jnp.where(hidden, jnp.nan, demand[:, : sizes.length])
    return window._replace(demand=seen, calendar=calendar), demand
