"""Current state of a pipeline in the ledger, as numbers under the names of `metric_names.OF_LEDGER`
and `OF_RUNS`.

A scrape must be cheap and block nobody, whatever the size of a publication: one read-only
transaction, a dozen small queries, and never the rows of depots or days.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from statistics import median
from typing import Any, NamedTuple, get_args
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.core.forecast import TrialState
from forecaster.core.metric_names import OF_RUNS
from forecaster.errors import BundleError
from forecaster.ledger import accuracy, run_totals, tables, value
from forecaster.ledger.columns.instants import Instant
from forecaster.ledger.publication import TIERS
from forecaster.ledger.store import Ledger
from forecaster.operations import due_nights
from forecaster.plugins import optional
from forecaster.serving import keys

WINDOWS = (1, 4)  # weeks to look back
NEVER_YET = ("degraded", "failed", run_totals.KILLED)  # outcomes of nights that trigger alerts
SCORED = ("wape", "bias", "coverage", "mase", "wql")
# model labels in Prometheus
LABELS = {accuracy.FORECAST: "published", accuracy.NAIVE: "seasonal_naive"}
WAYS = {  # labels of rostering policies in Prometheus
    value.PUBLISHED: "published",
    value.LAST_WEEK: "last_week",
    value.BUFFER: "buffer",
    value.FORESIGHT: "foresight",
}


class Reading(NamedTuple):
    """A number of the table `metric_names.MEASURES`, with the values of its labels."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


class EndedRun(NamedTuple):
    """Fields of an ended run."""

    kind: str
    seconds: float
    timings: Mapping[str, float]
    measures: Mapping[str, Any]
    findings: Iterable[Mapping[str, Any]]
    verdict: Mapping[str, Any] | None


def read(spec: Spec, ledger: Ledger, now: datetime) -> list[Reading]:
    """Return all readings at an instant. Raises LedgerError if the ledger cannot be read."""
    with ledger.transaction() as connection:
        nights = ended_runs(connection, spec.name, "night", run_totals.TIMED_RUNS + 1)
        readings = [
            *_publication(connection, spec.name),
            *_runs(connection, spec.name, nights),
            *(_last_night(nights[0]) if nights else ()),
            *_compiled_for(nights),
            *_champion(connection, spec.name),
            *_canaries(connection, spec),
            *_realised(connection, spec.name),
            *_roster_costs(connection, spec.name),
            *_overrides(connection, spec, now),
            Reading("deploy_window", float(run_totals.is_deploying(connection, spec.name, now))),
        ]
    return [*readings, *_nights(spec, ledger, now), *_keys(spec), *_waiting(spec)]


def ended_runs(connection: sa.Connection, pipeline: str, kind: str, most: int) -> list[EndedRun]:
    """Return the last runs of a kind, the newest first, without those that found another run at
    work."""
    row = tables.runs.c
    columns = (row.started_at, row.finished_at, row.timings, row.measures, row.findings, row.verdict)
    query = sa.select(*columns).where(row.pipeline == pipeline, row.kind == kind, row.finished_at.is_not(None))
    query = query.where(row.outcome != "busy").order_by(row.started_at.desc()).limit(most)
    return [
        EndedRun(kind, (finished - started).total_seconds(), timings, measures or {}, findings, verdict)
        for started, finished, timings, measures, findings, verdict in connection.execute(query)
    ]


def _publication(connection: sa.Connection, pipeline: str) -> Iterator[Reading]:
    row, slot, run = tables.publications.c, tables.slot.c, tables.runs.c
    columns = (row.publication_id, row.published_at, row.cutoff, row.timezone, row.tier, row.levels, run.measures)
    query = sa.select(*columns).join(tables.slot, slot.publication_id == row.publication_id)
    query = query.join(tables.runs, run.run_id == row.run_id).where(slot.pipeline == pipeline)
    head = connection.execute(query).one_or_none()
    if head is None:
        return
    yield Reading("published_at", head.published_at.timestamp())
    yield Reading("cutoff", _end_of(head.cutoff, head.timezone).timestamp())
    depots = (head.measures or {}).get("depots", {})
    for name in TIERS:
        yield Reading("tier", float(head.tier == name), (name,))
        yield Reading("depots_shown", depots.get(name, 0), (name,))
    for day, median_orders in network_medians(connection, head.publication_id, head.levels):
        yield Reading("orders_forecast", median_orders, (str((day - head.cutoff).days),))


