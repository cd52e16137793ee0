"""What-if analysis of a depot's day: orders, drivers, vans and money, before and after; nothing is kept.

The model reads the inputs that the night saved (`saved_inputs`) with one of them changed, for this depot alone; then
the day is staffed anew for all depots, since they share vans. What is compared is what is published, so overrides that
hold stay on both sides, but for the one that is supposed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from forecaster.core.arrays import Bools
from forecaster.core.forecast import Forecast
from forecaster.core.state_paths import StatePaths
from forecaster.errors import BundleError, OverrideError
from forecaster.ledger.publication import Publication
from forecaster.planning import apply, refresh, saved_inputs
from forecaster.planning.overrides import ProposedOverride
from forecaster.planning.saved_inputs import SavedInputs
from forecaster.planning.scenario import BUILT_IN, CLOSED, OPEN, ORDERS, Side, Supposition, WhatIfAnswer
from forecaster.staffing import rosters
from forecaster.staffing.newsvendor import Roster

if TYPE_CHECKING:
    from forecaster.serving.predict import Predictor


class Questions:
    """What-if questions of one publication, with its inputs and its model in memory; threads may share it."""

    def __init__(
        self, publication: Publication, inputs: SavedInputs, predictor: Predictor | None, missing: str | None
    ) -> None:
        self._publication, self._inputs, self._predictor, self._missing = publication, inputs, predictor, missing
        self._model = refresh.model_forecast(publication, inputs.panel)
        self._openable = refresh.openable_days(publication)
        self._before: dict[int, Roster | None] = {}  # of each day that was asked about, as it is published
        days = {depot.depot_id: depot.days for depot in publication.depots}
        self._at = {
            (row, step): day.override
            for row, depot in enumerate(inputs.panel.depot_ids)
            for step, day in enumerate(days.get(depot, ()))
            if day.override
        }

    @classmethod
    def of(cls, state: Path, publication: Publication) -> Questions:
        """Reads saved inputs and bundle, which is verified first; a bundle that cannot be used is told when it is
        needed.

        Raises DeskError where the night's inputs are not at hand.
        """
        inputs = saved_inputs.read(StatePaths(state).saved_inputs, publication.desk)
        if inputs.bundle is None:
            return cls(publication, inputs, None, "no model forecasts at present, the seasonal naive does")
        # With onnxruntime, which a page that nobody asks can do without.
        from forecaster.serving import bundle as bundles
        from forecaster.serving.predict import Predictor

        try:
            predictor = Predictor(
                bundles.load(StatePaths(state).bundle(inputs.bundle), state), threads=1
            )  # of one depot
        except BundleError as error:
            return cls(publication, inputs, None, str(error))
        return cls(publication, inputs, predictor, None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What may be supposed."""
        return (*self._inputs.panel.encoding.covariates, *BUILT_IN) if self._predictor else (ORDERS, CLOSED)

    @property
    def missing(self) -> str | None:
        """Why no model answers; None where one does."""
        return self._missing

    def ask(self, supposed: Supposition, visible: Collection[str] | None = None) -> WhatIfAnswer:
        """The answer of a scenario; `cost_of_all` sums over the `visible` depots, all of them by default.

        Raises OverrideError for what cannot be supposed, BundleError where no model can answer it.
        """
        row, step = self._locate(supposed)
        model, numbers = self._model, {cell: override.orders for cell, override in self._at.items()}
        before, supposing = apply.with_orders(model, numbers), dict(numbers)
        if supposed.kind == ORDERS:
            supposing[row, step] = ProposedOverride(
                supposed.depot_id, supposed.target_date, _whole_number(supposed.value), "", "what-if"
            ).orders
        elif supposed.kind == CLOSED and self._predictor is None:
            model = _close_day(model, row, step)
        else:
            model = self._ask_model(supposed, row, step)
        # Overrides that hold stay on both sides, but for those of days that are closed by the question.
        if supposed.kind == CLOSED:
            supposing.pop((row, step), None)
        after = apply.with_orders(model, supposing)
        days = zip(before.target_dates, before.median[row].tolist(), after.median[row].tolist(), strict=True)
        unchanged_override = self._at.get((row, step)) if supposed.kind != ORDERS else None
        if step not in self._before:
            self._before[step] = self._staff_day(before, step)
        depot_ids = self._inputs.panel.depot_ids
        summed = np.array([visible is None or depot_id in visible for depot_id in depot_ids])
        side_before = _side(before, self._before[step], row, step, summed)
        side_after = _side(after, self._staff_day(after, step), row, step, summed)
        return WhatIfAnswer(
            supposed, side_before, side_after, tuple(days), unchanged_override.id if unchanged_override else None
        )

    def _locate(self, supposed: Supposition) -> tuple[int, int]:
        panel = self._inputs.panel
        if supposed.depot_id not in panel.depot_ids:
            raise OverrideError(f"depot: found {supposed.depot_id!r}, wanted a depot of the published forecasts")
        days = panel.target_dates
        if supposed.target_date not in days:
            raise OverrideError(
                f"date: found {supposed.target_date}, wanted a published day, from {days[0]} to {days[-1]}"
            )
        row, step = panel.depot_ids.index(supposed.depot_id), days.index(supposed.target_date)
        may_open = bool(self._model.open[row, step]) or (supposed.depot_id, supposed.target_date) in self._openable
        if supposed.kind == ORDERS and not may_open:
            raise OverrideError(f"{supposed.depot_id} is closed on {supposed.target_date}; suppose that it is open")
        return row, step

    def _ask_model(self, supposed: Supposition, row: int, step: int) -> Forecast:
        """What the model says with the changed input."""
        panel = self._inputs.panel
        if self._predictor is None:
            raise BundleError(f"the model cannot be asked: {self._missing}")
        if supposed.depot_id in self._inputs.strangers:
            raise BundleError(f"the model has no forecast of {supposed.depot_id}, which it was not trained on")
        names = panel.encoding.covariates
        if supposed.kind not in (*names, CLOSED, OPEN):
            raise OverrideError(f"kind: found {supposed.kind!r}, wanted one of {', '.join((*names, *BUILT_IN))}")
        if not np.isfinite(supposed.value):
            raise OverrideError(f"value: found {supposed.value}, wanted a number")
        lookback = self._predictor.bundle.lookback
        window = panel.window(lookback, slice(row, row + 1))
        place, opened = lookback + step, supposed.kind == OPEN
        if supposed.kind in (CLOSED, OPEN):
            window["open"][0, place] = float(opened)
        changed = "open" if supposed.kind in (CLOSED, OPEN) else supposed.kind
        if changed in names:
            value = float(opened) if supposed.kind in (CLOSED, OPEN) else supposed.value
            window["covariates"][0, place, names.index(changed)] = value
        quantiles, open_ = self._model.quantiles.copy(), self._model.open.copy()
        predicted = self._predictor.quantiles(window, (supposed.depot_id,), panel.cutoff)
        quantiles[row] = panel.widen_by_doubt(predicted, self._model.levels, slice(row, row + 1))[0]
        open_[row] = window["open"][0, lookback:] > 0
        return replace(self._model, quantiles=quantiles, open=open_)

    def _staff_day(self, forecast: Forecast, step: int) -> Roster | None:
        """The roster of one day."""
        day = slice(step, step + 1)
        day_forecast = replace(
            forecast,
            target_dates=forecast.target_dates[day],
            quantiles=forecast.quantiles[:, day],
            open=forecast.open[:, day],
        )
        return rosters.roster_for(day_forecast, self._inputs.panel, self._inputs.staffing)


def _side(forecast: Forecast, roster: Roster | None, row: int, step: int, summed: Bools) -> Side:
    """A depot's day; `roster` is the roster of this day alone, `summed` (depots,) says whose costs are added up."""
    low, orders, high = (float(forecast.quantiles[row, step, forecast.levels.index(q)]) for q in (0.1, 0.5, 0.9))
    opened = bool(forecast.open[row, step])
    if roster is None:
        return Side(opened, low, orders, high, None, None, None, None)
    vans = None if roster.vans is None else int(roster.vans[row, 0])
    drivers, costs = int(roster.drivers[row, 0]), roster.expected_cost
    return Side(opened, low, orders, high, drivers, vans, float(costs[row, 0]), float(costs[summed].sum()))


def _close_day(model: Forecast, row: int, step: int) -> Forecast:
    quantiles, open_ = model.quantiles.copy(), model.open.copy()
    quantiles[row, step], open_[row, step] = 0, False
    return replace(model, quantiles=quantiles, open=open_)


def _whole_number(value: float) -> int:
    if not (np.isfinite(value) and float(value).is_integer()):
        raise OverrideError(f"orders: found {value}, wanted a whole number")
    return int(value)
