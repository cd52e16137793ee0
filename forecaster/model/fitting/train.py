"""Train the network end to end: the whole epoch compiled, members in parallel, all randomness from
an explicit key.

The days before the cutoff have two parts. Crops (windows of random depots that end on random days)
of the first part train; the last `VALIDATION` days determine the weight of each member
(`ensemble`), and later calibrate the intervals. Early stopping chooses among the epochs: a member
keeps its last parameters, or those of an earlier epoch that was better on these days by more than
`EARLY_MARGIN`; a smaller difference on so few days is mostly chance. The kept parameters are
published without a refit, so the judged model is the model that forecasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Floats
from forecaster.core.forecast import Candidate, Prior
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.core.panel import Panel
from forecaster.errors import NoUsableData, TrainingError
from forecaster.model.fitting import (
    boosted_trees,
    compiled_steps,
    devices,
    distributed,
    report_errors,
    training_loop,
    windows,
)
from forecaster.model.fitting.boosted_trees import HALF, Boosted, Validated
from forecaster.model.fitting.compiled_steps import PanelFacts, ProgramSizes, Restraints, State
from forecaster.model.fitting.ensemble import Blend, blend
from forecaster.model.fitting.jax_setup import Compilations, count_compilations
from forecaster.model.fitting.training_loop import Epoch, Monitoring, TrainingInputs
from forecaster.model.fitting.training_plan import Recipe, choose_recipe
from forecaster.model.fitting.windows import CropSizes
from forecaster.model.network import encoder_decoder
from forecaster.model.network.encoder_decoder import Architecture
from forecaster.plugins import plugin

VALIDATION = 28  # days
LEAST_HISTORY = 28  # days of history that training needs before the validation days
# deviation of the waves of year and month in a crop; exact ones name the date, which would be
# learned by heart
BLUR = 0.5
EARLY_MARGIN = 0.05  # share by which an earlier epoch must be better
VALIDATION_DEPOTS = 256  # depots that are validated, at most; with more devices, one per device
SMALLEST_BATCH = 8  # crops per batch; smaller batches hardly save memory
# days of history from which the waves of the year can be distinguished from a trend
YEARLY_WAVES_HISTORY = 730
LAST_YEAR_HISTORY = 540  # days of history from which enough crops have data of a year ago
# Fields of an epoch: those that are the same whenever the training is repeated, and those of this
# run alone.
HISTORY_FIELDS = ("number", "loss", "validation", "learning_rate", "gradient_norm")
MEASURED_FIELDS = ("depot_days_a_second", "compile_seconds", "compile_hits", "compile_misses")


def fit(
    panel: Panel,
    spec: Spec,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_trouble: Callable[[str], None] | None = None,
    checkpoints: Path | None = None,
    profile: Path | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    prior: Prior | None = None,
) -> Candidate:
    """Train a candidate on everything up to the panel's cutoff.

    The same panel, spec and device give bit-identical parameters, also if a killed training resumes
    from its checkpoint in the folder `checkpoints`. `profile` is a folder for a trace of two
    epochs; `epochs` and `steps` replace the recipe's, `prior` the package's own. Raises
    NoUsableData, MissingExtra without LightGBM, and TrainingError if the loss is not a number or
    the smallest batch does not fit into memory.
    """
    started, days = time.monotonic(), panel.history - VALIDATION
    if days < LEAST_HISTORY + panel.horizon:
        raise NoUsableData(
            f"{panel.history} days of history before the backtest, wanted at least "
            f"{VALIDATION + LEAST_HISTORY + panel.horizon}: shorten the backtest (backtest.days) or the horizon, or "
            "bring a longer history"
        )
    recipe = choose_recipe(spec, len(panel.depot_ids), days, jax.device_count())
    recipe = replace(recipe, epochs=epochs or recipe.epochs, steps=steps or recipe.steps)
    prior = _prior_to_begin_from(spec, prior)
    monitoring = Monitoring(on_epoch, on_trouble, checkpoints, profile)
    with_trees = boosted_trees.are_fitted(spec, panel.horizon, monitoring.report)
    report_steps = report_errors.steps(spec, panel)
    inputs = _training_inputs(panel, days, recipe, report_steps)
    with count_compilations() as compilations:
        trained = _trained(panel, spec, recipe, inputs, monitoring, compilations, prior)
    constants = jax.tree.map(np.asarray, inputs.facts.constants)
    boosted = boosted_trees.fit(panel, days, constants, trained.validated, report_steps) if with_trees else None
    summary = {
        **trained.sizes(),
        **({"prior": prior.digest} if prior is not None else {}),
        "depots": len(panel.depot_ids),
        "trained_until": str(panel.days[days - 1]),
        "validated_until": str(panel.cutoff),
        **trained.results(),
        **({"lead_error": report_errors.declared(spec, panel)} if report_steps is not None else {}),
        **({"boosted": boosted.about, "trees_seconds": boosted.seconds} if boosted is not None else {}),
        **_measured(trained.history, compilations, time.monotonic() - started),
        "recurrence": training_loop.recurrence(spec),
    }
    blended = _blend_parameters(trained.weights, boosted)
    return uncalibrated(panel, trained.shape, trained.parameters, constants, blended, summary)


class Trained(NamedTuple):
    """The final members, the recipe that fitted into memory, and the history of the training."""

    recipe: Recipe
    shape: Architecture
    parameters: Any
    history: Sequence[Epoch]
    validation: Any  # losses of the final epochs, a list
    weights: Blend
    validated: Validated

    def sizes(self) -> dict[str, Any]:
        """Return the sizes that the recipe chose."""
        recipe = self.recipe
        sizes = {"epochs": recipe.epochs, "steps_an_epoch": recipe.steps, "batch": recipe.batch}
        return {**sizes, "members": len(recipe.restraints)}

    def results(self) -> dict[str, Any]:
        """Return the losses and weights."""
        losses = {"loss": self.history[-1].loss, "validation": self.validation}
        return {**losses, "trust": [float(x) for x in self.weights.members], "anchor": self.weights.anchor}


def _trained(
    panel: Panel,
    spec: Spec,
    recipe: Recipe,
    inputs: TrainingInputs,
    monitoring: Monitoring,
    compilations: Compilations,
    prior: Prior | None,
) -> Trained:
    """Train the members with the largest batch that fits into memory, halving it repeatedly."""
    while True:
        try:
            # Batch size is part of a compiled program, so a smaller batch starts over here.
            sizes = _sizes(panel, spec, recipe)
            state, history = training_loop.run(panel, spec, recipe, sizes, inputs, monitoring, compilations, prior)
            parameters = _best_parameters(state)
            losses = distributed.to_numpy((state.best_loss, state.last_loss))
            validation = np.where(_use_best_epoch(state), *losses).tolist()
            blended = _fit_blend(state, parameters, sizes, inputs)
            return Trained(recipe, sizes.architecture, parameters, history, validation, *blended)
        except Exception as error:
            if not devices.out_of_memory(error):
                raise
            # Half the crops per step and twice the steps: the same number of crops, with a smaller
            # peak of memory.
            half_batch = recipe.batch // 2 // jax.device_count() * jax.device_count()
            if half_batch < SMALLEST_BATCH:
                no_memory = N_("no memory left for a batch of {n} crops: {error}")
                raise TrainingError(sentence(no_memory, n=recipe.batch, error=error)) from error
            half = N_("no memory left for a batch of {n} crops: starting over with {half}")
            monitoring.report(sentence(half, n=recipe.batch, half=half_batch))
            recipe = replace(recipe, batch=half_batch, steps=2 * recipe.steps)


def _measured(history: Sequence[Epoch], compilations: Compilations, seconds: float) -> dict[str, Any]:
    """Return epochs, times and machine of a training, for a candidate's summary."""
    return {
        "history": [{name: getattr(e, name) for name in HISTORY_FIELDS} for e in history],
        "measured": [{name: getattr(e, name) for name in MEASURED_FIELDS} for e in history],
        "seconds": seconds,
        "first_epoch_seconds": history[0].seconds,
        "steps_seconds": sum(e.seconds for e in history[1:]),
        "compile_seconds": compilations.seconds,
        "compile_hits": compilations.hits,
        "compile_misses": compilations.misses,
        "depot_days_a_second": history[-1].depot_days_a_second,
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    }


