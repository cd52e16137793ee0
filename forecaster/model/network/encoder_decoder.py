"""Encoder-decoder network with quantile outputs: raw counts in, quantiles of counts out.

A GRU reads the days before an origin; a small shared network then answers each day of the horizon
from the encoder's state, what is known of that day, and the seasonal anchor, to which it adds: the
mean of the last four known same weekdays, and near a holiday what was out of the usual a year
before, or in the last week where a year ago is not known. Quantiles cannot cross: the median, plus
cumulative softplus steps up and down. Scaling, masks, lags and levels are inside (`features`), so
that whoever runs the graph needs raw counts and nothing else.
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
Layer = Callable[[Array, Array, Array, Array, Array | None], Array]  # as `gru.layer`
EachMember = Callable[[Callable[[Parameters], Any]], Callable[[Parameters], Any]]  # as `jax.vmap`
# log counts from the median: what was never seen may not mean millions of orders
FARTHEST_DOWN, FARTHEST_UP = 5.0, 2.5
WIDER = 3  # times the recurrence's width: the decoder has the harder work, and costs less
# how far, in logs, a level's distance goes towards what the last week's misses ask for
FOLLOWS = 0.3
FARTHEST_ASKED = 4.0  # times the distance, which is as much as they may ask for
SHORTEST = 1e-3  # log counts of distance that are held against them
FIRST_STEP = -2.4  # softplus of it is 0.087: neighbouring quantiles start some 9 % apart


@dataclass(frozen=True)
class Architecture:
    """Hyperparameters that shape the network: widths, input sizes, and the quantile levels it
    predicts."""

    layers: int
    hidden: int
    levels: tuple[float, ...]
    horizon: int
    covariates: int
    calendar: int
    labels: tuple[int, ...]  # labels a static attribute, in order
    scan: int = 56  # days the encoder reads before an origin

    @property
    def median(self) -> int:
        return self.levels.index(0.5)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class NetworkOutput(NamedTuple):
    """Prediction of a member: quantiles of log(1 + demand), and the seasonal anchor that they
    started from."""

    quantiles: Float[Array, "depots origins horizon levels"]
    anchor: Float[Array, "depots origins horizon"]


def initial_parameters(shape: Architecture, key: Array) -> dict[str, Any]:
    """Initialize parameters as a tree of arrays; lists of nnx become dictionaries with keys "0",
    "1", …"""
    # flax is for those alone who draw parameters
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

    `masks` (`dropout_masks`) leaves units out. The arithmetic has the precision of the features.
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
    # Broadcast in so many words: the exporter gives an implicit broadcast of a middle axis the
    # wrong shape.
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
    """Distance of each level from the median, never as far as `FARTHEST_DOWN` or `FARTHEST_UP`: the
    sum of the steps on the way.

    The sums are one product with zeros and ones. Level by level, what is short would be computed
    number by number.
    """
    level = np.arange(out.shape[-1])
    step, target = level[:, None], level[None]
    between = ((target <= step) & (step < median)) | ((median < step) & (step <= target))
    farthest = jnp.asarray(np.where(level < median, -FARTHEST_DOWN, FARTHEST_UP), jnp.float32)
    total = _softplus(out).reshape(-1, len(level)) @ jnp.asarray(between, jnp.float32)
    return (farthest[None] * jnp.tanh(total / jnp.abs(farthest)[None])).reshape(out.shape)


def _softplus(x: Array) -> Array:
    """log(1 + eˣ), to 2e-7: XLA makes log1p one number after the other, but log of many at once."""
    return jnp.maximum(x, 0.0) + jnp.log(1.0 + jnp.exp(-jnp.abs(x)))


def dropout_masks(shape: Architecture, rate: Float[Array, ""], key: Array, depots: int) -> Float[Array, "depots units"]:
    """Variational dropout: the units each depot keeps, after each layer and in the decoder, scaled
    to keep the mean.

    The same for all days of a depot (Gal & Ghahramani 2016, arXiv:1512.05287): dropping each day
    anew tears the memory apart, and making so many random numbers took as long as the recurrence.
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
    Members are averaged as logs by their weights, the median is drawn to the seasonal anchor by its
    share and, where there are "trees" next to the members, to what they say by the weight "trees" of
    the blend; it follows a level that moved (`level_moves`), and the other quantiles go with it.
    Each level's distance to the median grows where the last week surprised, and the calibration
    widens or narrows it. Never crossing, never negative, never beyond what a depot's history
    supports (`support`). `layer` and `each_member` are what an exporter replaces.
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
    """Correction of the medians by the trees (depots, horizon): less to a depot of which few of the
    last days are known, of which trees have learned nothing."""
    assert inputs.trees is not None  # as they were asked for
    assert inputs.tree_trust is not None
    said = jnp.maximum(trees.predict(parameters["trees"], inputs.trees[:, 0]) + inputs.level, 0.0)
    weight: Array = parameters["blend"]["trees"] * inputs.tree_trust
    return weight * (said - center)


def _surprised(distance: Array, missed: Array, levels: tuple[float, ...]) -> Array:
    """Distances (depots, horizon, levels) to the median in log counts, of which those grow that are
    short for what the anchor missed of the last week's days in the mean (depots,): were its misses
    normal, a level would lie as many standard deviations from the median as a normal one's.

    Where demand moved to another level, or a storm begins, nobody knows how far it goes on.
    """
    asked = jnp.asarray(misses_asked(levels), jnp.float32)[None, None] * missed[:, None, None]
    ratio = jnp.clip(asked / jnp.maximum(jnp.abs(distance), SHORTEST), 1.0, FARTHEST_ASKED)
    return distance * jnp.exp(FOLLOWS * jnp.log(ratio))


def misses_asked(levels: tuple[float, ...]) -> list[float]:
    """Mean absolute errors between each level and the median of a normal distribution."""
    normal = NormalDist()
    return [abs(normal.inv_cdf(level)) * (math.pi / 2) ** 0.5 for level in levels]


def _in_order(quantiles: Array, middle: int) -> Array:
    """Quantiles in order: the calibration may reverse close neighbours, of which the one nearer the
    median holds."""
    lower, upper = [quantiles[..., middle : middle + 1]], [quantiles[..., middle : middle + 1]]
    for i in reversed(range(middle)):
        lower.append(jnp.minimum(lower[-1], quantiles[..., i : i + 1]))
    for i in range(middle + 1, quantiles.shape[-1]):
        upper.append(jnp.maximum(upper[-1], quantiles[..., i : i + 1]))
    return jnp.concatenate([*reversed(lower[1:]), *upper], axis=-1)


def _linear(dense: Mapping[str, Array], x: Array) -> Array:
    """x W + b with the product kept two-dimensional, which is many times faster on CPU than a
    higher one."""
    flat = x.reshape(-1, x.shape[-1]) @ dense["kernel"]
    if "bias" in dense:
        flat = flat + dense["bias"][None, :]
    return flat.reshape(*x.shape[:-1], flat.shape[-1])
