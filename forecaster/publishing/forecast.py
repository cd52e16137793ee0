"""Model selection and inference: the champion's bundle, else the prior's, or the seasonal-naive
fallback if neither is usable.

Imports neither JAX nor MLflow. There is always a forecast; one made without a model is labeled as
such.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from forecaster.config import Spec
from forecaster.core.forecast import CanaryTrial, Forecast
from forecaster.core.knowledge import Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import as_sentence, of_error, sentence
from forecaster.core.panel import Panel
from forecaster.demand.panel import build as panels
from forecaster.demand.panel.known_future import covariate_guard
from forecaster.errors import BundleError, SpecError
from forecaster.ledger.publication import Tier
from forecaster.ledger.records import Head
from forecaster.ledger.store import Ledger
from forecaster.plugins import plugin
from forecaster.publishing import caveats, champion_fit
from forecaster.publishing.caveats import Note
from forecaster.serving import bundle as bundles
from forecaster.serving.fallback import naive_where, seasonal_naive
from forecaster.serving.predict import Predictor

NAIVE, PRIOR = "seasonal naive", "prior"  # names for people


@dataclass(frozen=True)
class ModelChoice:
    """The model to forecast with: a bundle's folder, its display name, and the tier of its
    forecasts."""

    bundle: Path | None
    model: str
    tier: Tier
    absence: str = sentence(N_("no model was ever admitted"))  # reason why there is no bundle
    trial: CanaryTrial | None = None  # the canary that also forecasts
    standby: Path | None = None  # the prior's bundle, used if this one is unusable
    is_required: bool = False  # named by a command: there is no fallback


@dataclass(frozen=True)
class ForecastResult:
    """A forecast, its model and panel, and its notes."""

    forecast: Forecast
    panel: Panel
    choice: ModelChoice  # the fallback if the chosen bundle was unusable
    digest: str | None
    notes: list[Note]
    lookback: int | None = None  # lookback of the bundle in days
    # depots that got the seasonal naive, although a bundle forecast the others
    strangers: frozenset[str] = frozenset()
    seconds: float = 0.0  # duration of the inference
    beside: Beside | None = None  # None: no canary
    held_back: tuple[Note, ...] = ()  # the subset of notes on covariates

    def parts(self) -> tuple[ForecastResult, ...]:
        """Results by model, each for the depots that see its numbers; only itself if all see the
        same model."""
        if self.beside is None:
            return (self,)
        champion_depots = [depot for depot in self.panel.depot_ids if depot not in self.beside.cohort]
        champion = replace(self, forecast=self.beside.champion, beside=None)
        return champion.among(champion_depots), self.beside.canary.among(sorted(self.beside.cohort))

    def among(self, depot_ids: Collection[str]) -> ForecastResult:
        """Return the same result for these depots only."""
        rows = {depot: row for row, depot in enumerate(self.forecast.depot_ids)}
        places = [rows[depot] for depot in depot_ids]
        selection = replace(
            self.forecast,
            depot_ids=tuple(depot_ids),
            quantiles=self.forecast.quantiles[places],
            open=self.forecast.open[places],
        )
        return replace(self, forecast=selection, panel=self.panel.among(tuple(depot_ids)))


@dataclass(frozen=True)
class Beside:
    """Forecasts of champion and canary for all depots; each depot sees the numbers of one of them."""

    champion: Forecast
    canary: ForecastResult
    cohort: frozenset[str]  # current depots that see the canary's numbers


def choose(spec: Spec, ledger: Ledger, *, promoted_by: str | None = None) -> ModelChoice:
    """Choose the reigning champion, or the prior or the fallback if there is none; `promoted_by` is
    the current run."""
    reigning = ledger.champion(spec.name)
    is_night = promoted_by is not None and ledger.run(promoted_by).kind == "night"
    digest = standby_bundle(ledger.current(spec.name), promoted_by if is_night else None)
    standby = spec.paths.bundle(digest) if digest else None
    if reigning is None:
        if standby is not None:
            return of_prior(standby)
        absence = champion_fit.under_another_name(spec, ledger)
        return ModelChoice(None, NAIVE, "fallback", absence or ModelChoice.absence)
    label = (
        f"{spec.name} v{reigning.model_version}" if reigning.model_version else f"{spec.name} {reigning.bundle_digest}"
    )
    tier: Tier = "fresh" if promoted_by is not None and reigning.run_id == promoted_by else "champion"
    bundle, trial = spec.paths.bundle(reigning.bundle_digest), _canary_beside(spec, ledger)
    return ModelChoice(bundle, label, tier, trial=trial, standby=standby)


def of_prior(bundle: Path) -> ModelChoice:
    """Choice of the prior, with the bundle that a preview made from it."""
    return ModelChoice(bundle, PRIOR, "prior")


def standby_bundle(head: Head | None, night: str | None) -> str | None:
    """Bundle that forecasts if there is no usable champion; None: the seasonal naive.

    The prior stands by if it was found better than the seasonal naive (`training.preview`) and
    forecast the shown publication: in this very run if that is a `night`, which judges it again,
    otherwise in any run.
    """
    if head is None or head.tier != "prior" or night not in (None, head.run_id):
        return None
    return head.bundle_digest


def _canary_beside(spec: Spec, ledger: Ledger) -> CanaryTrial | None:
    if spec.canary is None:
        return None
    with ledger.transaction() as connection:
        trial: CanaryTrial | None = plugin("canary.ledger").running(connection, spec.name)
    return trial


def choose_as_of(spec: Spec, at: datetime, bundle: Path | None) -> ModelChoice:
    """Choose the model that may forecast a past date: a bundle made as of it, else the champion at
    that time, else the fallback."""
    if bundle is not None:
        return ModelChoice(bundle, f"{spec.name} {bundle.name}", "fresh")
    with Ledger.open(spec.ledger_url) as ledger:
        reigned = ledger.champion(spec.name, at=at)
    if reigned is None:
        return ModelChoice(None, NAIVE, "fallback", sentence(N_("no model had been admitted by then")))
    digest = reigned.bundle_digest
    return ModelChoice(spec.paths.bundle(digest), f"{spec.name} {digest}", "champion")


def forecast(spec: Spec, choice: ModelChoice, knowledge: Knowledge) -> ForecastResult:
    """Forecast by the chosen bundle or, if it is unusable, by the standby prior or the fallback;
    nothing is written.

    Raises NoUsableData if there is no data to start from, StaleHistory if it is too old, SpecError
    if a required bundle is unusable.
    """
    # Any fault of a bundle raises BundleError, and another model forecasts instead.
    try:
        result, _ = forecast_of_bundle(spec, choice, knowledge)
    except BundleError as error:
        if choice.is_required:
            raise SpecError(
                f"--bundle: {error}; nothing was published. Without --bundle the champion forecasts"
            ) from error
        result = _without_bundle(spec, choice, knowledge, error)
    if result.choice.tier == "prior":  # the page shows readers this tier
        why = sentence(N_("The prior forecasts: {why}."), why=result.choice.absence)
        result = replace(result, notes=[Note(why, ""), *result.notes])
    panel = result.panel
    caveats.refuse_stale(panel, spec, knowledge.as_of)
    of_feed = caveats.stale_feed(panel.cutoff, spec, knowledge.as_of)
    of_depots = caveats.notes([*caveats.silent_depots(panel, spec), *caveats.totals_among_depots(panel)])
    notes = [*result.notes, *of_feed, *of_depots]
    return replace(result, notes=notes)


def _without_bundle(spec: Spec, choice: ModelChoice, knowledge: Knowledge, error: BundleError) -> ForecastResult:
    """Forecast by the prior in place of an unusable bundle, or by the seasonal naive if no prior
    stands by."""
    if choice.standby is not None:
        prior = replace(of_prior(choice.standby), absence=of_error(error))
        with suppress(BundleError):
            return forecast_of_bundle(spec, prior, knowledge)[0]
    for_readers = N_("The numbers repeat the same weekdays of earlier weeks: {why}.")
    fallback = sentence(N_("Seasonal-naive fallback: {why}."), why=of_error(error))
    notes = [Note(fallback, sentence(for_readers, why=as_sentence(error.for_readers)))]
    panel = panels.build(knowledge, spec)
    predicted = seasonal_naive(panel, spec.model.quantiles)
    return ForecastResult(predicted, panel, ModelChoice(None, NAIVE, "fallback"), None, notes)


def is_usable(spec: Spec, bundle: Path) -> bool:
    """Return true if a bundle is readable and trusted, and forecasts what the pipeline file
    requests."""
    try:
        manifest = bundles.load(bundle, spec.paths.folder).manifest
    except BundleError:
        return False
    return champion_fit.obstacles(spec, manifest) is None


def forecast_of_bundle(
    spec: Spec, choice: ModelChoice, knowledge: Knowledge, panel: Panel | None = None
) -> tuple[ForecastResult, Predictor]:
    """Forecast by the chosen bundle, and its predictor; a suitable `panel` is not rebuilt.

    Raises BundleError if it is unusable, NoUsableData if there is no data to start from.
    """
    predictor = ready_predictor(spec, choice)
    if panel is None or panel.encoding.to_json() != predictor.bundle.encoding.to_json():
        panel = panels.build(knowledge, spec, predictor.bundle.encoding)
    return predicted_by(predictor, panel, spec, choice), predictor


def ready_predictor(spec: Spec, choice: ModelChoice) -> Predictor:
    """The chosen bundle, verified and ready to forecast. Raises BundleError if it is unusable."""
    if choice.bundle is None:
        raise BundleError(choice.absence, for_readers=N_("no model has passed its checks yet"))
    predictor = Predictor(bundles.load(choice.bundle, spec.paths.folder))
    if obstacle := champion_fit.obstacles(spec, predictor.bundle.manifest):
        raise BundleError(obstacle, for_readers=champion_fit.OBSTACLE)
    return predictor


def predicted_by(predictor: Predictor, panel: Panel, spec: Spec, choice: ModelChoice) -> ForecastResult:
    """Forecast of a bundle for the depots of a panel built for it."""
    trained_on = predictor.bundle.manifest.get("depots", panel.depot_ids)
    new = caveats.newcomers(panel, trained_on, predictor.bundle.encoding.statics)
    begun = time.perf_counter()
    predicted, digest = predictor(panel), predictor.bundle.name
    seconds = time.perf_counter() - begun
    predicted, panel, odd = covariate_guard.without_odd_covariates(predicted, panel, predictor)
    held_back = tuple(Note(*texts) for texts in odd)
    notes = [*new.notes(), *differing(spec, predictor), *held_back]
    predicted = naive_where(predicted, panel, new.rows)
    unknown_depots, lookback = frozenset(new.strangers), predictor.bundle.lookback
    return ForecastResult(
        predicted, panel, choice, digest, notes, lookback, unknown_depots, seconds, held_back=held_back
    )


def differing(spec: Spec, predictor: Predictor) -> list[Note]:
    """Differences between a bundle and the pipeline file."""
    differences = champion_fit.differences(spec, predictor.bundle.manifest)
    return [Note(text, "" if place else as_sentence(champion_fit.DIFFERENCE)) for place, text in enumerate(differences)]
