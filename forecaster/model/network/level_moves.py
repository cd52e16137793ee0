"""Sudden moves of the level, as in a lockdown or when a large customer leaves, as indicated by the
last week.

The anchor of a day is the mean of four same weekdays, one of which is new in the week after such a
move, and networks follow by a quarter: the anchor alone looks the same as in a usual week with
large deviations. If the days of the last week all lie on one side of the anchor that they are
themselves part of, and farther from it than in usual weeks, the median follows them, unless the
network has already moved there.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from forecaster.model.network.day_sums import WEEKS, YEAR, trailing_sum

# largest move in log counts that a median follows: a week that went further mostly returns
MOST_MOVED = 0.4
UNUSUAL = (1.75, 2.75)  # in multiples of a week's usual distance: where following starts, and where it is full
ONE_SIDED = (0.75, 0.95)  # shares of the week's days on one side: where following starts, and where it is full
LEAST_DISTANCE = 0.02  # log counts at which a day counts half for its side
# log counts: if weeks hardly vary, a deviation of a twelfth is not another level
LEAST_USUAL = 0.08
LEAST_DAYS = 4  # comparable days of the week


def of_last_week(
    plain: Float[Array, "depots days"], observed: Float[Array, "depots days"]
) -> tuple[Float[Array, "depots days"], Float[Array, "depots days"]]:
    """Distance of the week up to each day from the anchor of the week after it, in log counts, and
    the share of it to follow."""
    weeks_known = trailing_sum(observed, WEEKS, every=7)
    comparable = observed * (weeks_known > 1).astype(jnp.float32)
    distance = (plain - trailing_sum(plain, WEEKS, every=7) / jnp.maximum(weeks_known, 1.0)) * comparable
    days = trailing_sum(comparable, 7)
    moved = trailing_sum(distance, 7) / jnp.maximum(days, 1.0)
    one_sided = jnp.abs(trailing_sum(distance / (jnp.abs(distance) + LEAST_DISTANCE), 7)) / jnp.maximum(days, 1.0)
    of_year, weeks = (
        trailing_sum(trailing_sum(x, 7), YEAR // 7, every=7) for x in (jnp.abs(moved), (days > 0).astype(jnp.float32))
    )
    unusual = jnp.abs(moved) / jnp.maximum(of_year / jnp.maximum(weeks, 1.0), LEAST_USUAL)
    enough = (days >= LEAST_DAYS).astype(jnp.float32)
    trust = _ramp(unusual, *UNUSUAL) * _ramp(one_sided, *ONE_SIDED) * enough
    return jnp.clip(moved, -MOST_MOVED, MOST_MOVED), trust


def followed(
    center: Float[Array, "depots horizon"],
    anchor: Float[Array, "depots horizon"],
    open_: Float[Array, "depots horizon"],
    moved: Float[Array, " depots"],
    trust: Float[Array, " depots"],
) -> Float[Array, "depots horizon"]:
    """Move medians in log counts as far from the anchor as the last week indicates, by their mean
    over the open days of the first week ahead, minus the distance in that direction that they
    already have."""
    week = open_[:, :7]
    mean_distance = ((center - anchor)[:, :7] * week).sum(axis=1) / jnp.maximum(week.sum(axis=1), 1.0)
    rest = moved - jnp.clip(mean_distance, jnp.minimum(moved, 0.0), jnp.maximum(moved, 0.0))
    return center + (trust * rest)[:, None]


def _ramp(x: Array, low: float, high: float) -> Array:
    """0 up to `low`, 1 from `high` on."""
    return jnp.clip((x - low) / (high - low), 0.0, 1.0)