def network_medians(
    connection: sa.Connection, publication_id: int, levels: Sequence[float]
) -> tuple[tuple[date, float], ...]:
    """Return the expected orders of the network on each day; empty if no total was published."""
    total = tables.published_totals.c
    query = sa.select(total.target_date, total.quantiles).where(
        total.publication_id == publication_id, total.name == "", total.days == 1
    )
    middle = list(levels).index(0.5)
    rows = connection.execute(query.order_by(total.target_date))
    return tuple((day, float(quantiles[middle])) for day, quantiles in rows)


def _end_of(day: date, timezone: str) -> datetime:
    return datetime.combine(day + timedelta(days=1), time(), ZoneInfo(timezone))


def _runs(connection: sa.Connection, pipeline: str, nights: list[EndedRun]) -> Iterator[Reading]:
    counts = run_totals.totals(connection, pipeline)
    # Events that never happened are reported as 0, so that the first one is seen as an increase.
    for ended, number in sorted(({("night", outcome): 0 for outcome in NEVER_YET} | dict(counts)).items()):
        yield Reading("runs", number, ended)
    row = tables.runs.c
    at_work = sa.select(row.kind, sa.func.max(row.started_at, type_=Instant)).where(
        row.pipeline == pipeline, row.finished_at.is_(None)
    )
    for kind, started_at in connection.execute(at_work.group_by(row.kind)):
        yield Reading("run_started_at", started_at.timestamp(), (kind,))
    for kind in sorted({kind for kind, _ in counts}):
        ended_of_kind = nights if kind == "night" else ended_runs(connection, pipeline, kind, run_totals.TIMED_RUNS + 1)
        if ended_of_kind:
            yield Reading("run_seconds", ended_of_kind[0].seconds, (kind,))
        if earlier := [run.seconds for run in ended_of_kind[1:]]:
            yield Reading("run_usual_seconds", median(earlier), (kind,))


def _last_night(night: EndedRun) -> Iterator[Reading]:
    for stage, seconds in night.timings.items():
        if stage != "night":
            yield Reading("stage_seconds", seconds, (stage,))
    for finding in night.findings:
        if finding["severity"] == "quarantine":
            yield Reading("quarantined_rows", finding["count"], (finding["rule"],))
    yield from _verdict(night.verdict)
    for name in (name for name in OF_RUNS if name in night.measures):
        value = night.measures[name]
        by_label = {(label,): number for label, number in value.items()} if isinstance(value, dict) else {(): value}
        for labels, number in by_label.items():
            yield Reading(name, number, labels)


def _verdict(verdict: Mapping[str, Any] | None) -> Iterator[Reading]:
    if verdict is None:
        return
    yield Reading("admitted", float(verdict["admitted"]))
    for model, metrics in verdict["compared"].items():
        for metric in SCORED:
            if metrics.get(metric) is not None:
                yield Reading("score", metrics[metric], (model, metric))


def _compiled_for(nights: list[EndedRun]) -> Iterator[Reading]:
    """Yield 1 if the last night's programs differ from those of the previous training, else 0;
    nothing if it trained none, or the ledger has no versions."""
    versions = [night.measures["versions"] for night in nights if "versions" in night.measures]
    if nights and "versions" in nights[0].measures:
        yield Reading("versions_changed", float(len(versions) < 2 or versions[0] != versions[1]))


def _champion(connection: sa.Connection, pipeline: str) -> Iterator[Reading]:
    row = tables.promotions.c
    promotions = connection.execute(
        sa.select(row.at, row.bundle_digest).where(row.pipeline == pipeline).order_by(row.id.desc()).limit(100)
    ).all()
    since = None
    for at, bundle_digest in promotions:
        if bundle_digest != promotions[0].bundle_digest:
            break
        since = at
    if since is not None:
        yield Reading("champion_since", since.timestamp())


def _canaries(connection: sa.Connection, spec: Spec) -> Iterator[Reading]:
    """Yield the newest canary, and the outcomes of earlier ones; nothing if none is declared and
    there never was one."""
    canaries = optional("canary.ledger")
    newest = next(iter(canaries.history(connection, spec.name, limit=1)), None) if canaries else None
    if newest is None and spec.canary is None:
        return
    row = tables.canaries.c
    query = sa.select(row.state, sa.func.count()).where(row.pipeline == spec.name).group_by(row.state)
    ended = dict(connection.execute(query).tuples().all())
    for state in get_args(TrialState):
        yield Reading("canary", float(newest is not None and newest.state == state), (state,))
        # events that never happened are reported as 0, so that the first one is seen as an increase
        if state != "running":
            yield Reading("canaries", ended.get(state, 0), (state,))
    yield Reading("canary_days", newest.days if newest else 0)


