"""Explain a forecast's change since the day before (`attribution`): recompute it after each swap of
an input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Forecast
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.demand.panel import build as panels
from forecaster.errors import BundleError, DeskError, NoUsableData
from forecaster.ledger.publication import Publication, PublishedChange
from forecaster.ledger.store import Ledger
from forecaster.planning import saved_inputs
from forecaster.planning.saved_inputs import SavedInputs
from forecaster.publishing import attribution
from forecaster.publishing.attribution import Swaps
from forecaster.serving import bundle as bundles
from forecaster.serving import recalibrate
from forecaster.serving.bundle import Bundle
from forecaster.serving.fallback import seasonal_naive
from forecaster.serving.predict import Predictor

if TYPE_CHECKING:
    from forecaster.publishing.forecast import ForecastResult

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class EarlierPublication:
    """The publication of the last day before, and its inputs."""

    publication: Publication
    since: date
    inputs: SavedInputs
    bundle: Bundle | None  # None: the seasonal naive
    predictor: Predictor | None

    def forecast(self, panel: Panel) -> Forecast:
        """Forecast of a panel by the earlier model; the seasonal naive if it had none."""
        return self.predictor(panel) if self.predictor else seasonal_naive(panel, self.publication.levels)


def explain_changes(
    ledger: Ledger, spec: Spec, knowledge: Knowledge, result: ForecastResult, overridden: Forecast, as_of: datetime
) -> dict[tuple[int, int], PublishedChange]:
    """Attributed changes of each day's median since the forecast published the day before, by
    positions of depot and day.

    Days without an earlier forecast are omitted. `overridden` is the current forecast with the
    planners' numbers.
    """
    local = as_of.astimezone(spec.zone)
    previous = ledger.published_before(spec.name, datetime.combine(local.date(), time(), spec.zone))
    if previous is None or 0.5 not in previous.levels or previous.cutoff > result.panel.cutoff:
        return {}
    published, model = _published_medians(previous, result.forecast)
    since = previous.as_of.astimezone(spec.zone).date()
    rows = {depot: row for row, depot in enumerate(result.forecast.depot_ids)}
    changes: dict[tuple[int, int], PublishedChange] = {}
    for part, inputs in _parts(spec, previous, result):
        places = [rows[depot] for depot in part.forecast.depot_ids]
        of_part = published[places], model[places], overridden.median[places].astype(float)
        for (row, step), change in _changes_of(spec, previous, inputs, knowledge, part, *of_part, since).items():
            changes[places[row], step] = change
    return changes


def _parts(
    spec: Spec, previous: Publication, result: ForecastResult
) -> Iterator[tuple[ForecastResult, SavedInputs | None]]:
    """Groups of depots that see the same model now and saw the same one then, with its inputs; None
    if these are gone."""
    try:
        saved = saved_inputs.read(spec.paths.saved_inputs, previous.desk)
    except DeskError:
        yield from ((part, None) for part in result.parts())
        return
    saw = saved.canary.cohort if saved.canary else frozenset[str]()
    for part in result.parts():
        depot_ids = part.forecast.depot_ids
        for group in ([d for d in depot_ids if d not in saw], [d for d in depot_ids if d in saw]):
            if group:
                yield part if len(group) == len(depot_ids) else part.among(group), saved.of(group[0])


def _changes_of(
    spec: Spec,
    previous: Publication,
    inputs: SavedInputs | None,
    knowledge: Knowledge,
    result: ForecastResult,
    published: Doubles,
    model: Doubles,
    now: Doubles,
    since: date,
) -> dict[tuple[int, int], PublishedChange]:
    """Changes of one part, by its own positions."""
    tonight = result.forecast.median.astype(float)
    try:
        if inputs is None:
            raise DeskError("what the earlier publication was made from is gone")
        earlier = _read_earlier(spec, previous, inputs)
        swaps = _swap_inputs(earlier, spec, knowledge, result, published, model, now)
    except (BundleError, DeskError, NoUsableData):  # its inputs are gone: the whole change counts as the model's
        swaps = Swaps(published, model, model, model, model, model, tonight, tonight, now)
    split, compared = attribution.attribute_change(swaps), np.isfinite(published)
    return {
        (row, step): PublishedChange(
            since,
            round(published[row, step]),
            tuple((name, int(split[name][row, step])) for name in attribution.ORDER),
        )
        for row, step in zip(*(axis.tolist() for axis in compared.nonzero()), strict=True)
    }


def _read_earlier(spec: Spec, previous: Publication, inputs: SavedInputs) -> EarlierPublication:
    bundle = predictor = None
    if inputs.bundle is not None:
        folder = spec.paths.bundle(inputs.bundle)
        bundle = bundles.load(folder, spec.paths.folder)
        predictor = Predictor(bundle)
    return EarlierPublication(previous, previous.as_of.astimezone(spec.zone).date(), inputs, bundle, predictor)


def _swap_inputs(
    earlier: EarlierPublication,
    spec: Spec,
    knowledge: Knowledge,
    result: ForecastResult,
    published: Doubles,
    model: Doubles,
    now: Doubles,
) -> Swaps:
    """Medians after each swap; depots missing in the earlier forecast stay NaN."""
    old, tonight = earlier.inputs.panel, result.forecast.median.astype(float)
    same = old.encoding.to_json() == result.panel.encoding.to_json()
    today = result.panel if same else panels.build(knowledge, spec, old.encoding)
    depots_tonight = set(result.panel.depot_ids)
    common = [depot for depot in old.depot_ids if depot in depots_tonight]
    then, today = old.among(common), today.among(common)
    if (then.horizon, then.calendar_names) != (today.horizon, today.calendar_names):
        raise BundleError("the earlier model knew other features of a day, or other days ahead")
    # From then to now in steps: known facts about the forecast days, then corrected counts, then
    # the days since, then the model.
    before = today.at(then.cutoff)
    informed = _with_known_future(then, before)
    reproduced, calendar, restated = (
        _align_medians(earlier.forecast(panel), result.forecast) for panel in (then, informed, before)
    )
    if earlier.inputs.bundle == result.digest:
        actuals = weights = _nan_where_missing(tonight, reproduced)
    else:
        actuals = _align_medians(earlier.forecast(today), result.forecast)
        weights = _nan_where_missing(_with_earlier_calibration(earlier, spec, result), reproduced)
    is_unknown = np.array([depot in earlier.inputs.strangers for depot in result.panel.depot_ids], bool)
    gaps = (
        np.isnan(reproduced) | is_unknown[:, None]
    )  # the seasonal naive was published for depots unknown to the earlier model
    reproduced, calendar, restated, actuals = (
        np.where(gaps, model, m) for m in (reproduced, calendar, restated, actuals)
    )
    weights = np.where(gaps, tonight, weights)
    return Swaps(published, model, reproduced, calendar, restated, actuals, weights, tonight, now)


def _with_earlier_calibration(earlier: EarlierPublication, spec: Spec, result: ForecastResult) -> Doubles:
    """Current medians with the earlier calibration."""
    tonight = result.forecast.median
    if earlier.bundle is None or result.digest is None:
        return tonight.astype(float)
    assert result.choice.bundle is not None  # it has a digest
    bundle = bundles.load(result.choice.bundle, spec.paths.folder)
    medians = recalibrate.medians(tonight, result.panel, bundle, earlier.bundle)
    is_unknown = np.array([depot in result.strangers for depot in result.panel.depot_ids], bool)
    return np.where(is_unknown[:, None], tonight.astype(float), medians)


def _with_known_future(then: Panel, now: Panel) -> Panel:
    """Return the earlier panel with the current knowledge of its forecast days."""

    def joined(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([old[:, : then.history], new[:, -then.horizon :]], axis=1)

    return replace(
        then,
        open=joined(then.open, now.open),
        covariates=joined(then.covariates, now.covariates),
        calendar=joined(_calendar_of_depots(then), _calendar_of_depots(now)),
        calendar_group=np.arange(len(then.depot_ids), dtype=np.int32),
    )


def _calendar_of_depots(panel: Panel) -> NDArray[np.float32]:
    """Calendar features of each depot."""
    calendar: NDArray[np.float32] = panel.calendar[panel.calendar_group]
    return calendar


def _nan_where_missing(values: Doubles, where: Doubles) -> Doubles:
    return np.where(np.isnan(where), np.nan, values)


def _published_medians(previous: Publication, tonight: Forecast) -> tuple[Doubles, Doubles]:
    """Medians of the earlier publication and of its model, on the current depots and days; NaN if
    it had none."""
    middle, days = previous.levels.index(0.5), {depot.depot_id: depot.days for depot in previous.depots}
    steps = {day: step for step, day in enumerate(tonight.target_dates)}
    published = np.full((len(tonight.depot_ids), len(steps)), np.nan)
    model = published.copy()
    for row, depot in enumerate(tonight.depot_ids):
        for day in days.get(depot, ()):
            if day.target_date in steps:
                cell = row, steps[day.target_date]
                published[cell] = day.quantiles[middle]
                model[cell] = day.override.quantiles[middle] if day.override else day.quantiles[middle]
    return published, model


def _align_medians(forecast: Forecast, tonight: Forecast) -> Doubles:
    """Medians of a forecast on the current depots and days; NaN if it has none."""
    rows = {depot: row for row, depot in enumerate(forecast.depot_ids)}
    steps = {day: step for step, day in enumerate(forecast.target_dates)}
    row = np.array([rows.get(depot, -1) for depot in tonight.depot_ids])
    step = np.array([steps.get(day, -1) for day in tonight.target_dates])
    medians = forecast.median.astype(float)[row[:, None], step[None]]
    return np.where((row >= 0)[:, None] & (step >= 0)[None], medians, np.nan)
