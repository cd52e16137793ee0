"""Reference implementation of the forward pass in plain NumPy, from `weights.npz` and the manifest.

Written for readability and computed independently of JAX. It takes the same raw inputs as
`model.onnx` and gives the same quantiles, in double precision, so that differences are rounding
errors of the other implementations. Arrays are (depots, days, …); days are the `lookback` days up
to the cutoff and then the horizon; forecasts are for the last `horizon` of them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from forecaster.core.arrays import Doubles, Floats
from forecaster.serving import numpy_features, numpy_trees
from forecaster.serving.numpy_features import ModelInputs

MAX_LOG_COUNT = 20.0  # log counts


class ReferenceModel:
    """The network in NumPy: a bundle's parameters, called with raw inputs."""

    def __init__(self, weights: bytes, manifest: Mapping[str, Any]) -> None:
        with np.load(io.BytesIO(weights), allow_pickle=False) as arrays:
            self.weights: dict[str, Doubles] = {name: arrays[name].astype(float) for name in arrays.files}
        self.sizes, self.lengths = manifest["architecture"], manifest["features"]

    def __call__(self, inputs: Mapping[str, Any]) -> Floats:
        """Quantiles of counts, (depots, horizon, levels): the members' mean, calibrated, zero on
        closed days."""
        read = self.features(inputs)
        statics, members = inputs["statics"], len(self.weights["members.out.bias"])
        predicted = np.stack([self.member(i, read.encoder, read.decoder, read.anchor, statics) for i in range(members)])
        mean = np.tensordot(self.weights["blend.members"], predicted, axes=1)
        median = self.sizes["levels"].index(0.5)
        middle = mean[..., [median]]
        blend = middle[..., 0] + self.weights["blend.anchor"] * (read.anchor - middle[..., 0])
        weight, tree_median = self.trees(read)
        blend = blend + weight * (tree_median - blend)
        open_ = inputs["open"][:, -self.sizes["horizon"] :]
        center = followed(blend, read.anchor, open_, *read.moves)[..., None]
        log = center + self.surprised(mean - middle, read.missed) * self.weights["calibration"]
        # Calibration may reverse close neighbors; the one nearer the median is kept.
        log[..., median:] = np.maximum.accumulate(log[..., median:], axis=-1)
        log[..., median::-1] = np.minimum.accumulate(log[..., median::-1], axis=-1)
        log = np.minimum(log, self.bound(inputs)[..., None])
        open_ = inputs["open"][:, -self.sizes["horizon"] :, None] > 0
        quantiles: Floats = np.where(open_, np.expm1(np.clip(log, 0, MAX_LOG_COUNT)), 0.0).astype(np.float32)
        return quantiles

    def trees(self, read: ModelInputs) -> tuple[Doubles, Doubles]:
        """Weight of the boosted trees (depots, 1) and their log counts (depots, horizon); 0 without
        trees."""
        if "trees.leaf" not in self.weights:
            return np.zeros((len(read.level), 1)), np.zeros_like(read.anchor)
        feature, threshold, leaf = (self.weights[f"trees.{name}"] for name in ("feature", "threshold", "leaf"))
        tree_median = (
            numpy_trees.predict(feature, threshold, leaf, read.trees, self.lengths["ramp"]) + read.level[:, None]
        )
        return self.weights["blend.trees"] * read.trusted[:, None], np.maximum(tree_median, 0)

    def surprised(self, distance: Doubles, week_error: Doubles) -> Doubles:
        """Distances to the median, widened if they are small for the errors of the last week;
        unchanged for bundles of earlier versions."""
        of = self.lengths
        if "follows" not in of:
            return distance
        normal = NormalDist()
        normal_distances = np.sqrt(np.pi / 2) * np.array([abs(normal.inv_cdf(level)) for level in self.sizes["levels"]])
        ratio = normal_distances * week_error[:, None, None] / np.maximum(np.abs(distance), of["shortest"])
        grown: Doubles = distance * np.clip(ratio, 1, of["farthest_asked"]) ** of["follows"]
        return grown

    def bound(self, inputs: Mapping[str, Any]) -> Doubles:
        """Largest log count of a day's quantiles, (depots, horizon), from the largest known one of
        the depot; no limit for depots with few known days, or for bundles of earlier versions."""
        of, horizon = self.lengths, self.sizes["horizon"]
        depots, days = inputs["demand"].shape
        if "times_most" not in of:
            return np.full((depots, horizon), MAX_LOG_COUNT)
        is_known = np.isfinite(inputs["demand"]) & (inputs["open"][:, :days] > 0)
        most = np.log1p(np.max(inputs["demand"], axis=1, where=is_known, initial=0.0).astype(float))
        covariates, where = inputs["covariates"], is_known[..., None]
        future_covariates = covariates[:, days:]
        least = np.min(covariates[:, :days], axis=1, where=where, initial=np.inf)[:, None]
        highest = np.max(covariates[:, :days], axis=1, where=where, initial=-np.inf)[:, None]
        unseen = np.any((future_covariates < least) | (future_covariates > highest), axis=-1)
        growth = np.log(of["times_most"] + np.arange(horizon) // 7)
        supported = most[:, None] + growth + of["most_unseen"] * unseen
        return np.where(is_known.sum(axis=1)[:, None] >= of["enough_days"], supported, MAX_LOG_COUNT)

    def features(self, inputs: Mapping[str, Any]) -> ModelInputs:
        """Return the inputs of encoder, decoder and trees, and the starting point of the forecast."""
        constants = {name: self.weights[f"constants.{name}"] for name in ("mean", "spread", "yearly", "calendar")}
        trees = "trees.leaf" in self.weights
        return numpy_features.make(inputs, constants, self.lengths, scan=self.sizes["scan"], trees=trees)

    def member(self, number: int, encoder: Doubles, decoder: Doubles, anchor: Doubles, statics: Any) -> Doubles:
        """Quantiles of log(1 + count) of one member, (depots, horizon, levels)."""
        weights = {name: x[number] for name, x in self.weights.items() if name.startswith("members.")}

        def of(name: str) -> Doubles:
            array: Doubles = weights[f"members.{name}"]
            return array

        tables = [of(f"embeddings.{i}.embedding") for i in range(len(self.sizes["labels"]))]
        embedded = [table[statics[:, i]] for i, table in enumerate(tables)]

        def beside(x: Doubles) -> Doubles:
            """Append the depot's static embeddings to each of its days."""
            parts = [np.broadcast_to(vector[:, None], (*x.shape[:2], vector.shape[1])) for vector in embedded]
            return np.concatenate([x, *parts], axis=-1)

        x = beside(encoder)
        for i in range(self.sizes["layers"]):
            cell = f"cells.{i}."
            x = gru(x, of(cell + "dense_i.kernel"), of(cell + "dense_i.bias"), of(cell + "dense_h.kernel"))
        state = x[:, -1] @ of("state.kernel") + of("state.bias")
        hidden = np.maximum(beside(decoder) @ of("day.kernel") + state[:, None] + of("step.embedding"), 0)
        hidden = hidden + np.maximum(hidden @ of("mix.kernel") + of("mix.bias"), 0)
        out = hidden @ of("out.kernel") + of("out.bias")

        # The median adds to the anchor; the other levels step away from it, so they never cross.
        median = self.sizes["levels"].index(0.5)
        center = anchor[..., None] + out[..., [median]]
        down = reach(out[..., :median][..., ::-1], self.lengths["farthest_down"])[..., ::-1]
        up = reach(out[..., median + 1 :], self.lengths["farthest_up"])
        return np.concatenate([center - down, center, center + up], axis=-1)


def followed(center: Doubles, anchor: Doubles, open_: Any, moved: Doubles, trust: Doubles) -> Doubles:
    """Move medians (depots, horizon) in log counts as far from the anchor as the last week
    indicates, minus the mean distance in that direction that they already have over the open days
    of a week."""
    mean_distance = _gone(center, anchor, open_)
    rest = moved - np.clip(mean_distance, np.minimum(moved, 0), np.maximum(moved, 0))
    followed_center: Doubles = center + (trust * rest)[:, None]
    return followed_center


def before_following(followed_center: Doubles, anchor: Doubles, open_: Any, moved: Doubles, trust: Doubles) -> Doubles:
    """Invert `followed`; if the medians follow fully, return one of the possible originals."""
    side = np.where(moved < 0, -1.0, 1.0)
    now, most = _gone(followed_center, anchor, open_) * side, np.abs(moved)
    inside = (now - trust * most) / np.maximum(1 - trust, 1e-9)
    was = np.where(now > most, now, np.where(now < trust * most, now - trust * most, np.clip(inside, 0, most)))
    center: Doubles = followed_center - ((now - was) * side)[:, None]
    return center


def _gone(center: Doubles, anchor: Doubles, open_: Any) -> Doubles:
    """Mean distance from the anchor over the open days of a week, (depots,)."""
    week = open_[:, :7].astype(float)
    mean_distance: Doubles = ((center - anchor)[:, :7] * week).sum(axis=1) / np.maximum(week.sum(axis=1), 1)
    return mean_distance


def gru(x: Doubles, kernel_i: Doubles, bias: Doubles, kernel_h: Doubles) -> Doubles:
    """States of a GRU layer after each day (Cho et al. 2014, arXiv:1406.1078), from a zero state;
    gates r, z, n."""
    h = np.zeros((len(x), len(kernel_h)))
    states = []
    for projected in np.swapaxes(x @ kernel_i + bias, 0, 1):
        (xr, xz, xn), (hr, hz, hn) = np.split(projected, 3, axis=-1), np.split(h @ kernel_h, 3, axis=-1)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        n = np.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        states.append(h)
    return np.stack(states, axis=1)


def sigmoid(x: Doubles) -> Doubles:
    """The logistic function, without overflow."""
    return 0.5 * np.tanh(0.5 * x) + 0.5


def reach(steps: Doubles, farthest: float) -> Doubles:
    """Distance of each level from the median, the nearest first; always below `farthest`."""
    return farthest * np.tanh(np.cumsum(np.logaddexp(0, steps), axis=-1) / farthest)