def _realised(connection: sa.Connection, pipeline: str) -> Iterator[Reading]:
    """Yield WAPE, bias and coverage of published forecasts over the newest weeks with actuals."""
    newest = accuracy.newest_week(connection, pipeline)
    if newest is None:
        return
    for weeks in WINDOWS:
        for model, tally in realised(connection, pipeline, newest, weeks).items():
            labels = (LABELS.get(model, model), str(weeks))
            for name, rate in (
                ("realised_error", tally.wape),
                ("realised_bias", tally.bias),
                ("realised_coverage", tally.coverage),
            ):
                if rate is not None:
                    yield Reading(name, rate, labels)


def realised(connection: sa.Connection, pipeline: str, last: date, weeks: int) -> Mapping[str, accuracy.Tally]:
    """Return model → scores of its forecasts of all depots in the weeks up to the one that begins
    on `last`."""
    table = tables.hindsight
    mondays = [last - timedelta(weeks=number) for number in range(weeks)]
    columns = [column for column in table.c if column.name != "pipeline"]
    query = sa.select(*columns).where(
        table.c.pipeline == pipeline,
        table.c.week.in_(mondays),
        table.c.model.in_(accuracy.MODELS),
        table.c.part == accuracy.ALL,
    )
    by_model: dict[str, list[accuracy.Tally]] = {}
    for row in connection.execute(query.order_by(table.c.week)).mappings():
        tally = accuracy.Tally(**row)
        by_model.setdefault(tally.model, []).append(tally)
    sums = {model: accuracy.combined(tallies) for model, tallies in by_model.items()}
    return {model: tally for model, tally in sums.items() if tally is not None}


def _roster_costs(connection: sa.Connection, pipeline: str) -> Iterator[Reading]:
    """Yield the cost of each rostering policy over the newest weeks, in the currency of the last
    day."""
    table = tables.value_days.c
    query = sa.select(table.day, table.currency).where(table.pipeline == pipeline).order_by(table.day.desc()).limit(1)
    newest = connection.execute(query).one_or_none()
    if newest is None:
        return
    since = accuracy.monday(newest.day) - timedelta(weeks=max(WINDOWS) - 1)
    costs: dict[str, float] = {}
    for cost in value.week_costs(connection, pipeline, newest.currency, since=since):
        costs[cost.way] = costs.get(cost.way, 0.0) + cost.cost
    for way, label in WAYS.items():
        if way in costs:
            yield Reading("roster_cost", costs[way], (label,))


def _overrides(connection: sa.Connection, spec: Spec, now: datetime) -> Iterator[Reading]:
    """Yield the number of future depot-days with a planner's number: the newest override of each,
    unless it was withdrawn."""
    row, withdrawals = tables.overrides.c, sa.select(tables.withdrawals.c.override_id)
    today = now.astimezone(spec.zone).date()
    newest = (
        sa.select(sa.func.max(row.id))
        .where(row.pipeline == spec.name, row.target_date >= today)
        .group_by(row.depot_id, row.target_date)
    )
    query = sa.select(sa.func.count()).where(row.id.in_(newest), row.until >= today, row.id.not_in(withdrawals))
    yield Reading("overrides", connection.execute(query).scalar_one())


def _nights(spec: Spec, ledger: Ledger, now: datetime) -> Iterator[Reading]:
    """Yield the scheduled nights without forecasts, and the deadline of the newest night."""
    newest = next(iter(due_nights.scheduled_nights(spec, now)))
    missing = due_nights.missed_nights(spec, ledger, now)
    is_missing = newest in missing and due_nights.is_awaited(spec, ledger, newest)
    yield Reading("nights_missing", float(is_missing), ("newest",))
    yield Reading("nights_missing", len([night for night in missing if night != newest]), ("earlier",))
    yield Reading("deadline", due_nights.deadline(spec, newest).timestamp())


def _keys(spec: Spec) -> Iterator[Reading]:
    """Yield the expiry of the signing key, or of the last trusted key; nothing for keys that do not expire or, as
    `doctor` reports, are unusable."""
    with suppress(BundleError):
        key = keys.deciding_key(spec.paths.folder)
        if key is not None and key.end is not None and key.revoked is None:
            yield Reading("keys_expire_at", key.end.timestamp())


def _waiting(spec: Spec) -> Iterator[Reading]:
    """Yield the number of runs in the outbox of the registry, without those being written or
    removed."""
    folder = spec.paths.registry_outbox
    names = [place.name for place in folder.iterdir()] if folder.is_dir() else []
    yield Reading("registry_waiting", sum(not name.startswith(".") and not name.endswith(".new") for name in names))
