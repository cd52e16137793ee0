"""Drift tracking: how actuals lie within their published forecasts, by depot, city and network, and
how inputs have changed.

Of each day the newest forecast before it counts, as archived: the model's, without planners'
numbers. A run scores the newly known days and rescores the last two weeks, which late counts
change; a first run catches up with the past by `MOST_WEEKS`. Days without a forecast, closed and
unknown ones are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.config import Spec
from forecaster.core.arrays import Bools, Doubles
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, as_sentence, counted, joined, sentence
from forecaster.core.panel import Panel
from forecaster.demand.history.aliases import archive_by_current_id
from forecaster.demand.history.point_in_time import former_names
from forecaster.evaluation import drift, input_drift, pit
from forecaster.lake import Lake
from forecaster.ledger import drift as rows
from forecaster.ledger.accuracy import monday
from forecaster.ledger.drift import Drift, ScoredDay
from forecaster.ledger.store import Ledger
from forecaster.publishing.track_value import origins_of

MOST_WEEKS = 6  # maximum number of weeks of the archive that a run reads
AGAIN = timedelta(days=14)  # period of late counts
NAMED = 3  # depots named in the outcome of a run
DIRECTIONS = {  # labels for Prometheus
    (rows.LEVEL, 1): "above",
    (rows.LEVEL, -1): "below",
    (rows.SPREAD, 1): "too_narrow",
    (rows.SPREAD, -1): "too_wide",
}
_READ = ("run_id", "recorded_at", "depot_id", "target_date", "horizon", "levels", "quantiles")


@dataclass(frozen=True, eq=False)
class Recent:
    """The last `drift.DAYS` days of the panel's depots, (depots, days), NaN if not scored."""

    days: tuple[date, ...]
    scores: Doubles
    actual: Doubles
    median: Doubles


def track_drift(spec: Spec, panel: Panel, run_id: str) -> str | None:
    """Judge drift as of the panel's cutoff, and write it into the ledger; return a sentence, None
    if there is none.

    Running a past date again changes nothing. Raises LakeError and LedgerError.
    """
    first = panel.cutoff - timedelta(days=drift.DAYS - 1)
    with Ledger.open(spec.ledger_url) as ledger:
        with ledger.transaction() as connection:
            newest = rows.newest_day(connection, spec.name)
            if newest is not None and newest > panel.cutoff:
                return None
            scored = {day.day: day for day in rows.scored_days(connection, spec.name, first)}
            origins = tuple(origins_of(connection, spec).values())
        start = max(first, panel.days[0].astype(object))
        due = [
            day
            for day in (start + timedelta(days=number) for number in range((panel.cutoff - start).days + 1))
            if (day not in scored or day > panel.cutoff - AGAIN)
            and any(origin.covers(day, spec.horizon) for origin in origins)
        ]
        former = former_names(spec, panel.depot_ids)
        fresh = {day.day: day for day in _score(panel, Lake.of(spec), due, former)}
        recent = _assemble(panel, {**scored, **fresh}, former)
        with ledger.transaction() as connection:
            before = {(row.part, row.label, row.kind): row for row in rows.drifts(connection, spec.name)}
        drifts, measures = judged(panel, recent)
        drifts = [_since_first_told(row, before.get((row.part, row.label, row.kind))) for row in drifts]
        with ledger.transaction() as connection:
            rows.replace_days(connection, spec.name, list(fresh.values()), keep_from=first)
            rows.replace_drifts(connection, spec.name, drifts)
        if measures:
            ledger.note(run_id, measures=measures)
    return _sentence(drifts)


def judged(panel: Panel, recent: Recent) -> tuple[list[Drift], dict[str, Any]]:
    """Drifts as of the panel's cutoff, and the run's measures of them (`metric_names.OF_RUNS`)."""
    depots = drift.judge(recent.scores, recent.actual, recent.median)
    of_depots = list(_of_rows(rows.DEPOT, panel.depot_ids, depots, recent.days))
    names, groups = _groups(panel)
    is_known = np.isfinite(recent.scores)
    sums = [[np.sum(values, axis=0, where=is_known & group[:, None]) for group in groups]
            for values in (np.nan_to_num(recent.actual), np.nan_to_num(recent.median))]  # fmt: skip
    means = drift.group_means(recent.scores, groups)
    together = drift.judge(means, np.array(sums[0]), np.array(sums[1]), relative=False)
    of_groups = list(_of_rows(rows.CITY, names, together, recent.days))
    of_groups = [row if row.label else replace(row, part=rows.ALL) for row in of_groups]
    inputs, shares = _inputs(panel, names, groups)
    measures: dict[str, Any] = {}
    if depots.testable.any():
        measures["depots_drift_tested"] = int(depots.testable.sum())
        measures["depots_drifted"] = _by_direction(of_depots)
        measures["cities_drifted"] = _by_direction([row for row in of_groups if row.part == rows.CITY])
        measures["network_drifted"] = _by_direction([row for row in of_groups if row.part == rows.ALL])
    if shares:
        measures["days_lacking"] = {kind: share.now for kind, share in shares.items()}
        measures["days_lacking_usual"] = {kind: share.usual for kind, share in shares.items()}
    if len(panel.encoding.covariates):
        measures["covariates_drifted"] = sum(row.part == rows.COVARIATE for row in inputs)
    return [*of_groups, *of_depots, *inputs], measures


