"""What-if analysis of depots' days: orders, drivers, vans and costs, before and after; nothing is
stored.

The model reads the inputs saved by the run (`saved_inputs`) with one of them changed, for these
depots alone; then the days are rostered again for all depots, since they share vans. Both sides are
as published: overrides in force stay on both, except the supposed one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from forecaster.config import Staffing
from forecaster.core.forecast import Forecast
from forecaster.core.language import N_, _
from forecaster.core.state_paths import StatePaths
from forecaster.errors import BundleError, OverrideError
from forecaster.ledger.publication import Publication
from forecaster.planning import apply, before_after, refresh, saved_inputs
from forecaster.planning.override_groups import LARGEST_PERCENT, share_of_orders
from forecaster.planning.overrides import ProposedOverride
from forecaster.planning.question_model import Places, QuantileModel, in_chunks, ready, supposed_window
from forecaster.planning.saved_inputs import SavedInputs
from forecaster.planning.scenario import (
    BUILT_IN,
    CLOSED,
    OPEN,
    ORDERS,
    PERCENT,
    Supposition,
    WhatIfAnswer,
)
from forecaster.staffing import rosters
from forecaster.staffing.newsvendor import Roster


@dataclass(frozen=True)
class SupposedForecast:
    """Published forecast of all depots, and the supposed one.

    `rows` and `steps` are the positions of the question's depots and days, the first ones first;
    `closed` is the number of its days that stay closed.
    """

    before: Forecast
    after: Forecast
    rows: list[int]
    steps: list[int]
    closed: int


class Questions:
    """What-if questions on one publication, with inputs and model in memory; threads may share it."""

    def __init__(
        self,
        publication: Publication,
        inputs: SavedInputs,
        predictor: QuantileModel | None,
        missing: BundleError | None,
        canary: QuantileModel | BundleError | None = None,
        *,
        alone: bool = True,
        told: refresh.BindingCrews = refresh.NOBODY,
    ) -> None:
        """`canary` is the model whose numbers the cohort sees, or its error; `alone` means that no
        other depots share the vans; `told` are crews of the published schedule."""
        self._alone, self._told = alone, told
        self._publication, self._inputs, self._predictor, self._missing = publication, inputs, predictor, missing
        self._canary = canary
        self._model = refresh.model_forecast(publication, inputs.panel)
        self._openable = refresh.openable_days(publication)
        self._computed = np.zeros(len(inputs.panel.depot_ids), bool)  # depots whose quantiles are computed
        self._quantiles = np.zeros_like(self._model.quantiles)
        # roster as published, of each day asked about
        self._before: dict[int, Roster | None] = {}
        days = {depot.depot_id: depot.days for depot in publication.depots}
        self._at = {
            (row, step): day.override
            for row, depot in enumerate(inputs.panel.depot_ids)
            for step, day in enumerate(days.get(depot, ()))
            if day.override
        }

    @classmethod
    def of(
        cls,
        state: Path,
        publication: Publication,
        load: Callable[[Path, str], QuantileModel | BundleError] | None = None,
        told: refresh.BindingCrews = refresh.NOBODY,
    ) -> Questions:
        """Read saved inputs and bundle, which is verified first; an unusable bundle is reported
        when needed.

        `load` returns the model of a bundle in a state folder, or an error. Raises DeskError if the
        run's inputs are not available.
        """
        load = load or ready
        inputs = saved_inputs.read(StatePaths(state).saved_inputs, publication.desk)
        if inputs.bundle is None:
            naive = "no model forecasts at present, the seasonal naive does"
            for_readers = N_("no model forecasts at present: the numbers repeat the same weekdays of earlier weeks")
            return cls(publication, inputs, None, BundleError(naive, for_readers=for_readers), told=told)
        predictor = load(state, inputs.bundle)
        canary = load(state, inputs.canary.bundle) if inputs.canary else None
        if isinstance(predictor, BundleError):
            return cls(publication, inputs, None, predictor, canary, told=told)
        return cls(publication, inputs, predictor, None, canary, told=told)

    @property
    def depot_ids(self) -> tuple[str, ...]:
        """Depots of the saved inputs, in order."""
        return self._inputs.panel.depot_ids

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of suppositions."""
        return (*self._inputs.panel.encoding.covariates, *BUILT_IN) if self._predictor else (ORDERS, PERCENT, CLOSED)

    @property
    def yes_or_no(self) -> frozenset[str]:
        """Covariates that are 0 or 1 on all known days, such as promotions and events."""
        covariates = self._inputs.panel.covariates
        binary = np.flatnonzero(((covariates == 0) | (covariates == 1)).all(axis=(0, 1)))
        return frozenset(self._inputs.panel.encoding.covariates[place] for place in binary)

    @property
    def missing(self) -> BundleError | None:
        """Error that explains why no model answers; None if one does."""
        return self._missing

    @property
    def broken(self) -> BundleError | None:
        """Error of an unusable bundle of the run, which may be temporary; None if all are usable."""
        if self._missing is not None and self._inputs.bundle is not None:
            return self._missing
        return self._canary if isinstance(self._canary, BundleError) else None

    def among(self, depot_ids: Collection[str]) -> Questions:
        """Return the same questions for these depots only.

        On a day on which one of them lacks vans they share their published vans; on other days they
        have the whole fleet. Needs of other depots do not count.
        """
        publication = replace(
            self._publication,
            depots=tuple(depot for depot in self._publication.depots if depot.depot_id in depot_ids),
            plans=(),
        )
        inputs = self._inputs.among([depot_id for depot_id in self.depot_ids if depot_id in depot_ids])
        return Questions(
            publication, inputs, self._predictor, self._missing, self._canary, alone=False, told=self._told
        )

    def ask(self, supposed: Supposition) -> WhatIfAnswer:
        """Answer a scenario.

        Raises OverrideError for an impossible supposition, BundleError if no model can answer it.
        """
        would_be = self.suppose(supposed)
        before, after, rows, steps = would_be.before, would_be.after, would_be.rows, would_be.steps
        row, step = rows[0], steps[0]
        days = zip(before.target_dates, before.median[row].tolist(), after.median[row].tolist(), strict=True)
        unchanged_override = self._at.get((row, step)) if supposed.kind not in (ORDERS, PERCENT) else None
        staffed = [(self._staff_before(before, step), self.staff_day(after, step)) for step in steps]
        pairs = list(zip(steps, staffed, strict=True))
        return WhatIfAnswer(
            supposed,
            before_after.side(before, staffed[0][0], row, step),
            before_after.side(after, staffed[0][1], row, step),
            tuple(days),
            unchanged_override.id if unchanged_override else None,
            tuple(before_after.supposed_day(before, after, pair, rows, step) for step, pair in pairs),
            tuple(moved for step, pair in pairs for moved in before_after.moved_vans(before, pair, step)),
            would_be.closed,
        )

    def suppose(self, supposed: Supposition) -> SupposedForecast:
        """Forecasts of all depots before and after; only the question's differ. Raises as `ask`."""
        rows, steps = self._locate(supposed)
        cells = [(row, step) for row in rows for step in steps]
        model, numbers = self._model, {cell: override.orders for cell, override in self._at.items()}
        before, supposing, closed = apply.with_orders(model, numbers), dict(numbers), 0
        if supposed.kind in (ORDERS, PERCENT):
            orders = self._suppose_orders(supposed, cells)
            supposing, closed = supposing | orders, len(cells) - len(orders)
        elif supposed.kind == CLOSED and self._predictor is None:
            model = _close_days(model, cells)
        else:
            model = self._ask_model(supposed, rows, steps)
        # Overrides in force stay on both sides, except on days closed by the question.
        if supposed.kind == CLOSED:
            supposing = {cell: orders for cell, orders in supposing.items() if cell not in set(cells)}
        return SupposedForecast(before, apply.with_orders(model, supposing), rows, steps, closed)

    def forecast(self, rows: Sequence[int]) -> Forecast:
        """Published forecast of all depots in saved order, recomputed once at these positions.

        Depots without a forecast of the model stay as published. Raises BundleError if the model
        that made them is not available.
        """
        numbers = {cell: override.orders for cell, override in self._at.items()}
        unknown_rows = self._strangers()
        known_rows = [row for row in rows if row not in unknown_rows]
        for missing in in_chunks([row for row in known_rows if not self._computed[row]]):
            self._quantiles[missing] = self._compute(missing, None, None).quantiles[missing]
            self._computed[missing] = True
        quantiles = self._model.quantiles.copy()
        quantiles[known_rows] = self._quantiles[known_rows]
        return apply.with_orders(replace(self._model, quantiles=quantiles), numbers)

    def _strangers(self) -> frozenset[int]:
        """Positions of depots without a forecast of the model whose numbers they see; all if no
        model forecast."""
        inputs, canary = self._inputs, self._inputs.canary
        if inputs.bundle is None:
            return frozenset(range(len(self.depot_ids)))
        unknown = set(inputs.strangers)
        if canary is not None:
            unknown = (unknown - canary.cohort) | (canary.strangers & canary.cohort)
        return frozenset(row for row, depot in enumerate(self.depot_ids) if depot in unknown)

    def _locate(self, supposed: Supposition) -> tuple[list[int], list[int]]:
        """Positions of its depots and days, the first ones first."""
        panel = self._inputs.panel
        for depot_id in supposed.depot_ids:
            if depot_id not in panel.depot_ids:
                raise OverrideError(
                    _("depot: found {depot_id}, wanted a depot of the published forecasts", depot_id=repr(depot_id))
                )
        days, last = panel.target_dates, supposed.last or supposed.target_date
        for day in (supposed.target_date, last):
            if day not in days:
                raise OverrideError(
                    _(
                        "date: found {target_date}, wanted a published day, from {first} to {last}",
                        target_date=day,
                        first=days[0],
                        last=days[-1],
                    )
                )
        if last < supposed.target_date:
            raise OverrideError(
                _(
                    "last: found {last}, before {target_date}; wanted it or a later day",
                    last=last,
                    target_date=supposed.target_date,
                )
            )
        rows = {depot_id: row for row, depot_id in enumerate(panel.depot_ids)}
        steps = range(days.index(supposed.target_date), days.index(last) + 1)
        return [rows[depot_id] for depot_id in supposed.depot_ids], list(steps)

    def _suppose_orders(self, supposed: Supposition, cells: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Supposed orders of each open day; also of a single closed day that may be opened."""
        depot_ids, days = self._inputs.panel.depot_ids, self._model.target_dates
        openable = {cell for cell in cells if (depot_ids[cell[0]], days[cell[1]]) in self._openable}
        orders = {
            (row, step): _orders(supposed, float(self._model.median[row, step]))
            for row, step in cells
            if self._model.open[row, step] or (len(cells) == 1 and supposed.kind == ORDERS and (row, step) in openable)
        }
        if not orders:
            raise OverrideError(
                _(
                    "{depot_id} is closed on {target_date}; suppose that it is open",
                    depot_id=supposed.depot_id,
                    target_date=supposed.target_date,
                )
            )
        return orders

    def _ask_model(self, supposed: Supposition, rows: list[int], steps: list[int]) -> Forecast:
        """Forecast of the model with the changed input."""
        panel = self._inputs.panel
        if self._predictor is None:
            for_readers = self._missing.for_readers if self._missing else None
            raise BundleError(f"the model cannot be asked: {self._missing}", for_readers=for_readers)
        for depot_id in supposed.depot_ids:
            if depot_id in self._inputs.of(depot_id).strangers:
                message = _("the model has no forecast of {depot}, which it was not trained on", depot=depot_id)
                raise BundleError(message, for_readers=message)
        names = panel.encoding.covariates
        if supposed.kind not in (*names, CLOSED, OPEN):
            raise OverrideError(
                _(
                    "kind: found {kind}, wanted one of {built_in}",
                    kind=repr(supposed.kind),
                    built_in=", ".join((*names, *BUILT_IN)),
                )
            )
        if not abs(supposed.value) <= float(np.finfo(np.float32).max):
            raise OverrideError(_("value: found {value}, wanted a number", value=supposed.value))
        return self._compute(rows, supposed, np.array(steps))

    def _compute(self, rows: Sequence[int], supposed: Supposition | None, steps: Places | None) -> Forecast:
        """Forecasts for the depots at `rows`, each by the model whose numbers it sees."""
        quantiles, open_ = self._model.quantiles.copy(), self._model.open.copy()
        panel, canary = self._inputs.panel, self._inputs.canary
        cohort = canary.cohort if canary else frozenset[str]()
        for places in (
            *in_chunks([r for r in rows if panel.depot_ids[r] not in cohort]),
            *in_chunks([r for r in rows if panel.depot_ids[r] in cohort]),
        ):
            inputs = self._inputs.of(panel.depot_ids[places[0]])
            predictor = self._model_of(inputs)
            answer = supposed_window(supposed, predictor, inputs.panel, np.array(places), steps)
            predicted = predictor.quantiles(answer, [panel.depot_ids[row] for row in places], panel.cutoff)
            quantiles[places] = inputs.panel.widen_by_doubt(predicted, self._model.levels, np.array(places))
            if supposed is not None:
                open_[places] = answer["open"][:, predictor.bundle.lookback :] > 0
        return replace(self._model, quantiles=quantiles, open=open_)

    def _model_of(self, inputs: SavedInputs) -> QuantileModel:
        """Model of the run's inputs, or of its canary's. Raises BundleError if it is not available."""
        if inputs.bundle != self._inputs.bundle:
            if self._canary is None or isinstance(self._canary, BundleError):
                raise self._canary or BundleError("the canary that these depots see is not at hand")
            return self._canary
        if self._predictor is None:
            for_readers = self._missing.for_readers if self._missing else None
            raise BundleError(f"the model cannot be asked: {self._missing}", for_readers=for_readers)
        return self._predictor

    def _staff_before(self, forecast: Forecast, step: int) -> Roster | None:
        """Roster of one day as published, computed once."""
        if step not in self._before:
            self._before[step] = self.staff_day(forecast, step)
        return self._before[step]

    def staff_day(self, forecast: Forecast, step: int) -> Roster | None:
        """Roster of one day."""
        day = slice(step, step + 1)
        day_forecast = replace(
            forecast,
            target_dates=forecast.target_dates[day],
            quantiles=forecast.quantiles[:, day],
            open=forecast.open[:, day],
        )
        crews = refresh.published_crews(self._publication, forecast, self._inputs, datetime.now(UTC), self._told)
        of_day = None if crews is None else crews.on(day)
        inputs = self._inputs
        return rosters.roster_for(day_forecast, inputs.panel, self._staffing(step), of_day, inputs.shares)

    def _staffing(self, step: int) -> Staffing | None:
        """Declared staffing, with the number of vans that these depots may have on a day."""
        staffing = self._inputs.staffing
        plans = [depot.days[step].roster for depot in self._publication.depots]
        lacking = any(plan is not None and plan.shortage is not None for plan in plans)
        if self._alone or staffing is None or staffing.vans is None or not lacking:
            return staffing
        total = sum(plan.vans or 0 for plan in plans if plan is not None)
        return staffing.model_copy(update={"vans": staffing.vans.model_copy(update={"total": total})})


def _close_days(model: Forecast, cells: list[tuple[int, int]]) -> Forecast:
    quantiles, open_ = model.quantiles.copy(), model.open.copy()
    for row, step in cells:
        quantiles[row, step], open_[row, step] = 0, False
    return replace(model, quantiles=quantiles, open=open_)


def _orders(supposed: Supposition, model_orders: float) -> int:
    """Supposed orders of a day. Raises OverrideError for an invalid number of orders."""
    if supposed.kind == ORDERS:
        orders = _whole_number(supposed.value)
    elif -100 <= supposed.value <= LARGEST_PERCENT:
        orders = share_of_orders(model_orders, supposed.value)
    else:
        raise OverrideError(
            _(
                "percent: found {percent}, wanted a number from -100 to {largest_percent}",
                percent=f"{supposed.value:g}",
                largest_percent=f"{LARGEST_PERCENT:g}",
            )
        )
    return ProposedOverride(supposed.depot_id, supposed.target_date, orders, "", "what-if").orders


def _whole_number(value: float) -> int:
    if not (np.isfinite(value) and float(value).is_integer()):
        raise OverrideError(_("orders: found {value}, wanted a whole number", value=value))
    return int(value)
