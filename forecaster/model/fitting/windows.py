"""Windowing: random crops of the panel (a depot, an end day), with augmentation, for one gradient
step.

The panel is stored on the device once, as raw counts and covariates, with one calendar per group of
depots; windows are cut from it inside the compiled step.
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
from forecaster.model.network.features import LOOKBACK, Window
from forecaster.model.network.special_days import LEAST_BACK

# the number of days on the device is a multiple of this, so that two months of nights share a
# program
DAYS_MULTIPLE = 56
# largest share of a crop's days that are hidden at random: complete ones are learned by heart
MOST_GAPS = 0.4
# share of crops that start as if the depot had opened within them, which teaches new depots
HIDDEN_START_SHARE = 0.15
# share of crops in which demand moves to another level for good, as when a large customer leaves,
LEVEL_SHIFT_SHARE = 0.03
# and standard deviation of the move in log counts; the data already have small shifts
LEVEL_SHIFT_SPREAD = 1.0
# days of the horizon that must lie within the validation days of an origin; later ones are used as
# far as known
SCORED_AHEAD = 7
LEVEL_SHIFT_WITHIN = 60  # days before the first origin within which demand moves


class DevicePanel(NamedTuple):
    """The panel as arrays on the device, with `LOOKBACK` unknown days before its first, and some
    after its last."""

    demand: Array  # (depots, days), NaN = not known
    open: Array  # (depots, days + horizon), bool
    covariates: Array
    calendar: Array  # (groups, …)
    group: Array
    statics: Array


@dataclass(frozen=True)
class CropSizes:
    """Static sizes of a crop."""

    horizon: int
    origins: int  # number of days from which a crop forecasts
    stride: int  # days between them
    scan: int  # days that the encoder reads
    whole: bool = False  # crops are unmodified whole histories, one depot after the other

    @property
    def span(self) -> int:
        """Days from the first origin to the last."""
        return self.stride * (self.origins - 1)

    @property
    def length(self) -> int:
        """Days of a window up to its last origin."""
        return LOOKBACK + self.span


def on_device(panel: Panel, depots: int, place: Callable[[NDArray[Any]], Array] = jnp.asarray) -> DevicePanel:
    """Put the panel on the device as `depots` depots, those beyond its own unknown, over a rounded
    number of days; `place` puts an array with the depots as its first axis on the devices."""
    days_after = -panel.history % DAYS_MULTIPLE
    unknown = np.full((len(panel.demand), max(panel.horizon - SCORED_AHEAD, 0)), np.nan, panel.demand.dtype)

    def days(x: NDArray[Any], value: Any) -> NDArray[Any]:
        return np.pad(x, [(0, 0), (LOOKBACK, days_after)] + [(0, 0)] * (x.ndim - 2), constant_values=value)

    def padded(x: NDArray[Any], value: Any) -> Array:
        return place(np.pad(x, [(0, depots - len(x))] + [(0, 0)] * (x.ndim - 1), constant_values=value))

    return DevicePanel(
        padded(days(np.concatenate([panel.demand, unknown], axis=1), np.nan), np.nan),
        padded(days(panel.open, True), True),
        padded(days(panel.covariates, 0), 0),
        jnp.asarray(days(panel.calendar, 0)),
        padded(panel.calendar_group, 0),
        padded(panel.statics, 0),
    )


def cut(panel: DevicePanel, depots: Array, last: Array, days_back: int, horizon: int) -> tuple[Window, Array]:
    """Cut windows of `days_back` days that end on day `last` (an index into the panel's days), and
    return them with the demand of their days and the horizon's."""

    def window_of(depot: Array, end: Array) -> tuple[Array, Array, Array, Array]:
        start = end + 1 + LOOKBACK - days_back

        def take(x: Array, row: Array) -> Array:
            return lax.dynamic_slice_in_dim(x[row], start, days_back + horizon, axis=0)

        return (
            take(panel.demand, depot),
            take(panel.open, depot),
            take(panel.covariates, depot),
            take(panel.calendar, panel.group[depot]),
        )

    demand, open_, covariates, calendar = jax.vmap(window_of)(depots, last)
    return Window(demand[:, :days_back], open_.astype(jnp.float32), covariates, calendar, panel.statics[depots]), demand


class CropPlaces(NamedTuple):
    """Positions of a batch's crops in the panel; each array is (batch,)."""

    depots: Array
    last: Array  # day of the crop's last origin
    opened: Array  # hidden days at the crop's beginning
    blur: Array  # (batch, features): added to the calendar, the same on all days of a crop
    gaps: Array  # share of hidden days
    moved: Array  # day of the crop on which demand moves to another level
    shift: Array  # size of the move in log counts
    key: Array  # selects the hidden days


def last_day(days: Array, horizon: int) -> Array:
    """Day before which a crop's last origin lies, of `days` training days: the origin sees its
    first week, or its whole horizon if shorter. It learns from the later days as far as allowed
    (`learnable`)."""
    return days - min(horizon, SCORED_AHEAD)


def learnable(demand: Array, last: Array, days: Array, sizes: CropSizes) -> Array:
    """Demand (batch, days) of crops that end `sizes.horizon` days after day `last`, unknown from
    day `days` on."""
    if sizes.horizon <= SCORED_AHEAD:
        return demand
    day = last[:, None] + 1 + sizes.horizon - demand.shape[1] + jnp.arange(demand.shape[1])[None]
    return jnp.where(day < days, demand, jnp.nan)


def draw(key: Array, sizes: CropSizes, *, batch: int, depots: Array, days: Array, blur: Array) -> CropPlaces:
    """Draw a batch: places of crops of the first `depots` depots within the first `days` days, some
    with a hidden beginning, a few with demand that moves to another level before the first origin.

    `blur` (features,) is the standard deviation of the error added to each feature of the calendar.
    """
    (
        depot_key,
        last_key,
        hidden_key,
        opened_key,
        blur_key,
        gaps_key,
        hidden_days_key,
        shifted_key,
        moved_key,
        shift_key,
    ) = jax.random.split(key, 10)
    if sizes.whole:
        depot = (jax.random.randint(depot_key, (), 0, depots) + jnp.arange(batch)) % depots
        zero_days = jnp.zeros(batch, jnp.int32)
        last = jnp.broadcast_to(last_day(days, sizes.horizon) - 1, (batch,))
        zeros = jnp.zeros(batch)
        return CropPlaces(
            depot,
            last,
            zero_days,
            jnp.zeros((batch, len(blur))),
            zeros,
            zero_days,
            zeros,
            jax.random.split(hidden_days_key, batch),
        )
    depot = jax.random.randint(depot_key, (batch,), 0, depots)
    last = jax.random.randint(last_key, (batch,), sizes.span, last_day(days, sizes.horizon))
    opened = jax.random.randint(opened_key, (batch,), sizes.length - sizes.scan, sizes.length - 1)
    opened = jnp.where(jax.random.bernoulli(hidden_key, HIDDEN_START_SHARE, (batch,)), opened, 0)
    blurred = blur[None] * jax.random.normal(blur_key, (batch, len(blur)))
    gaps = MOST_GAPS * jax.random.uniform(gaps_key, (batch,))
    moved = sizes.length - sizes.span - jax.random.randint(moved_key, (batch,), 1, LEVEL_SHIFT_WITHIN + 1)
    moves = jax.random.bernoulli(shifted_key, LEVEL_SHIFT_SHARE, (batch,))
    shift = jnp.where(moves, LEVEL_SHIFT_SPREAD * jax.random.normal(shift_key, (batch,)), 0.0)
    return CropPlaces(depot, last, opened, blurred, gaps, moved, shift, jax.random.split(hidden_days_key, batch))


def crop(panel: DevicePanel, places: CropPlaces, sizes: CropSizes) -> tuple[Window, Array]:
    """Return the windows of a batch, and the demand of their days and of the horizon's."""
    window, demand = cut(panel, places.depots, places.last, sizes.length, sizes.horizon)
    since = jnp.arange(demand.shape[1])[None] >= places.moved[:, None]
    demand = demand * jnp.where(since, jnp.exp(places.shift)[:, None], 1.0)
    hidden = jnp.arange(sizes.length)[None] < places.opened[:, None]
    gaps = jax.vmap(lambda key, share: jax.random.bernoulli(key, share, (sizes.length,)))(places.key, places.gaps)
    # Counterparts are not hidden: holidays that are unknown half of the time would teach that those
    # of last year mean little.
    hidden |= gaps & (jnp.arange(sizes.length)[None] >= sizes.length - LEAST_BACK + sizes.horizon)
    calendar = window.calendar + places.blur[:, None]
    visible = jnp.where(hidden, jnp.nan, demand[:, : sizes.length])
    return window._replace(demand=visible, calendar=calendar), demand
