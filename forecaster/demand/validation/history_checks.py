"""Anomaly checks of a batch against the days before it: outliers, stray days, late counts, gaps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd

from forecaster.config import Spec, data_rules
from forecaster.core.arrays import Bools, Floats, Ints
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, counted, sentence
from forecaster.demand.history import reading_versions
from forecaster.demand.panel.calendar import holiday_names
from forecaster.demand.readings import dates, release_memory
from forecaster.demand.validation import feed_gaps, network_shape, outliers, quarantine
from forecaster.demand.validation.batch import Batch, start
from forecaster.demand.validation.known_days import NEVER, DepotDayGrid, KnownDays, LastReadings
from forecaster.demand.validation.levels import shifts, steps
from forecaster.demand.validation.quarantine import RowSentences

CONTEXT = outliers.REACH + outliers.BACK  # days before a count needed to judge it
PORTION = 1_000_000  # readings placed at a time
PLACES = 50  # depots and days named in a finding
APART, FEW = 366, 0.01  # days between a stray day and the others; share of the readings that may be strays
_SPAN = ("opened", "closed")
_DAY = 86_400_000_000  # µs


@dataclass(frozen=True)
class CountGrid:
    """Known and new counts of all depots on consecutive days."""

    depots: pd.Index[Any]
    first: int  # of the days, since 1970
    counts: Floats  # (depots, days), NaN = not known
    fresh: Bools  # (depots, days)
    closed: Bools  # (depots, days), as declared by the source
    row: Ints  # (depots, days - CONTEXT), position of the new reading among the accepted ones, -1 if there is none

    def day(self, column: int) -> str:
        return str(np.datetime64(self.first + int(column), "D"))


def reach(spec: Spec) -> int:
    """Days before the first one of a batch that are needed to judge it."""
    return max(CONTEXT, spec.demand.rules.max_gap_days, spec.demand.rules.closed_after_days) + 1


def quarantine_stray_days(
    batch: Batch, known_days: KnownDays, released: Collection[str], spec: Spec, now: datetime
) -> Batch:
    """Quarantine readings whose day lies far before nearly all others: a slip in a year, which
    would create years of unknown days. `known_days` holds the days from the first one of the batch
    on."""
    days, counts = np.unique(batch.accepted["day"].to_numpy(), return_counts=True)
    distinct, place = np.unique(np.concatenate([days, known_days.days]), return_inverse=True)
    before = np.cumsum(np.bincount(place, np.concatenate([counts, known_days.count])))
    gaps = np.flatnonzero((np.diff(distinct) > APART) & (before[:-1] < FEW * before[-1:]))
    if not len(gaps):
        return batch
    batch = replace(batch, accepted=batch.accepted.reset_index(drop=True))
    rows = batch.accepted[batch.accepted["day"].to_numpy() <= distinct[gaps[-1]]]
    rows = rows[_not_released(rows, "stray_day", released, spec)]
    message = RowSentences.of(
        N_("{place}: depot {depot} on {day}: found a day long before {next}, wanted {wanted}"),
        rows.index,
        **start(rows),
        next=_date(distinct[gaps[-1] + 1]),
        wanted=data_rules.requirement("stray_day", apart=APART),
    )
    return batch.refuse(batch.accepted.index.isin(rows.index), "stray_day", message, spec, now)


def quarantine_outliers(
    batch: Batch, grid: CountGrid, released: Collection[str], spec: Spec, now: datetime
) -> tuple[Batch, CountGrid, list[Finding]]:
    """Quarantine outliers, which are counts that break a rule of `data_rules.OF_HISTORY`, and
    remove them from the grid. If the pipeline file sets `warn`, they are accepted and reported in a
    finding.

    `released` are the ids of quarantined rows that a person released.
    """
    factor = spec.demand.rules.spike_factor
    depots, days = network_shape.sentinels(grid.counts, grid.fresh, factor=factor)
    usual = np.nanmedian(grid.counts[depots], axis=1) if len(depots) else np.zeros(0)
    sentinels = outliers.Suspects(depots.astype(np.int32), days.astype(np.int32), usual.astype(np.float64))
    batch, grid, findings = _without_suspects(batch, grid, {"sentinel": sentinels}, released, spec, now)
    suspects = outliers.suspects(grid.counts, grid.fresh, grid.closed, spike_factor=factor)
    demand_shifts, suspects = shifts.apart(suspects, grid.counts)
    batch, grid, warnings = _without_suspects(batch, grid, demand_shifts, released, spec, now, "warn")
    batch, grid, more = _without_suspects(batch, grid, suspects, released, spec, now)
    return batch, grid, findings + warnings + more


def _without_suspects(
    batch: Batch,
    grid: CountGrid,
    suspects: Mapping[str, outliers.Suspects],
    released: Collection[str],
    spec: Spec,
    now: datetime,
    severity: data_rules.Severity | None = None,
) -> tuple[Batch, CountGrid, list[Finding]]:
    """Remove the suspects of each rule from the batch and the grid, or add a finding if the rule,
    or `severity`, warns."""
    batch = replace(batch, accepted=batch.accepted.reset_index(drop=True))  # labels are positions, and stay
    findings: list[Finding] = []
    for rule, cells in [(rule, cells) for rule, cells in suspects.items() if len(cells.depot)]:
        order = np.argsort(grid.row[cells.depot, cells.day - CONTEXT])
        depot, day, usual = cells.depot[order], cells.day[order], cells.usual[order]
        rows = batch.accepted.loc[grid.row[depot, day - CONTEXT]]
        unreleased = _not_released(rows, rule, released, spec)
        rows = rows[unreleased]
        message = _message(rows, rule, usual[unreleased], spec)
        if (severity or data_rules.severity(rule, spec.demand.rules.severity)) == "warn":
            findings += _warning(rule, rows, message)
        elif len(rows):
            batch = batch.refuse(batch.accepted.index.isin(rows.index), rule, message, spec, now)
            grid = _without(grid, depot[unreleased], day[unreleased])
    return batch, grid, findings


def late_counts(accepted: pd.DataFrame, last_readings: LastReadings, spec: Spec) -> list[Finding]:
    """Finding if counts arrive later after their day than the rules expect: by the declared
    instants of the source; without them, if the feed had reported much later days before, for this
    depot, too. An archive is never late."""
    if spec.demand.columns.recorded_at is not None:
        rows, template, values = _recorded_late(accepted, spec)
    elif spec.demand.recorded == "arrival":
        rows, template, values = _later_than_others(accepted, last_readings, spec)
    else:
        return []
    if not len(rows):
        return []
    limits = spec.demand.rules
    values |= {"wanted": data_rules.requirement("late", late_days=limits.late_days)}
    message = RowSentences.of(template, rows.index, **start(rows), **values)
    return _warning("late", rows, message, data_rules.severity("late", limits.severity))


def _recorded_late(accepted: pd.DataFrame, spec: Spec) -> tuple[pd.DataFrame, str, dict[str, Any]]:
    limit = spec.demand.rules.late_days
    # whatever the zone, nothing recorded earlier is late: few rows need a closer look
    rows = accepted[accepted["recorded_at"].to_numpy() > (accepted["day"].to_numpy().astype(np.int64) + limit) * _DAY]
    recorded = pd.to_datetime(rows["recorded_at"], unit="us", utc=True).dt.tz_convert(spec.zone).dt.tz_localize(None)
    age = (recorded.dt.normalize() - dates(rows)).dt.days.where(rows["demand"].notna())
    rows, age = rows[age > limit], age[age > limit]
    template = N_("{place}: depot {depot} on {day}: found a count recorded {days} after its day, wanted {wanted}")
    days = [counted(round(number), "{n} day", "{n} days") for number in age]
    return rows, template, {"days": pd.Series(days, rows.index, dtype=object)}


def _later_than_others(
    accepted: pd.DataFrame, last_readings: LastReadings, spec: Spec
) -> tuple[pd.DataFrame, str, dict[str, Any]]:
    newest = int(last_readings.last_counted.max(initial=NEVER))
    if newest == NEVER:
        return accepted.iloc[:0], "", {}
    is_late = accepted["demand"].notna() & (accepted["day"] < newest - spec.demand.rules.late_days)
    is_late &= accepted["depot_id"].isin(last_readings.depots[last_readings.last_counted > NEVER])
    template = N_(
        "{place}: depot {depot} on {day}: found a count that arrived after those of {newest}, wanted {wanted}"
    )
    return accepted[is_late], template, {"newest": _date(newest)}


def feed_findings(grid: CountGrid, countries: Collection[str], spec: Spec) -> list[Finding]:
    """Findings about the feed: flat lines, and a newest day with few depots; on a public holiday of
    one of the countries, the latter is no reason to stop."""
    limits, closed = spec.demand.rules, grid.closed if grid.closed.any() else None
    findings = []
    flat = feed_gaps.flat_lines(grid.counts, grid.fresh, closed, flat_days=limits.flat_days)
    if len(flat):
        places = tuple((str(grid.depots[d]), grid.day(day)) for d, day in zip(flat.depot, flat.last, strict=True))
        detail = sentence(
            N_("depot {depot}: found {count} on each of {days} from {since} on"),
            depot=places[0][0],
            count=amount(float(grid.counts[flat.depot[0], flat.last[0]]), "g"),
            days=_days(int(flat.known_days[0])),
            since=_date(grid.first + int(flat.first[0])),
        )
        findings.append(_of_feed("flat_line", len(flat), detail, spec, places[:PLACES]))
    findings += steps.findings(grid.counts, grid.fresh, grid.depots, grid.first)
    findings += [*_network_findings(grid, closed, spec), *_low_day_findings(grid, closed, countries, spec)]
    thin = feed_gaps.thin_day(grid.counts, grid.fresh, closed, thin_share=limits.thin_share)
    if thin is not None:
        detail = sentence(
            N_("{day}: found readings of {depots}, where {n} are usual"),
            day=_date(grid.first + int(thin.day)),
            depots=_depots(thin.depots),
            n=round(thin.expected),
        )
        finding = _of_feed("thin_feed", thin.depots, detail, spec)
        findings.append(replace(finding, severity="warn") if _is_holiday(grid, int(thin.day), countries) else finding)
    return findings


def _low_day_findings(grid: CountGrid, closed: Bools | None, countries: Collection[str], spec: Spec) -> list[Finding]:
    """Finding about days, other than public holidays, that are low at nearly all depots."""
    days = feed_gaps.low_days(grid.counts, grid.fresh, closed, thin_share=spec.demand.rules.thin_share)
    days = [day for day in days if not _is_holiday(grid, day.day, countries)]
    if not days:
        return []
    values = {"days": _days(len(days)), "day": _date(grid.first + days[-1].day), "depots": _depots(days[-1].depots)}
    values |= {"total": round(days[-1].total), "usual": round(days[-1].usual)}
    template = N_("{days}, the last on {day}: found {total} at {depots} together, where {usual} are usual")
    return [_of_feed("low_day", len(days), sentence(template, **values), spec)]


def _is_holiday(grid: CountGrid, column: int, countries: Collection[str]) -> bool:
    day = np.array([grid.first + column]).astype("datetime64[D]")
    return any(holiday_names(day, country, None) for country in countries)


def _network_findings(grid: CountGrid, closed: Bools | None, spec: Spec) -> list[Finding]:
    """Findings about all depots together: weekly or monthly counts, and depots that are sums of
    others."""
    findings = []
    if cadence := network_shape.cadence(grid.counts, closed):
        detail = sentence(
            N_("found readings {often} of {depots}"), often=cadence.sentence(), depots=_depots(cadence.depots)
        )
        findings.append(_of_feed("cadence", cadence.depots, detail, spec))
    findings += [*_meter_findings(grid, spec), *_spread_findings(grid, spec)]
    for depot, days in network_shape.totals(grid.counts).items():
        name = str(grid.depots[depot])
        summed = N_("depot {depot}: found the sum of other depots on each of {days}")
        detail = sentence(summed, depot=name, days=_days(days))
        place = (name, grid.day(grid.counts.shape[1] - 1))
        findings.append(_of_feed("total_row", days, detail, spec, (place,)))
    return findings


def _meter_findings(grid: CountGrid, spec: Spec) -> list[Finding]:
    """Finding about depots whose counts only rise; if they are few of many, it only warns."""
    meters = network_shape.meters(grid.counts, grid.fresh)
    if meters is None:
        return []
    name, low, high, days = _first_of(grid, meters.depots)
    detail = sentence(
        N_(
            "depot {depot}: found counts that only rise, from {low} to {high} on {days}, at {n} of {all} depots, "
            "like meter readings"
        ),
        depot=name,
        low=amount(low, "g"),
        high=amount(high, "g"),
        days=_days(days),
        n=len(meters.depots),
        all=int(meters.judged),
    )
    finding = _of_feed("meter", len(meters.depots), detail, spec, _last_places(grid, meters.depots))
    is_rule = 2 * len(meters.depots) >= meters.judged or "meter" in spec.demand.rules.severity
    return [finding if is_rule else replace(finding, severity="warn")]


def _spread_findings(grid: CountGrid, spec: Spec) -> list[Finding]:
    """Finding about one value on all days of a week or month."""
    spread = network_shape.spread_counts(grid.counts, grid.fresh, grid.first)
    if spread is None:
        return []
    name = str(grid.depots[spread.depots[0]])
    detail = sentence(network_shape.SPREAD[spread.period], depot=name, n=len(spread.depots), all=int(spread.judged))
    return [_of_feed("spread_counts", len(spread.depots), detail, spec, _last_places(grid, spread.depots))]


def _first_of(grid: CountGrid, depots: Any) -> tuple[str, float, float, int]:
    """First of these depots, its first and last count on the newest days, and the number of these."""
    counts = grid.counts[depots[0], -network_shape.RECENT :]
    counts = counts[~np.isnan(counts)]
    return str(grid.depots[depots[0]]), float(counts[0]), float(counts[-1]), len(counts)


def _last_places(grid: CountGrid, depots: Any) -> tuple[tuple[str, str], ...]:
    day = grid.day(grid.counts.shape[1] - 1)
    return tuple((str(grid.depots[depot]), day) for depot in depots[:PLACES])


def silent_depots(
    accepted: pd.DataFrame, last_readings: LastReadings, depots: pd.DataFrame | None, spec: Spec
) -> list[Finding]:
    """Findings about depots in business without a reading for long, and about many whose readings
    end at once. A depot silent for longer than `reach` counts as closed."""
    all_readings = last_readings.beside(LastReadings.of(accepted))
    last = pd.Series(all_readings.last_heard, all_readings.depots)[all_readings.last_heard > NEVER].sort_index()
    if last.empty:
        return []
    newest = int(last.max())
    table = pd.DataFrame(index=last.index) if depots is None else depots.set_index("depot_id")[["opened", "closed"]]
    last = last.reindex(table.index)
    opened, closed = (np.asarray(table.get(name, pd.Series(pd.NaT, table.index)), "datetime64[D]") for name in _SPAN)
    opened[opened < np.datetime64(newest - reach(spec), "D")] = np.datetime64("NaT")
    since = np.where(last.isna(), np.datetime64("NaT"), last.fillna(0).to_numpy().astype("datetime64[D]"))
    end, rules = np.datetime64(newest, "D"), spec.demand.rules
    silences = feed_gaps.silent_depots(since, opened, closed, end, max_gap_days=rules.max_gap_days)
    template = N_("depot {depot}: found no reading for {days} up to {day}")
    findings = [_silence("silent_depot", template, silences, table.index, end, spec)] if len(silences) else []
    many = feed_gaps.early_ends(since, closed, end, longest=rules.closed_after_days)
    # then a missing row is not reported as a gap
    if many is None or len(many) <= len(silences) or spec.demand.missing == "zero":
        return findings
    template = N_("depot {depot}: found no reading for {days} up to {day}, and at {n} depots for more than a week")
    return [*findings, _silence("early_end", template, many, table.index, end, spec)]


def _silence(
    rule: str, template: str, silences: feed_gaps.Silences, depots: pd.Index[Any], end: np.datetime64, spec: Spec
) -> Finding:
    names, day = [str(depots[depot]) for depot in silences.depot[:PLACES]], str(end)
    values = {"days": _days(int(silences.days[0])), "day": _date(end.astype(int)), "n": len(silences)}
    detail = sentence(template, depot=names[0], **values)
    return _of_feed(rule, len(silences), detail, spec, tuple((name, day) for name in names))


def count_grid(batch: Batch, known_days: KnownDays) -> CountGrid:
    """Latest version of each depot-day, known or new, from CONTEXT days before the first new day
    on."""
    new = batch.accepted.assign(place=np.arange(len(batch.accepted), dtype=np.int32))
    new = new if batch.single else reading_versions.latest(new)
    begin, last = int(new["day"].min()), int(new["day"].max())
    grid = DepotDayGrid(new["depot_id"].cat.categories, begin - CONTEXT, last, begin=begin)
    for _, _, rows in known_days.between(grid.first, last):
        grid.put(reading_versions.latest(rows))
        del rows  # before the next rows are read
        release_memory()
    for row in range(0, len(new), PORTION):
        grid.put(new.iloc[row : row + PORTION])
    grid.arrange(new["depot_id"].cat.categories.union(known_days.last_readings.depots))
    # column order: the days before the batch then take no memory
    fresh = np.zeros(grid.counts.shape, np.bool_, order="F")
    np.logical_and(grid.place >= 0, ~np.isnan(grid.counts[:, CONTEXT:]), out=fresh[:, CONTEXT:])
    return CountGrid(grid.depots, grid.first, grid.counts, fresh, grid.closed, grid.place)


def _without(grid: CountGrid, depot: Ints, day: Ints) -> CountGrid:
    """Remove some new counts from the grid, in place: no caller needs the old grid, and a copy is
    as large."""
    grid.counts[depot, day], grid.fresh[depot, day] = np.nan, False
    return grid


def _not_released(rows: pd.DataFrame, rule: str, released: Collection[str], spec: Spec) -> Bools:
    """Mark rows that no person released."""
    if not released:
        return np.ones(len(rows), np.bool_)
    unreleased: Bools = (
        ~quarantine.identity(rows["source"], rule, quarantine.source_json(rows, spec)).isin(released).to_numpy()
    )
    return unreleased


def _message(rows: pd.DataFrame, rule: str, usual: Any, spec: Spec) -> RowSentences:
    template = N_(
        "{place}: depot {depot} on {day}, column '{column}': found '{value}', wanted {wanted}: {usual} is usual on "
        "such a day"
    )
    return RowSentences.of(
        template,
        rows.index,
        **start(rows),
        column=spec.demand.columns.demand,
        value=pd.Series([f"{value:g}" for value in rows["demand"]], rows.index, dtype="str"),
        wanted=data_rules.requirement(rule, spike_factor=spec.demand.rules.spike_factor),
        usual=pd.Series([amount(float(level), "g") for level in usual], rows.index, dtype=object),
    )


def _warning(rule: str, rows: pd.DataFrame, message: RowSentences, severity: str = "warn") -> list[Finding]:
    if not len(rows):
        return []
    first = rows.head(PLACES)
    places = zip(first["depot_id"].astype("str"), dates(first).dt.strftime("%Y-%m-%d"), strict=True)
    return [Finding(rule, severity, len(rows), message.first, tuple(places))]


def _of_feed(rule: str, count: int, detail: str, spec: Spec, places: tuple[tuple[str, str], ...] = ()) -> Finding:
    limits = spec.demand.rules
    requirement = data_rules.requirement(rule, **limits.model_dump())
    message = sentence(N_("{detail}, wanted {wanted}"), detail=detail, wanted=requirement)
    return Finding(rule, data_rules.severity(rule, limits.severity), count, message, places)


def _date(day: Any) -> date:
    """Date of a day since 1970."""
    value: date = np.datetime64(int(day), "D").astype(object)
    return value


def _days(number: int) -> str:
    return counted(int(number), "{n} day", "{n} days")


def _depots(number: int) -> str:
    return counted(int(number), "{n} depot", "{n} depots")
