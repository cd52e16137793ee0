"""The network's parameters as a flax module that names and initializes them;
`encoder_decoder.forward` computes with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx
from jax import Array

from forecaster.model.network import features
from forecaster.model.network.encoder_decoder import WIDER, Architecture


class Network(nnx.Module):  # type: ignore[misc]  # flax has no types here
    """Learned parameters of one member, without those that members share."""

    def __init__(self, shape: Architecture, rngs: nnx.Rngs) -> None:
        hidden, embedded = shape.hidden, sum(_width(labels) for labels in shape.labels)
        encoder = features.encoder_width(shape.covariates) + embedded
        decoder = features.decoder_width(shape.covariates, shape.calendar) + embedded
        widths = [encoder] + [hidden] * (shape.layers - 1)
        self.cells = nnx.List([nnx.GRUCell(width, hidden, rngs=rngs) for width in widths])
        self.embeddings = nnx.List([nnx.Embed(labels + 1, _width(labels), rngs=rngs) for labels in shape.labels])
        wide = WIDER * hidden
        self.state = nnx.Linear(hidden, wide, rngs=rngs)
        self.day = nnx.Linear(decoder, wide, use_bias=False, rngs=rngs)
        self.step = nnx.Embed(shape.horizon, wide, rngs=rngs)
        self.mix = nnx.Linear(wide, wide, rngs=rngs)
        self.out = nnx.Linear(wide, len(shape.levels), kernel_init=nnx.initializers.normal(0.01), rngs=rngs)


def initialized(shape: Architecture, key: Array) -> dict[str, Any]:
    """Draw the parameters from a key, as a tree of arrays; lists of nnx are dictionaries with keys
    "0", "1", …"""
    tree: dict[str, Any] = _string_keys(nnx.to_pure_dict(nnx.state(Network(shape, nnx.Rngs(params=key)), nnx.Param)))
    return tree


def _width(labels: int) -> int:
    return min(8, 1 + labels // 2)


def _string_keys(tree: Any) -> Any:
    return {str(key): _string_keys(value) for key, value in tree.items()} if isinstance(tree, Mapping) else tree
