"""Experiment-tracking record of one run for the registry: parameters, metrics, tags, inputs and the bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Record:
    """A run, as the registry is told of it; `epochs` are the metrics of every epoch in their order."""

    run_id: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, float]
    epochs: tuple[Mapping[str, float], ...]
    tags: Mapping[str, str]
    inputs: Mapping[str, int]  # table of the lake → version that was read
    bundle: str | None  # the name of its folder in `state/bundles`