def blank(panel: Panel, spec: Spec) -> Candidate:
    """Return a candidate as `fit` makes it for a panel, with zeros for all learned values.

    Raises NoUsableData if nothing was observed.
    """
    days, shape = panel.history - VALIDATION, architecture(panel, spec)
    members = len(choose_recipe(spec, len(panel.depot_ids), days).restraints)
    has_trees = spec.model.fits_trees(panel.horizon)
    trees = Boosted(boosted_trees.blank(panel.horizon), HALF, {}, 0.0) if has_trees else None
    return uncalibrated(
        panel,
        shape,
        blank_members(shape, members),
        jax.tree.map(np.asarray, constants(panel, days)),
        _blend_parameters(Blend(np.zeros(members, np.float32), 0.0), trees),
        summary={},
    )


def blank_members(shape: Architecture, count: int) -> Any:
    """Return zeros in place of the parameters of `count` members, (members, …) each."""
    # Only their shapes: drawing them would compile a dozen programs.
    sizes = jax.eval_shape(lambda: encoder_decoder.initial_parameters(shape, jax.random.key(0)))
    return jax.tree.map(lambda x: np.zeros((count, *x.shape), np.float32), sizes)


def uncalibrated(
    panel: Panel,
    shape: Architecture,
    members: Any,
    constants: Mapping[str, Any],
    blend_parameters: Mapping[str, Any],
    summary: Mapping[str, Any],
) -> Candidate:
    """Return a candidate for a panel's inputs, before calibration; `blend_parameters` are the
    weights of the members."""
    return Candidate(
        parameters={
            "members": members,
            "constants": constants,
            **blend_parameters,
            "calibration": np.ones((shape.horizon, len(shape.levels)), np.float32),
        },
        architecture=shape.to_json(),
        encoding=panel.encoding,
        calendar_names=panel.calendar_names,
        levels=shape.levels,
        horizon=panel.horizon,
        summary=summary,
    )


