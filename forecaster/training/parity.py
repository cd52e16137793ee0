"""Parity check of ONNX, NumPy and JAX: run the same real and hard inputs three ways before a model
may become champion.

JAX means the compiled forward pass that was backtested. Run operation by operation, JAX compiles
each of them: 13 s for one batch and as much again for each further number of depots, on two cores,
while the compiled one already exists; a test compares the two. The cases are therefore cut into
batches of one size for JAX, while the graph and NumPy get them whole. The thousand depots repeat
those of the real batch; neither in JAX nor in NumPy does a depot depend on another, so both compute
each depot once, and the graph computes all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from forecaster.core.arrays import Floats
from forecaster.core.forecast import Candidate
from forecaster.core.panel import Panel
from forecaster.errors import ExportError
from forecaster.model.export import to_onnx
from forecaster.serving import predict
from forecaster.serving.numpy_model import ReferenceModel

TOLERANCE = 1e-4  # relative, in counts; counts below one are compared absolutely
BATCH = 64  # depots of the real batch
MANY = 1000
HUGE = 1e6  # added to each count

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Agreement:
    """Largest relative difference of any two implementations, by case."""

    cases: Mapping[str, float]

    @property
    def largest(self) -> float:
        return max(self.cases.values())


def agree(
    candidate: Candidate,
    graph: bytes,
    weights: bytes,
    about: Mapping[str, Any],
    panel: Panel,
    *,
    quick: bool = False,
) -> Agreement:
    """Run every case three ways. Raises ExportError above `TOLERANCE`, with the case, the depot and
    both values.

    `quick` omits JAX, which compiles a model on its first use, and the case of a thousand depots.
    """
    session, reference = predict.session(graph), ReferenceModel(weights, about)
    real = panel.window(about["lookback"], slice(0, BATCH))
    jax, size = to_onnx.on_arrays(candidate), len(real["demand"])
    differences = {}
    for name, inputs in cases(real, about["horizon"]):
        if quick and len(inputs["demand"]) == MANY:
            continue
        outputs = {"ONNX": predict.run(session, inputs)}
        distinct = {key: x[:size] for key, x in inputs.items()}
        again = np.arange(len(inputs["demand"])) % size
        if not quick:
            outputs["JAX"] = np.concatenate([jax(part)[:rows] for part, rows in _batches(distinct, size)])[again]
        outputs["NumPy"] = _quietly(reference, distinct)[again]
        differences[name] = max(
            _largest_difference(first, outputs[first], second, outputs[second], name, panel)
            for first, second in combinations(outputs, 2)
        )
    return Agreement(differences)


def cases(real: Inputs, horizon: int) -> Iterator[tuple[str, Inputs]]:
    """Yield a real batch, and inputs that a model may receive one day."""
    demand, open_ = real["demand"], real["open"]
    yield "real", real
    yield "all missing", {**real, "demand": np.full_like(demand, np.nan)}
    yield "all closed", {**real, "open": np.zeros_like(open_)}
    closed_until_today = open_.copy()
    closed_until_today[:, :-horizon], closed_until_today[:, -horizon:] = 0, 1
    yield "closed until today", {**real, "open": closed_until_today}
    yield "zeros", {**real, "demand": np.zeros_like(demand)}
    yield "huge counts", {**real, "demand": demand + np.float32(HUGE)}
    yield "one depot", {name: x[:1] for name, x in real.items()}
    rows = np.arange(MANY) % len(demand)
    yield "1,000 depots", {name: x[rows] for name, x in real.items()}


def _batches(inputs: Inputs, size: int) -> Iterator[tuple[Inputs, int]]:
    """Yield pieces of exactly `size` depots, each with its number of distinct depots: the last
    piece repeats its last depot."""
    depots = len(inputs["demand"])
    for start in range(0, depots, size):
        rows = np.minimum(np.arange(start, start + size), depots - 1)
        yield {name: x[rows] for name, x in inputs.items()}, min(size, depots - start)


def _quietly(reference: ReferenceModel, inputs: Inputs) -> Floats:
    """Run the reference without warnings: the comparison reports a weight that is not a number."""
    with np.errstate(all="ignore"):
        return reference(inputs)


def _largest_difference(
    name: str, values: Floats, reference_name: str, reference: Floats, case: str, panel: Panel
) -> float:
    difference = np.abs(values - reference) / np.maximum(np.abs(reference), 1)
    worst = np.unravel_index(np.argmax(np.where(np.isnan(difference), np.inf, difference)), difference.shape)
    largest = float(difference[worst])
    if not largest <= TOLERANCE:
        raise ExportError(
            f"{name} says {values[worst]:.6g} where {reference_name} says {reference[worst]:.6g} for depot "
            f"{panel.depot_ids[int(worst[0]) % min(len(panel.depot_ids), BATCH)]!r}, {int(worst[1]) + 1} days ahead "
            f"({case}): relative difference {largest:.2e}, wanted at most {TOLERANCE:.0e}"
        )
    return largest