def _score(panel: Panel, lake: Lake, due: Sequence[date], former: Mapping[str, str]) -> Iterator[ScoredDay]:
    """Scores of forecast days, newest weeks first."""
    version = lake.version("forecasts")  # opens the table once
    place = {depot: row for row, depot in enumerate(panel.depot_ids)}
    for week in sorted({monday(day) for day in due}, reverse=True)[:MOST_WEEKS]:
        days = [day for day in due if monday(day) == week]
        in_days = pc.field("target_date").isin(pa.array(days, pa.date32()))
        archived = archive_by_current_id(lake.read("forecasts", where=in_days, version=version, columns=_READ), former)
        table = _newest(archived)
        row = np.array([place.get(depot, -1) for depot in table["depot_id"].to_pylist()], np.intp)
        day_of_row = table["target_date"].to_numpy().astype("datetime64[D]")
        column = (day_of_row - panel.days[0]).astype(np.intp)
        actual = np.where(panel.open[row, column], panel.demand[row, column], np.nan).astype(float)
        actual[row < 0] = np.nan
        scores, median = _scores(table, actual)
        for day in days:
            usable = (day_of_row == np.datetime64(day, "D")) & np.isfinite(scores)
            yield ScoredDay(
                day,
                [panel.depot_ids[number] for number in row[usable].tolist()],
                scores[usable].round(2).tolist(),
                actual[usable].round(3).tolist(),
                median[usable].round(3).tolist(),
            )


