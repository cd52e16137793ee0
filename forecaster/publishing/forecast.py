"""Model selection and inference: the champion's bundle, else the prior's, or the seasonal-naive
fallback where none can be used.

No JAX, no MLflow. There is always a forecast: what goes out without a model says so.
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
    """The model that shall forecast: a bundle's folder, its name for people, and the tier of what
    it says."""

    bundle: Path | None
    model: str
    tier: Tier
    absence: str = sentence(N_("no model was ever admitted"))  # why there is no bundle
    trial: CanaryTrial | None = None  # the canary that forecasts next to it
    standby: Path | None = None  # the prior's bundle, which forecasts where this one cannot be used
    is_required: bool = False  # named by a command: nothing else forecasts in its place


@dataclass(frozen=True)
class ForecastResult:
    """A forecast, what made it from which panel, and what has to be said of it."""

    forecast: Forecast
    panel: Panel
    choice: ModelChoice  # the fallback where the chosen bundle could not be used
    digest: str | None
    notes: list[Note]
    lookback: int | None = None  # days that the bundle looks back
    # depots that got the seasonal naive, though a bundle made the others'
    strangers: frozenset[str] = frozenset()
    seconds: float = 0.0  # of the inference
    beside: Beside | None = None  # None: no canary
    held_back: tuple[Note, ...] = ()  # of the notes, those about covariates

    def parts(self) -> tuple[ForecastResult, ...]:
        """Results by model for the depots that see its numbers; itself where all see those of
        one."""
        if self.beside is None:
            return (self,)
        others = [depot for depot in self.panel.depot_ids if depot not in self.beside.cohort]
        champion = replace(self, forecast=self.beside.champion, beside=None)
        return champion.among(others), self.beside.canary.among(sorted(self.beside.cohort))

    def among(self, depot_ids: Collection[str]) -> ForecastResult:
        """The same of these depots alone."""
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
    """Forecasts of champion and canary for all depots, of whose numbers each depot sees one."""

    champion: Forecast
    canary: ForecastResult
    cohort: frozenset[str]  # the depots of tonight that see the canary's


def choose(spec: Spec, ledger: Ledger, *, promoted_by: str | None = None) -> ModelChoice:
    """The reigning champion, the prior or the fallback when there is none; `promoted_by` is
    tonight's run."""
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
    """The prior, as the bundle that a preview made of it."""
    return ModelChoice(bundle, PRIOR, "prior")


def standby_bundle(head: Head | None, night: str | None) -> str | None:
    """The bundle that forecasts where there is no champion, or none that can be used; None: the
    seasonal naive does.

    The prior stands by where it was found better than the seasonal naive (`training.preview`) and
    forecast what is shown: in this very run where that is a `night`, which judges it anew, else in
    whichever.
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
    """The model that may forecast a past date: a bundle made as of it, else the champion of then,
    else the fallback."""
    if bundle is not None:
        return ModelChoice(bundle, f"{spec.name} {bundle.name}", "fresh")
    with Ledger.open(spec.ledger_url) as ledger:
        reigned = ledger.champion(spec.name, at=at)
    if reigned is None:
        return ModelChoice(None, NAIVE, "fallback", sentence(N_("no model had been admitted by then")))
    digest = reigned.bundle_digest
    return ModelChoice(spec.paths.bundle(digest), f"{spec.name} {digest}", "champion")


def forecast(spec: Spec, choice: ModelChoice, knowledge: Knowledge) -> ForecastResult:
    """The forecast of the chosen bundle, or, where it cannot be used, of the prior that stands by
    or the fallback; nothing is written.

    Raises NoUsableData when there is nothing to start from, StaleHistory when that is too old,
    SpecError when a required bundle cannot be used.
    """
    # Whatever is wrong with a bundle raises BundleError, and something else goes out in its place.
    try:
        result, _ = forecast_of_bundle(spec, choice, knowledge)
    except BundleError as error:
        if choice.is_required:
            raise SpecError(
                f"--bundle: {error}; nothing was published. Without --bundle the champion forecasts"
            ) from error
        result = _without_bundle(spec, choice, knowledge, error)
    if result.choice.tier == "prior":  # of which the tier tells readers
        why = sentence(N_("The prior forecasts: {why}."), why=result.choice.absence)
        result = replace(result, notes=[Note(why, ""), *result.notes])
    panel = result.panel
    caveats.refuse_stale(panel, spec, knowledge.as_of)
    of_feed = caveats.stale_feed(panel.cutoff, spec, knowledge.as_of)
    of_depots = caveats.notes([*caveats.silent_depots(panel, spec), *caveats.totals_among_depots(panel)])
    notes = [*result.notes, *of_feed, *of_depots]
    return replace(result, notes=notes)


def _without_bundle(spec: Spec, choice: ModelChoice, knowledge: Knowledge, error: BundleError) -> ForecastResult:
    """Forecast of the prior in place of an unusable bundle, or of the seasonal naive where none
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
    """True if a bundle can be read, is trusted, and forecasts what the pipeline file asks for."""
    try:
        manifest = bundles.load(bundle, spec.paths.folder).manifest
    except BundleError:
        return False
    return champion_fit.obstacles(spec, manifest) is None


def forecast_of_bundle(
    spec: Spec, choice: ModelChoice, knowledge: Knowledge, panel: Panel | None = None
) -> tuple[ForecastResult, Predictor]:
    """Forecast of the chosen bundle with its source; a `panel` that suits it is not built again.

    Raises BundleError where it cannot be used, NoUsableData when there is nothing to start from.
    """
    predictor = ready_predictor(spec, choice)
    if panel is None or panel.encoding.to_json() != predictor.bundle.encoding.to_json():
        panel = panels.build(knowledge, spec, predictor.bundle.encoding)
    return predicted_by(predictor, panel, spec, choice), predictor


def ready_predictor(spec: Spec, choice: ModelChoice) -> Predictor:
    """The chosen bundle, verified and ready to forecast. Raises BundleError where it cannot be
    used."""
    if choice.bundle is None:
        raise BundleError(choice.absence, for_readers=N_("no model has passed its checks yet"))
    predictor = Predictor(bundles.load(choice.bundle, spec.paths.folder))
    if obstacle := champion_fit.obstacles(spec, predictor.bundle.manifest):
        raise BundleError(obstacle, for_readers=champion_fit.OBSTACLE)
    return predictor


def predicted_by(predictor: Predictor, panel: Panel, spec: Spec, choice: ModelChoice) -> ForecastResult:
    """Forecast of a bundle for the depots of a panel that was built for it."""
    trained_on = predictor.bundle.manifest.get("depots", panel.depot_ids)
    new = caveats.newcomers(panel, trained_on, predictor.bundle.encoding.statics)
    begun = time.perf_counter()
    predicted, digest = predictor(panel), predictor.bundle.name
    seconds = time.perf_counter() - begun
    predicted, panel, odd = covariate_guard.without_odd_covariates(predicted, panel, predictor)
    held_back = tuple(Note(*texts) for texts in odd)
    notes = [*new.notes(), *differing(spec, predictor), *held_back]
    predicted = naive_where(predicted, panel, new.rows)
    strangers, lookback = frozenset(new.strangers), predictor.bundle.lookback
    return ForecastResult(predicted, panel, choice, digest, notes, lookback, strangers, seconds, held_back=held_back)


def differing(spec: Spec, predictor: Predictor) -> list[Note]:
    """Differences between a bundle and the pipeline file."""
    differences = champion_fit.differences(spec, predictor.bundle.manifest)
    return [Note(text, "" if place else as_sentence(champion_fit.DIFFERENCE)) for place, text in enumerate(differences)]
