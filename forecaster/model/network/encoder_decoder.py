"""Encoder-decoder network with quantile outputs: raw counts in, quantiles of counts out.

A GRU reads the days before an origin. A small shared network then forecasts each day of the horizon
from the encoder's state, the known values of that day, and the seasonal anchor, to which it adds:
the mean of the last four known same weekdays plus, near a holiday, the deviation from the usual a
year before, or in the last week if a year ago is unknown. Quantiles cannot cross: the median, plus
cumulative softplus steps up and down. Scaling, masks, lags and levels are inside (`features`), so
that the graph needs only raw counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from forecaster.model.network import features, gru, level_moves, support, trees
from forecaster.model.network.features import Features, Window

Parameters = Mapping[str, Any]
Layer = Callable[[Array, Array, Array, Array, Array | None], Array]  # signature of `gru.layer`
EachMember = Callable[[Callable[[Parameters], Any]], Callable[[Parameters], Any]]  # signature of `jax.vmap`
# largest distance from the median in log counts, so that unseen inputs cannot mean millions of
# orders
FARTHEST_DOWN, FARTHEST_UP = 5.0, 2.5
WIDER = 3  # width in multiples of the recurrence's: the decoder has the harder task, and costs less
# share, in logs, by which a level's distance moves toward the one implied by the last week's errors
FOLLOWS = 0.3
FARTHEST_ASKED = 4.0  # largest implied distance, in multiples of the distance
SHORTEST = 1e-3  # smallest distance in log counts for this comparison
FIRST_STEP = -2.4  # its softplus is 0.087: neighboring quantiles start about 9 % apart


@dataclass(frozen=True)
class Architecture:
    """Hyperparameters that shape the network: widths, input sizes, and the predicted quantile
    levels."""

    layers: int
    hidden: int
    levels: tuple[float, ...]
    horizon: int
    covariates: int
    calendar: int
    labels: tuple[int, ...]  # number of labels of each static attribute, in order
    scan: int = 56  # days that the encoder reads before an origin

    @property
    def median(self) -> int:
        return self.levels.index(0.5)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class NetworkOutput(NamedTuple):
    """Prediction of a member: quantiles of log(1 + demand), and the seasonal anchor to which they
    add."""

    quantiles: Float[Array, "depots origins horizon levels"]
    anchor: Float[Array, "depots origins horizon"]


def initial_parameters(shape: Architecture, key: Array) -> dict[str, Any]:
    """Initialize parameters as a tree of arrays; lists of nnx become dictionaries with keys "0",
    "1", …"""
    # only drawing parameters needs flax
    from forecaster.model.network import parameter_module

    tree: dict[str, Any] = parameter_module.initialized(shape, key)
    bias = jnp.full((len(shape.levels),), FIRST_STEP).at[shape.median].set(0.0)
    tree["out"]["bias"] = bias
    return tree


def member_forward(
    parameters: Parameters,
    inputs: Features,
    statics: Int[Array, "depots attributes"],
    shape: Architecture,
    *,
    stride: int = 1,
    masks: Float[Array, "depots units"] | None = None,
    layer: Layer = gru.layer,
) -> NetworkOutput:
    """Forward pass of one member: quantiles of each day, from origins `stride` days apart.

    `masks` (`dropout_masks`) drops units. The arithmetic has the precision of the features.
    """
    scan, origins = inputs.encoder.shape[1], inputs.decoder.shape[1]
    dtype = inputs.encoder.dtype
    parameters = jax.tree.map(
        lambda x: x if isinstance(x, Array) and x.dtype == dtype else jnp.asarray(x, dtype), parameters
    )
    tables = (parameters["embeddings"][str(i)]["embedding"] for i in range(len(shape.labels)))
    embeddings = [jnp.take(table, statics[:, i], axis=0) for i, table in enumerate(tables)]
    embedded = jnp.concatenate(embeddings, axis=-1) if embeddings else None

    x, unchanging = jnp.swapaxes(inputs.encoder, 0, 1), embedded
    for index in range(shape.layers):
        cell = parameters["cells"][str(index)]
        x = layer(cell["dense_i"]["kernel"], cell["dense_i"]["bias"], cell["dense_h"]["kernel"], x, unchanging)
        if masks is not None:
            x = x * masks[None, :, index * shape.hidden : (index + 1) * shape.hidden].astype(dtype)
        unchanging = None
    # (depots, origins, hidden)
    state = jnp.swapaxes(x[scan - 1 - stride * (origins - 1) :: stride], 0, 1)

    kernel, of_depot = gru.split(
        parameters["day"]["kernel"], parameters["state"]["bias"], inputs.decoder.shape[-1], embedded
    )
    days = _linear({"kernel": kernel}, inputs.decoder)
    of_origin = _linear({"kernel": parameters["state"]["kernel"]}, state) + of_depot[:, None]
    # Explicit broadcast: the exporter gives an implicit broadcast of a middle axis the wrong shape.
    hidden = jax.nn.relu(
        days + jnp.broadcast_to(of_origin[:, :, None], days.shape) + parameters["step"]["embedding"][None, None]
    )
    if masks is not None:
        hidden = hidden * masks[:, None, None, shape.layers * shape.hidden :].astype(dtype)
    hidden = hidden + jax.nn.relu(_linear(parameters["mix"], hidden))
    out = _linear(parameters["out"], hidden).astype(jnp.float32)

    center = inputs.anchor[..., None] + out[..., shape.median : shape.median + 1]
    return NetworkOutput(center + _distance_from_median(out, shape.median), inputs.anchor)


def _distance_from_median(out: Float[Array, "*shape levels"], median: int) -> Float[Array, "*shape levels"]:
    """Distance of each level from the median, always below `FARTHEST_DOWN` or `FARTHEST_UP`: the
    sum of the steps between them.

    The sums are one product with zeros and ones; level by level, such short arrays would be
    computed element by element.
    """
    level = np.arange(out.shape[-1])
    step, target = level[:, None], level[None]
    between = ((target <= step) & (step < median)) | ((median < step) & (step <= target))
    farthest = jnp.asarray(np.where(level < median, -FARTHEST_DOWN, FARTHEST_UP), jnp.float32)
    total = _softplus(out).reshape(-1, len(level)) @ jnp.asarray(between, jnp.float32)
    return (farthest[None] * jnp.tanh(total / jnp.abs(farthest)[None])).reshape(out.shape)


def _softplus(x: Array) -> Array:
    """log(1 + eˣ), to 2e-7: XLA computes log1p element by element, but log in vectors."""
    return jnp.maximum(x, 0.0) + jnp.log(1.0 + jnp.exp(-jnp.abs(x)))


def dropout_masks(shape: Architecture, rate: Float[Array, ""], key: Array, depots: int) -> Float[Array, "depots units"]:
    """Variational dropout: the units that each depot keeps, after each layer and in the decoder,
    scaled to keep the mean.

    The same on all days of a depot (Gal & Ghahramani 2016, arXiv:1512.05287): a new mask each day
    destroys the memory, and drawing as many random numbers took as long as the recurrence.
    """
    keep = jax.random.bernoulli(key, 1 - rate, (depots, (shape.layers + WIDER) * shape.hidden))
    return keep.astype(jnp.float32) / (1 - rate)


def forward(
    parameters: Parameters,
    window: Window,
    shape: Architecture,
    *,
    layer: Layer = gru.layer,
    each_member: EachMember = jax.vmap,
) -> Float[Array, "depots horizon levels"]:
    """Forward pass of the ensemble: quantiles of counts on the days after the window, zero on
    closed days.

    `parameters` is a candidate's tree: {"members": …, "constants": …, "blend": {"members":
    (members,), "anchor": ()}, "calibration": (horizon, levels)}, members stacked on the first axis.
    Members are averaged in logs by their weights. The median is drawn to the seasonal anchor by its
    share and, if there are "trees" next to the members, to their prediction by the weight "trees"
    of the blend; it then follows a level that moved (`level_moves`), and the other quantiles move
    with it. Each level's distance to the median grows if the last week surprised, and the
    calibration widens or narrows it. Quantiles never cross, are never negative, and never exceed
    what a depot's history supports (`support`). An exporter replaces `layer` and `each_member`.
    """

    sizes: dict[str, Any] = {"horizon": shape.horizon, "scan": shape.scan, "origins": 1, "stride": 1}
    inputs = features.make(window, parameters["constants"], **sizes, trees="trees" in parameters)

    def member(learned: Parameters) -> NetworkOutput:
        return member_forward(learned, inputs, window.statics, shape, layer=layer)

    outputs = each_member(member)(parameters["members"])
    weights, share = parameters["blend"]["members"], parameters["blend"]["anchor"]
    mean = (outputs.quantiles[:, :, 0] * weights[:, None, None, None]).sum(axis=0)
    middle = mean[..., shape.median : shape.median + 1]
    open_, anchor = window.open[:, -shape.horizon :], inputs.anchor[:, 0]
    center = middle[..., 0] + share * (anchor - middle[..., 0])
    if "trees" in parameters:
        center = center + _towards_trees(parameters, inputs, center)
    center = level_moves.followed(center, anchor, open_, inputs.moved[:, 0], inputs.trust[:, 0])[..., None]
    distance = _surprised(mean - middle, inputs.missed[:, 0], shape.levels)
    calibrated = center + distance * parameters["calibration"][None]
    log = jnp.minimum(_in_order(calibrated, shape.median), support.bound(window, shape.horizon)[..., None])
    return jnp.where(open_[..., None] > 0, jnp.expm1(jnp.clip(log, 0.0, support.LARGEST_LOG)), 0.0)


def _towards_trees(parameters: Parameters, inputs: Features, center: Array) -> Array:
    """Correction of the medians by the trees (depots, horizon): smaller for a depot with few known
    recent days, from which trees have learned nothing."""
    assert inputs.trees is not None  # because they were requested
    assert inputs.tree_trust is not None
    tree_median = jnp.maximum(trees.predict(parameters["trees"], inputs.trees[:, 0]) + inputs.level, 0.0)
    weight: Array = parameters["blend"]["trees"] * inputs.tree_trust
    return weight * (tree_median - center)


def _surprised(distance: Array, week_error: Array, levels: tuple[float, ...]) -> Array:
    """Widen distances (depots, horizon, levels) to the median in log counts that are short for the
    anchor's mean absolute error in the last week (depots,): with normal errors, a level would lie
    as many standard deviations from the median as in a normal distribution.

    If demand moved to another level, or a storm begins, the further course is unknown.
    """
    normal_distances = jnp.asarray(misses_asked(levels), jnp.float32)[None, None] * week_error[:, None, None]
    ratio = jnp.clip(normal_distances / jnp.maximum(jnp.abs(distance), SHORTEST), 1.0, FARTHEST_ASKED)
    return distance * jnp.exp(FOLLOWS * jnp.log(ratio))


def misses_asked(levels: tuple[float, ...]) -> list[float]:
    """Distances between each level and the median of a normal distribution, in mean absolute
    errors."""
    normal = NormalDist()
    return [abs(normal.inv_cdf(level)) * (math.pi / 2) ** 0.5 for level in levels]


def _in_order(quantiles: Array, middle: int) -> Array:
    """Sort the quantiles: the calibration may reverse close neighbors; the one nearer the median is
    kept."""
    lower, upper = [quantiles[..., middle : middle + 1]], [quantiles[..., middle : middle + 1]]
    for i in reversed(range(middle)):
        lower.append(jnp.minimum(lower[-1], quantiles[..., i : i + 1]))
    for i in range(middle + 1, quantiles.shape[-1]):
        upper.append(jnp.maximum(upper[-1], quantiles[..., i : i + 1]))
    return jnp.concatenate([*reversed(lower[1:]), *upper], axis=-1)


def _linear(dense: Mapping[str, Array], x: Array) -> Array:
    """x W + b with a two-dimensional product, which is many times faster on CPU than one with more
    dimensions."""
    flat = x.reshape(-1, x.shape[-1]) @ dense["kernel"]
    if "bias" in dense:
        flat = flat + dense["bias"][None, :]
    return flat.reshape(*x.shape[:-1], flat.shape[-1])