def _newest(table: pa.Table) -> pa.Table:
    """The newest forecast before each depot's day; of a resumed run the last rows."""
    ordered = table.sort_by([("target_date", "ascending"), ("depot_id", "ascending"), ("horizon", "ascending"),
                             ("recorded_at", "descending")])  # fmt: skip
    if not ordered.num_rows:
        return ordered
    days = ordered["target_date"].to_numpy().astype("datetime64[D]")
    depots = ordered["depot_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    first = np.ones(len(days), bool)
    first[1:] = (days[1:] != days[:-1]) | (depots[1:] != depots[:-1])
    return ordered.filter(pa.array(first))


def _scores(table: pa.Table, actual: Doubles) -> tuple[Doubles, Doubles]:
    """Normal scores and medians (rows,); NaN if a count is unknown, or the depot was forecast as
    closed."""
    scores, median = np.full(len(actual), np.nan), np.full(len(actual), np.nan)
    levels = [tuple(of_row) for of_row in table["levels"].to_pylist()]
    for of_rows in set(levels):
        if len(of_rows) < 3 or 0.5 not in of_rows:
            continue
        places = np.flatnonzero([row == of_rows for row in levels])
        values = table["quantiles"].take(pa.array(places)).combine_chunks().flatten().to_numpy(zero_copy_only=False)
        quantiles = values.reshape(len(places), len(of_rows)).astype(float)
        open_actuals = np.where((quantiles > 0).any(axis=1), actual[places], np.nan)
        scores[places] = pit.pit_scores(open_actuals, quantiles, of_rows)
        median[places] = quantiles[:, of_rows.index(0.5)]
    return scores, median


def _assemble(panel: Panel, scored: Mapping[date, ScoredDay], former: Mapping[str, str]) -> Recent:
    days = tuple(panel.cutoff - timedelta(days=back) for back in reversed(range(drift.DAYS)))
    place = {depot: row for row, depot in enumerate(panel.depot_ids)}
    scores, actual, median = (np.full((len(place), len(days)), np.nan) for _ in range(3))
    for column, day in enumerate(days):
        if (of_day := scored.get(day)) is None:
            continue
        at = np.array([place.get(former.get(depot, depot), -1) for depot in of_day.depots], np.intp)
        is_present = at >= 0
        for array, values in ((scores, of_day.scores), (actual, of_day.actual), (median, of_day.median)):
            array[at[is_present], column] = np.array(values, float)[is_present]
    return Recent(days, scores, actual, median)


def _groups(panel: Panel) -> tuple[list[str], list[Bools]]:
    """The network, which has no name, and the cities if there are several, each with the mask of
    its depots."""
    cities = np.array(panel.attributes.get("city", ("",) * len(panel.depot_ids)), object)
    names = sorted({city for city in cities.tolist() if city})
    names = names if len(names) > 1 else []
    everything = np.ones(len(cities), bool)
    return ["", *names], [everything, *((cities == name) for name in names)]


def _of_rows(part: str, labels: Sequence[str], drifts: drift.Drifts, days: Sequence[date]) -> Iterator[Drift]:
    for row in np.flatnonzero(drifts.level).tolist():
        since = days[int(drifts.first[row])]
        yield Drift(
            part, labels[row], rows.LEVEL, int(drifts.level[row]), since, days[-1], float(drifts.ratio[row]), None
        )
    for row in np.flatnonzero(drifts.spread).tolist():
        yield Drift(
            part, labels[row], rows.SPREAD, int(drifts.spread[row]), days[-1], days[-1], float(drifts.width[row]), None
        )


def _inputs(
    panel: Panel, names: Sequence[str], groups: Sequence[Bools]
) -> tuple[list[Drift], dict[str, input_drift.Share]]:
    """Drifts of the shares of unknown and closed days, for network and cities, and of covariates;
    and the shares of the network."""
    last = input_drift.YEAR + input_drift.WINDOW
    open_ = panel.open[:, : panel.history]
    is_known = np.isfinite(panel.demand) & open_
    business = input_drift.in_business(open_, is_known)[:, -last:]
    lacking: dict[str, Bools] = {rows.UNKNOWN: (open_ & ~is_known)[:, -last:], rows.CLOSED: ~open_[:, -last:]}
    drifts, of_network = list[Drift](), dict[str, input_drift.Share]()
    for kind, days_lacking in lacking.items():
        for name, group in zip(names, groups, strict=True):
            share = input_drift.share(days_lacking[group], business[group])
            if not name and np.isfinite(share.now) and np.isfinite(share.usual):
                of_network[kind] = share
            if share.direction:
                part = rows.CITY if name else rows.ALL
                drifts.append(
                    Drift(part, name, kind, share.direction, panel.cutoff, panel.cutoff, share.now, share.usual)
                )
    means = panel.covariates[:, : panel.history].mean(axis=0) if len(panel.depot_ids) else np.zeros((0, 0))
    for of in input_drift.covariate_drifts(means.astype(float), panel.encoding.covariates):
        drifts.append(
            Drift(rows.COVARIATE, of.name, rows.INPUT, of.direction, panel.cutoff, panel.cutoff, of.now, of.usual)
        )
    return drifts, of_network


def _by_direction(drifts: Sequence[Drift]) -> dict[str, int]:
    return {
        name: sum((row.kind, row.direction) == direction for row in drifts) for direction, name in DIRECTIONS.items()
    }


def _since_first_told(row: Drift, before: Drift | None) -> Drift:
    """Keep the beginning of a drift that was reported before."""
    if before is None or before.direction != row.direction:
        return row
    return replace(row, since=min(before.since, row.since))


def _sentence(drifts: Sequence[Drift]) -> str | None:
    """Sentence on drift for the outcome of the run: the counts, and the first ones by name."""
    if not drifts:
        return None
    texts = [_in_words(row) for row in drifts if row.part in (rows.ALL, rows.COVARIATE)]
    cities = [row for row in drifts if row.part == rows.CITY]
    depots = [row for row in drifts if row.part == rows.DEPOT]
    of_cities = counted(len(cities), "{n} city", "{n} cities")
    of_depots = counted(len(depots), "{n} depot", "{n} depots")
    for some, how_many in ((cities, of_cities), (depots, of_depots)):
        if some:
            ordered = sorted(some, key=lambda row: -abs(row.value - (row.usual or 1.0)))
            names = [sentence(N_("{name} {drift}"), name=row.label, drift=_in_words(row)) for row in ordered[:NAMED]]
            listed = joined([*names, "…"] if len(some) > NAMED else names, ", ") or ""
            texts.append(sentence(N_("{depots} ({names})"), depots=how_many, names=listed))
    return sentence(N_("drift, shown on /health: {drifts}"), drifts=joined(texts) or "")


def _in_words(row: Drift) -> str:
    everywhere = row.part == rows.ALL
    if row.kind == rows.LEVEL:
        template = N_("the network {change} % for {days}") if everywhere else N_("{change} % for {days}")
        days = counted(row.days, "{n} day", "{n} days")
        return sentence(template, change=amount(100 * (row.value - 1), "+.0f"), days=days)
    if row.kind == rows.SPREAD:
        return sentence(_RANGES[everywhere, row.direction > 0])
    if row.part == rows.COVARIATE:
        return sentence(_COVARIATE[row.direction], name=row.label)
    return sentence(
        N_("{share} % of days {kind}, {usual} % in the year before"),
        share=amount(100 * row.value, ".0f"),
        kind=as_sentence(row.kind),
        usual=amount(100 * (row.usual or 0), ".0f"),
    )


_RANGES = {  # keys: network, too narrow
    (True, True): N_("the ranges too narrow"),
    (True, False): N_("the ranges too wide"),
    (False, True): N_("ranges too narrow"),
    (False, False): N_("ranges too wide"),
}
_COVARIATE = {
    1: N_("covariate {name} higher than ever"),
    -1: N_("covariate {name} lower than ever"),
    0: N_("covariate {name} at a standstill"),
}
