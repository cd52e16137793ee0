"""Train the network end to end: the whole epoch compiled, members side by side, every chance from
an explicit key.

The days before the cutoff fall into two parts. Crops (windows of random depots that end on random
days) of the first part train; the last `VALIDATION` days say how far each member is trusted
(`ensemble`), and later calibrate the intervals. Early stopping chooses among the epochs: a member
keeps its last parameters, or those of an earlier epoch that was better on these days by more than
`EARLY_MARGIN`: a smaller difference on so few days was mostly chance. The kept parameters go out as
they are: there is no refit, so the model that was judged is the model that forecasts.
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
# how far the waves of year and month are off in a crop; exact ones name the date, which is learned
# by heart
BLUR = 0.5
EARLY_MARGIN = 0.05  # share by which an earlier epoch must have been better
VALIDATION_DEPOTS = 256  # depots that validation looks at, at most; with more devices one each
SMALLEST_BATCH = 8  # crops a batch, below which less memory is no help
# days of history from which the waves of the year are distinguished from a trend
YEARLY_WAVES_HISTORY = 730
LAST_YEAR_HISTORY = 540  # days of history from which enough crops know their last year
# Of an epoch, what is the same whenever the training is repeated, and what is of this run alone:
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
    """A candidate trained on everything up to the panel's cutoff.

    Same panel, spec and device: the same parameters to the last bit, also when a killed training
    goes on from its checkpoint in the folder `checkpoints`. `profile` is a folder for a trace of
    two epochs; `epochs` and `steps` replace the recipe's, `prior` the package's own. Raises
    NoUsableData, MissingExtra without LightGBM, and TrainingError when the loss is no number or the
    smallest batch is too large for the memory.
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
    """Members as they go out, by the recipe that fitted the memory, and how they came to it."""

    recipe: Recipe
    shape: Architecture
    parameters: Any
    history: Sequence[Epoch]
    validation: Any  # losses of the epochs that go out, a list
    weights: Blend
    validated: Validated

    def sizes(self) -> dict[str, Any]:
        """What the recipe chose."""
        recipe = self.recipe
        sizes = {"epochs": recipe.epochs, "steps_an_epoch": recipe.steps, "batch": recipe.batch}
        return {**sizes, "members": len(recipe.restraints)}

    def results(self) -> dict[str, Any]:
        """Losses and weights."""
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
    """The members, trained with the largest batch, halved again and again, that the memory
    holds."""
    while True:
        try:
            # The compiled programs know the batch by its size, so a smaller batch starts here
            # again.
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
            # Half the crops a step and twice the steps: as many crops in all, a smaller peak of
            # memory.
            half_batch = recipe.batch // 2 // jax.device_count() * jax.device_count()
            if half_batch < SMALLEST_BATCH:
                no_memory = N_("no memory left for a batch of {n} crops: {error}")
                raise TrainingError(sentence(no_memory, n=recipe.batch, error=error)) from error
            half = N_("no memory left for a batch of {n} crops: starting over with {half}")
            monitoring.report(sentence(half, n=recipe.batch, half=half_batch))
            recipe = replace(recipe, batch=half_batch, steps=2 * recipe.steps)


def _measured(history: Sequence[Epoch], compilations: Compilations, seconds: float) -> dict[str, Any]:
    """Epochs, times and machine of a training, in a candidate's summary."""
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
    """A candidate as `fit` makes it of a panel, with zeros for all that is learned.

    Raises NoUsableData where nothing was observed.
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
    """Zeros in the place of the parameters of so many members, (members, …) each."""
    # Their shapes alone: to draw them would compile a dozen programs.
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
    """A candidate for what a panel holds, before calibration; `blend_parameters` say how much each
    member counts."""
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
    """The prior, by default the package's own; None where `training.start` is `fresh`."""
    if spec.training.start == "fresh":
        return None
    own: Prior = plugin("prior").load() if prior is None else prior
    return own


def _sizes(panel: Panel, spec: Spec, recipe: Recipe) -> ProgramSizes:
    """The static sizes of the compiled programs: the network's, the crops' and the batch's."""
    shape = architecture(panel, spec)
    span = recipe.stride * (recipe.origins - 1)
    # The state of a crop's first origin has read a quarter of `shape.scan`.
    crop = CropSizes(panel.horizon, recipe.origins, recipe.stride, span + 1 + shape.scan // 4, recipe.whole)
    return ProgramSizes(shape, crop, recipe.batch, VALIDATION, spec.training.precision)


def architecture(panel: Panel, spec: Spec) -> Architecture:
    """The network of a pipeline, for what its panel holds."""
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
    """The panel with its first `days` days to learn from, facts and restraints, replicated on all
    devices."""
    depots = len(panel.depot_ids)
    padded = devices.padded_count(depots)
    share = max(1, VALIDATION_DEPOTS // jax.device_count())  # of a device
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
    """The constants of `features.make`, measured on the training days.

    A year that was seen once tells a season from a trend no better than chance, and an input that
    was never there in training is noise when it comes: with less than `YEARLY_WAVES_HISTORY` days
    the waves of the year are left out, with less than `LAST_YEAR_HISTORY` what was a year ago.
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
    """Early stopping, (members,): was an earlier epoch clearly better than the last one?"""
    best, last = distributed.to_numpy(state.best_loss), distributed.to_numpy(state.last_loss)
    early: NDArray[np.bool_] = best < (1 - EARLY_MARGIN) * last
    return early


def _best_parameters(state: State) -> Any:
    """Each member's last parameters, or those of a clearly better epoch; on the host."""
    early = _use_best_epoch(state)

    def select(best: NDArray[np.float32], last: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.where(early.reshape(-1, *[1] * (last.ndim - 1)), best, last)

    return jax.tree.map(select, *distributed.to_numpy((state.best, state.parameters)))


def _fit_blend(state: State, parameters: Any, sizes: ProgramSizes, inputs: TrainingInputs) -> tuple[Blend, Validated]:
    """Ensemble weights of the members as they go out, fitted on the validation days, and the
    medians that they make."""
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
    """The weights of what is blended, and the trees where they weigh anything."""
    shares = {"members": weights.members, "anchor": np.float32(weights.anchor)}
    if boosted is None or boosted.weight == 0:
        return {"blend": shares}
    return {"blend": {**shares, "trees": np.float32(boosted.weight)}, "trees": dict(boosted.arrays)}