def _prior_to_begin_from(spec: Spec, prior: Prior | None) -> Prior | None:
    """Return the prior, by default the package's own; None if `training.start` is `fresh`."""
    if spec.training.start == "fresh":
        return None
    initial_prior: Prior = plugin("prior").load() if prior is None else prior
    return initial_prior


def _sizes(panel: Panel, spec: Spec, recipe: Recipe) -> ProgramSizes:
    """Return the static sizes of the compiled programs: those of the network, the crops and the
    batch."""
    shape = architecture(panel, spec)
    span = recipe.stride * (recipe.origins - 1)
    # The first origin of a crop is preceded by a quarter of `shape.scan`.
    crop = CropSizes(panel.horizon, recipe.origins, recipe.stride, span + 1 + shape.scan // 4, recipe.whole)
    return ProgramSizes(shape, crop, recipe.batch, VALIDATION, spec.training.precision)


def architecture(panel: Panel, spec: Spec) -> Architecture:
    """Return the architecture of a pipeline's network for a panel."""
    return Architecture(
        layers=spec.model.layers,
        hidden=spec.model.hidden,
        levels=spec.model.quantiles,
        horizon=panel.horizon,
        covariates=len(panel.encoding.covariates),
        calendar=len(panel.calendar_names),
        labels=tuple(len(labels) for labels in panel.encoding.statics.values()),
    )


def _training_inputs(panel: Panel, days: int, recipe: Recipe, report_steps: Floats | None = None) -> TrainingInputs:
    """Return the panel with its first `days` days for training, facts and restraints, replicated on
    all devices."""
    depots = len(panel.depot_ids)
    padded = devices.padded_count(depots)
    share = max(1, VALIDATION_DEPOTS // jax.device_count())  # per device
    validation_depots = np.linspace(0, depots - 1, min(share * jax.device_count(), padded)).astype(np.int32)
    facts = PanelFacts(
        days=jnp.int32(days),
        validation_start=jnp.int32(days),
        depots=jnp.int32(depots),
        validation_depots=jnp.asarray(validation_depots),
        constants=constants(panel, days),
        blur=jnp.asarray([BLUR * name.startswith(("year_", "month_")) for name in panel.calendar_names], jnp.float32),
        report_steps=None if report_steps is None else jnp.asarray(report_steps),
    )
    restraints = Restraints(
        jnp.asarray([restraint.dropout for restraint in recipe.restraints], jnp.float32),
        jnp.asarray([restraint.weight_decay for restraint in recipe.restraints], jnp.float32),
    )
    inputs = TrainingInputs(windows.on_device(panel, padded), facts, restraints)
    on_all_devices: TrainingInputs = devices.replicate(inputs, len(recipe.restraints))
    return on_all_devices


def constants(panel: Panel, days: int) -> dict[str, Array]:
    """Measure the constants of `features.make` on the training days.

    A single year cannot distinguish a season from a trend, and an input that was always absent in
    training is noise when it appears: with less than `YEARLY_WAVES_HISTORY` days, the waves of the
    year are omitted, and with less than `LAST_YEAR_HISTORY` the values of a year ago.
    """
    counts = panel.demand[:, :days][panel.open[:, :days]]
    log = np.log1p(counts[np.isfinite(counts)].astype(np.float64))
    if not log.size:
        raise NoUsableData(f"no observed demand up to {panel.days[days - 1]}, where training ends")
    waves = np.array([name.startswith("year_") for name in panel.calendar_names], bool)
    return {
        "mean": jnp.float32(log.mean()),
        "spread": jnp.float32(max(log.std(), 0.1)),
        "calendar": jnp.asarray(np.where(waves & (days < YEARLY_WAVES_HISTORY), 0, 1), jnp.float32),
        "yearly": jnp.float32(days >= LAST_YEAR_HISTORY),
    }


def _use_best_epoch(state: State) -> NDArray[np.bool_]:
    """Early stopping, (members,): True if an earlier epoch was clearly better than the last one."""
    best, last = distributed.to_numpy(state.best_loss), distributed.to_numpy(state.last_loss)
    early: NDArray[np.bool_] = best < (1 - EARLY_MARGIN) * last
    return early


def _best_parameters(state: State) -> Any:
    """Return each member's last parameters, or those of a clearly better epoch; on the host."""
    early = _use_best_epoch(state)

    def select(best: NDArray[np.float32], last: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.where(early.reshape(-1, *[1] * (last.ndim - 1)), best, last)

    return jax.tree.map(select, *distributed.to_numpy((state.best, state.parameters)))


def _fit_blend(state: State, parameters: Any, sizes: ProgramSizes, inputs: TrainingInputs) -> tuple[Blend, Validated]:
    """Return the ensemble weights of the final members, fitted on the validation days, and their
    blended medians."""
    members = len(state.best_loss)
    validate = compiled_steps.validation_step(sizes, members)
    _, validation = validate(state._replace(parameters=devices.deal(parameters, members)), inputs.panel, inputs.facts)
    quantiles, anchor, actual, scored, depots = distributed.to_numpy(
        (
            validation.output.quantiles,
            validation.output.anchor,
            validation.actual,
            validation.scored,
            inputs.facts.validation_depots,
        )
    )
    fitted = blend(quantiles, anchor[0], actual, scored, sizes.architecture.levels)
    middle = np.tensordot(fitted.members, quantiles[..., sizes.architecture.median], axes=1)
    return fitted, Validated(depots, middle + np.float32(fitted.anchor) * (anchor[0] - middle), actual, scored)


def _blend_parameters(weights: Blend, boosted: Boosted | None) -> dict[str, Any]:
    """Return the weights of the blend, and the trees if their weight is not 0."""
    shares = {"members": weights.members, "anchor": np.float32(weights.anchor)}
    if boosted is None or boosted.weight == 0:
        return {"blend": shares}
    return {"blend": {**shares, "trees": np.float32(boosted.weight)}, "trees": dict(boosted.arrays)}
