"""Errors of reports, drawn in training: deviations of the covariates of the days ahead as an origin
reads them. Training data have only their final values.

A report has one growing error: on each day ahead it is the sum of independent normal steps up to
that day. Reports of different origins have different errors.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from forecaster.config import Spec
from forecaster.core.arrays import Floats
from forecaster.core.panel import Panel

OF_REPORTS = 1_000_003  # folded into a crop's key, for a key that none of its splits equals


def declared(spec: Spec, panel: Panel) -> dict[str, list[float]]:
    """Return the standard deviations by day ahead of each covariate of the panel whose reports have
    errors."""
    by_name = {name: spec.calendar.report_deviations(name, panel.horizon) for name in panel.encoding.covariates}
    return {name: list(values) for name, values in by_name.items() if any(values)}


def steps(spec: Spec, panel: Panel) -> Floats | None:
    """Return the standard deviations of the steps, (horizon, covariates); None if no report has an
    error."""
    by_name, still = declared(spec, panel), [0.0] * panel.horizon
    if not by_name:
        return None
    deviations = np.array([by_name.get(name, still) for name in panel.encoding.covariates]).T
    return np.sqrt(np.maximum(np.diff(deviations**2, axis=0, prepend=0), 0)).astype(np.float32)


def of_crops(
    keys: Array, origins: int, steps: Float[Array, "horizon covariates"]
) -> Float[Array, "crops origins horizon covariates"]:
    """Draw the errors of the reports that each origin of a crop reads, from the crops' keys."""

    def of_crop(key: Array) -> Array:
        normal = jax.random.normal(jax.random.fold_in(key, OF_REPORTS), (origins, *steps.shape))
        return jnp.cumsum(steps[None] * normal, axis=1)

    errors: Array = jax.vmap(of_crop)(keys)
    return errors


def of_days(
    depots: Int[Array, " depots"], days: Int[Array, " origins"], steps: Float[Array, "horizon covariates"]
) -> Float[Array, "depots origins horizon covariates"]:
    """Draw the errors of the reports that depots read on the days of origins. Those of a depot and
    day are always the same, so that the network and the trees are blended on equal reports."""

    def of_report(depot: Array, day: Array) -> Array:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(OF_REPORTS), depot), day)
        return jnp.cumsum(steps * jax.random.normal(key, steps.shape), axis=0)

    errors: Array = jax.vmap(lambda depot: jax.vmap(lambda day: of_report(depot, day))(days))(depots)
    return errors
