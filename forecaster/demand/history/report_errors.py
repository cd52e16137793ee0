"""Errors in the reports of numeric covariates, by lead: learned from the lake's versions of each
depot-day, as the value read for a day ahead minus the value delivered with the day's count; and
drawn for cutoffs without reports in the lake."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Bools, Doubles
from forecaster.demand.history import reading_versions
from forecaster.demand.panel.known_future.covariates import numeric
from forecaster.demand.panel.known_future.usual_covariates import is_far
from forecaster.demand.readings import covariates
from forecaster.errors import SpecError

LEAST_DAYS = 28  # days with a report and a count needed per lead: depots of one city share their weather
FLAG_VALUES = 2  # maximum number of values of a flag, which has no error of this kind


def refuse_other_than_numbers(spec: Spec, readings: pd.DataFrame) -> None:
    """Raise SpecError if `calendar.lead_error` names a covariate that is not a numeric column."""
    for name in spec.calendar.lead_error:
        if name not in readings or not numeric(readings[name]):
            kind = "a column of words" if name in readings else "a kind of events"
            raise SpecError(f"calendar.lead_error: found '{name}', which is {kind}, wanted a column of numbers")


def with_drawn(horizon_rows: pd.DataFrame, is_loaded: Bools, cutoff: int, spec: Spec) -> pd.DataFrame:
    """Add the declared errors to readings after a cutoff (days since 1970) that have no reports:
    they hold final values, which nobody knew then. The same cutoff gives the same errors: one per
    depot and covariate, growing with the lead as in training."""
    lead = horizon_rows["day"].to_numpy() - cutoff - 1
    depot = horizon_rows["depot_id"].cat.codes.to_numpy()
    columns = {}
    names = [name for name in spec.calendar.lead_error if name in horizon_rows and numeric(horizon_rows[name])]
    for place, name in enumerate(sorted(names)):
        deviations = np.array(spec.calendar.report_deviations(name, spec.horizon))
        steps = np.sqrt(np.maximum(np.diff(deviations**2, prepend=0), 0))
        normal = np.random.default_rng([abs(cutoff), place]).normal(
            size=(len(horizon_rows["depot_id"].cat.categories), spec.horizon)
        )
        errors = np.cumsum(steps * normal, axis=1)[depot, lead]
        columns[name] = horizon_rows[name].to_numpy() + np.where(is_loaded, errors, 0.0)
    return horizon_rows.assign(**columns)


def learned(
    versions: pd.DataFrame, is_loaded: Bools, night_after: Callable[[int], int], cutoff: int, spec: Spec
) -> dict[str, tuple[float, ...]]:
    """Standard deviation of each covariate's report errors by day ahead, starting at the first, for
    as many days as have `LEAST_DAYS` days each; it never decreases. Excluded are covariates with a
    declared error, words, flags, covariates with too few reports, and those that were always right.

    `versions` are all of the lake's readings; `is_loaded` marks those whose instant carries no
    information. `night_after` returns the instant, in µs since 1970, of the run with a cutoff, a
    number since 1970. Nothing recorded after the run of `cutoff` counts.
    """
    future_covariates = [name for name in covariates(versions) if name in spec.calendar.known_future]
    names = [name for name in future_covariates if numeric(versions[name]) and name not in spec.calendar.lead_error]
    if not names:
        return {}
    day, recorded = versions["day"].to_numpy(), versions["recorded_at"].to_numpy()
    first = int(day.min()) - spec.horizon
    nights = np.array([night_after(number) for number in range(first, cutoff + 1)], np.int64)
    is_known = (day <= cutoff) & (recorded <= nights[-1])
    before = nights[np.clip(day - 1 - first, 0, len(nights) - 1)]  # the last run for which the day lies ahead
    reports = versions[is_known & ~is_loaded & (recorded <= before)]
    if not len(reports):
        return {}
    is_counted = is_known & ~np.isnan(versions["demand"].to_numpy()) & np.isin(day, reports["day"].unique())
    if not is_counted.any():
        return {}
    final = reading_versions.latest(versions[is_counted])
    slot = reading_versions.slots(reports, final)
    order = np.lexsort((reports["row"], reports["recorded_at"], slot.batch))
    reports, of_day = reports.iloc[order], slot.batch[order]
    place = np.full(slot.count, -1)
    place[slot.history] = np.arange(len(final))
    final_position = place[of_day]  # -1: no count arrived
    day, since = reports["day"].to_numpy(), reports["recorded_at"].to_numpy()
    is_last = np.append(of_day[1:] != of_day[:-1], True)
    replaced = np.where(is_last, np.iinfo(np.int64).max, np.append(since[1:], 0))
    read = []  # rows read by each run, by days ahead
    for lead in range(1, spec.horizon + 1):
        night = nights[day - lead - first]
        read.append(np.flatnonzero((since <= night) & (night < replaced) & (final_position >= 0)))
    by_name = {}
    for name in names:
        errors = _errors(reports[name].to_numpy(), final[name].to_numpy()[final_position])
        by_name[name] = _deviations(errors, day, read)
    return {name: values for name, values in by_name.items() if any(values)}


def _errors(reported: Doubles, final: Doubles) -> Doubles:
    """Reported minus final values; NaN if unknown, or far from all final values."""
    distinct = np.unique(final[np.isfinite(final)])
    if len(distinct) <= FLAG_VALUES:
        return np.full(len(reported), np.nan)
    is_odd = is_far(reported.astype(np.float32), (float(distinct[0]), float(distinct[-1])))
    errors: Doubles = np.where(is_odd, np.nan, reported - final)
    return errors


def _deviations(errors: Doubles, day: NDArray[np.int32], read: Sequence[NDArray[np.intp]]) -> tuple[float, ...]:
    """Root mean squared error by lead, to four digits, up to the first lead with too few days."""
    deviations, least = list[float](), 0.0
    for rows in read:
        finite_rows = rows[np.isfinite(errors[rows])]
        if len(np.unique(day[finite_rows])) < LEAST_DAYS:
            break
        least = max(least, float(f"{np.sqrt(np.mean(errors[finite_rows] ** 2)):.4g}"))
        deviations.append(least)
    return tuple(deviations)
