"""Mapping of the ledger's rows to values and back: runs, publications, promotions (data mapper).

Each function works on a connection whose transaction the caller holds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, Literal

import sqlalchemy as sa

from forecaster.core.language.sentences import packed, unpacked
from forecaster.errors import LedgerError
from forecaster.ledger import plan_rows, tables
from forecaster.ledger.columns.sentences import sentence_values, with_sentence
from forecaster.ledger.publication import (
    Publication,
    PublishedChange,
    PublishedDay,
    PublishedDepot,
    PublishedMark,
    PublishedOverride,
    PublishedRoster,
    PublishedTotal,
    RecentDay,
    Tier,
)
from forecaster.ledger.soundness import named_damage

Outcome = Literal["running", "published", "degraded", "failed", "no_data", "busy", "done"]
"""`busy`: another run was at work; `done`: maintenance, which publishes nothing."""
Kind = Literal["night", "refresh", "predict", "backfill", "maintain"]
KEPT = 8  # publications kept per pipeline
PUBLICATION_FIELDS = tuple(
    field.name for field in fields(Publication) if field.name not in ("depots", "totals", "plans")
)


@dataclass(frozen=True)
class Run:
    """One run, as far as it got."""

    run_id: str
    pipeline: str
    started_at: datetime
    finished_at: datetime | None
    as_of: datetime
    spec_digest: str
    lake_versions: Mapping[str, int]
    bundle_digest: str | None
    tier: Tier | None
    outcome: Outcome
    exit_code: int | None
    findings: tuple[Mapping[str, Any], ...]
    timings: Mapping[str, float]  # stage → seconds
    verdict: Mapping[str, Any] | None
    message: str | None
    kind: Kind = "night"
    # {forecasts, cost_per_hour, currency}; None: nothing was published
    computing: Mapping[str, Any] | None = None
    # names as in `metric_names.OF_RUNS`, and versions; None: not counted
    measures: Mapping[str, Any] | None = None
    night: datetime | None = None  # scheduled instant; None: not a scheduled run


@dataclass(frozen=True)
class Head:
    """The shown publication without its depots. Ids are never reused."""

    publication_id: int
    previous_id: int | None  # target of `rollback`
    flipped_at: datetime
    pipeline: str
    run_id: str
    published_at: datetime
    as_of: datetime
    cutoff: date
    horizon: int
    tier: Tier
    model: str
    timezone: str
    levels: tuple[float, ...]
    bundle_digest: str | None
    title: str | None
    note: str | None
    desk: str | None = None
    revised_at: datetime | None = None  # last change of a day by planners
    rows_digest: str | None = None  # SHA-256 of all that readers see
    rows_seal: str | None = None  # signature of the digest; None: no key


@dataclass(frozen=True)
class Promotion:
    """A promotion with its reason and the previous champion."""

    id: int
    at: datetime
    pipeline: str
    run_id: str
    bundle_digest: str
    model_version: str | None
    previous_digest: str | None
    by: str
    reason: str


def single_row(connection: sa.Connection, query: sa.Select[Any]) -> sa.RowMapping | None:
    """The row of a query that returns at most one."""
    return connection.execute(query).mappings().one_or_none()


def plain(value: Any) -> Any:
    """Return a dataclass or mapping as JSON reads it back, with its sentences packed; any other
    value unchanged."""
    if is_dataclass(value) and not isinstance(value, type):
        return json.loads(json.dumps(packed(asdict(value))))
    return packed(value) if isinstance(value, Mapping) else value


def run_of_row(row: Mapping[Any, Any]) -> Run:
    """Run from its row in the ledger."""
    findings = tuple(unpacked(finding) if isinstance(finding, Mapping) else finding for finding in row["findings"])
    return Run(**{**with_sentence(row, "message"), "findings": findings})


def head_of_row(row: Mapping[Any, Any], **besides: Any) -> Head:
    """Publication without its depots, from its row."""
    return Head(**{**with_sentence(row, "note"), "levels": tuple(row["levels"])}, **besides)


def promotion_of_row(row: Mapping[Any, Any]) -> Promotion:
    """Promotion from its row."""
    return Promotion(**with_sentence(row, "reason"))


def add_run(connection: sa.Connection, row: Mapping[str, Any]) -> None:
    """Insert the row of a run that has begun. Raises LedgerError if its id is taken."""
    run_id = row["run_id"]
    if single_row(connection, sa.select(tables.runs.c.run_id).where(tables.runs.c.run_id == run_id)):
        raise LedgerError(f"run {run_id!r} is in the ledger already; wanted a new run id")
    connection.execute(tables.runs.insert().values(outcome="running", findings=[], timings={}, **row))


def head(connection: sa.Connection, pipeline: str) -> Head | None:
    """The publication shown by the pipeline's slot."""
    slot = tables.slot.c
    query = (
        sa.select(tables.publications, slot.previous_id, slot.flipped_at)
        .join(tables.slot, slot.publication_id == tables.publications.c.publication_id)
        .where(slot.pipeline == pipeline)
    )
    row = single_row(connection, query)
    return None if row is None else head_of_row(row)


def list_heads(connection: sa.Connection, pipeline: str) -> tuple[Head, ...]:
    """All kept publications, newest first.

    Those not shown have a `previous_id` of None and the instant of their publication as
    `flipped_at`.
    """
    current = head(connection, pipeline)
    query = sa.select(tables.publications).where(tables.publications.c.pipeline == pipeline)
    rows = connection.execute(query.order_by(tables.publications.c.publication_id.desc())).mappings()
    heads = (head_of_row(row, previous_id=None, flipped_at=row["published_at"]) for row in rows)
    return tuple(current if current and head_.publication_id == current.publication_id else head_ for head_ in heads)


def shown_at(connection: sa.Connection, pipeline: str, at: datetime) -> int | None:
    """Id of the publication shown at an instant, which may no longer be kept; None before the
    first."""
    row = tables.display_log.c
    query = sa.select(row.publication_id).where(row.pipeline == pipeline, row.at <= at)
    publication_id: int | None = connection.execute(query.order_by(row.id.desc()).limit(1)).scalar()
    return publication_id


def whole(connection: sa.Connection, published_head: Head) -> Publication:
    """A publication with its depots, as passed to `stage`."""
    values = {name: getattr(published_head, name) for name in PUBLICATION_FIELDS}
    number = published_head.publication_id
    return Publication(
        **values,
        depots=depots(connection, number),
        totals=totals(connection, number),
        plans=plan_rows.read(connection, number),
    )


def of_run(connection: sa.Connection, run_id: str) -> Publication | None:
    """Last kept publication of a run, as passed to `stage`."""
    return _last_publication(connection, tables.publications.c.run_id == run_id)


def publication_before(connection: sa.Connection, pipeline: str, instant: datetime) -> Publication | None:
    """Last kept publication of a pipeline made as of an instant before this one."""
    columns = tables.publications.c
    return _last_publication(connection, columns.pipeline == pipeline, columns.as_of < instant)


def _last_publication(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> Publication | None:
    column = tables.publications.c.publication_id
    query = sa.select(column).where(*where).order_by(column.desc()).limit(1)
    number = connection.execute(query).scalar()
    if number is None:
        return None
    return replace(without_depots(connection, number), depots=depots(connection, number))


def without_depots(connection: sa.Connection, number: int) -> Publication:
    """A kept publication with its totals and plans, but without its depots."""
    columns = [tables.publications.c[name] for name in (*PUBLICATION_FIELDS, "note_made_of")]
    query = sa.select(*columns).where(tables.publications.c.publication_id == number)
    row = connection.execute(query).mappings().one()
    values = {**with_sentence(row, "note"), "levels": tuple(row["levels"])}
    return Publication(**values, depots=(), totals=totals(connection, number), plans=plan_rows.read(connection, number))


def stage(connection: sa.Connection, publication: Publication) -> int:
    """Write a publication without its depots, not yet shown by a slot; return its new id."""
    values = {name: getattr(publication, name) for name in PUBLICATION_FIELDS}
    values |= {"levels": list(publication.levels), **sentence_values("note", publication.note)}
    key = connection.execute(tables.publications.insert().values(**values))
    assert key.inserted_primary_key is not None
    number: int = key.inserted_primary_key[0]
    rows = [
        {"publication_id": number, **asdict(total), "quantiles": list(total.quantiles)} for total in publication.totals
    ]
    if rows:
        connection.execute(tables.published_totals.insert(), rows)
    plan_rows.write(connection, number, publication.plans)
    return number


def of_depot(depot: PublishedDepot) -> dict[str, Any]:
    """Depot as a row of its publication, without its days."""
    return {
        "depot_id": depot.depot_id,
        "attributes": dict(depot.attributes),
        "recent": [day.to_row() for day in depot.recent],
        "marks": [[mark.date.isoformat(), mark.kind, mark.name] for mark in depot.marks],
        "timezone": depot.timezone,
        "tier": depot.tier,
        "bundle_digest": depot.bundle_digest,
        "weeks": [list(week) for week in depot.weeks] or None,
    }


def of_day(day: PublishedDay) -> dict[str, Any]:
    """Day as a row of its publication and depot."""
    besides = {
        "quantiles": list(day.quantiles),
        "roster": None if day.roster is None else day.roster.to_json(),
        "override": None if day.override is None else day.override.to_json(),
        "change": None if day.change is None else day.change.to_json(),
    }
    return vars(day) | besides


def totals(connection: sa.Connection, publication_id: int) -> tuple[PublishedTotal, ...]:
    """Totals of a publication, in the order of `PublishedTotal.place`."""
    table = tables.published_totals.c
    query = sa.select(table.name, table.target_date, table.quantiles, table.level, table.days)
    with named_damage(f"publication {publication_id}"):
        rows = connection.execute(query.where(table.publication_id == publication_id))
        # by code point, as Python sorts: databases have collations of their own
        return tuple(sorted((PublishedTotal(*row) for row in rows), key=lambda total: total.place))


def depots(
    connection: sa.Connection, publication_id: int, depot_ids: Collection[str] | None = None
) -> tuple[PublishedDepot, ...]:
    """Depots of a publication in their order, optionally only the given ones."""
    queries = []
    for table in (tables.published_depots, tables.published):
        query = sa.select(table).where(table.c.publication_id == publication_id)
        queries.append(query if depot_ids is None else query.where(table.c.depot_id.in_(depot_ids)))
    with named_damage(f"publication {publication_id}"):
        days = defaultdict(list)
        for row in connection.execute(queries[1].order_by(tables.published.c.target_date)).mappings():
            days[row["depot_id"]].append(day_of_row(row))
        return tuple(
            depot_of_row(row, tuple(days[row["depot_id"]]))
            for row in connection.execute(queries[0].order_by(tables.published_depots.c.position)).mappings()
        )


def day_of_row(row: Mapping[Any, Any]) -> PublishedDay:
    return PublishedDay(
        row["target_date"],
        row["horizon"],
        row["open"],
        tuple(row["quantiles"]),
        row["drivers"],
        None if row["roster"] is None else PublishedRoster.from_json(row["roster"]),
        None if row["override"] is None else PublishedOverride.from_json(row["override"]),
        None if row["change"] is None else PublishedChange.from_json(row["change"]),
    )


def depot_of_row(row: Mapping[Any, Any], days: tuple[PublishedDay, ...]) -> PublishedDepot:
    return PublishedDepot(
        row["depot_id"],
        days,
        tuple(map(RecentDay.of_row, row["recent"])),
        row["attributes"],
        tuple(PublishedMark(date.fromisoformat(day), kind, name) for day, kind, name in row["marks"]),
        row["timezone"],
        row["tier"],
        row["bundle_digest"],
        row["weeks"] or (),
    )


def flip(
    connection: sa.Connection, pipeline: str, publication_id: int, previous_id: int | None, at: datetime | None = None
) -> None:
    """Show another publication from an instant on (default: now); `previous_id` is the target of a
    rollback."""
    values = {"publication_id": publication_id, "previous_id": previous_id, "flipped_at": datetime.now(UTC)}
    update = connection.execute(tables.slot.update().where(tables.slot.c.pipeline == pipeline).values(**values))
    if update.rowcount == 0:
        connection.execute(tables.slot.insert().values(pipeline=pipeline, **values))
    row = {"pipeline": pipeline, "publication_id": publication_id, "at": at or values["flipped_at"]}
    connection.execute(tables.display_log.insert().values(**row))


def prune(connection: sa.Connection, pipeline: str, keep: int = KEPT) -> None:
    """Delete all but the last `keep` publications, but never one named by the slot."""
    numbers, slot = tables.publications.c.publication_id, tables.slot.c
    of_pipeline = tables.publications.c.pipeline == pipeline
    newest = sa.select(numbers).where(of_pipeline).order_by(numbers.desc()).limit(keep)
    remaining = set(connection.execute(newest).scalars())
    in_slot = sa.select(slot.publication_id, slot.previous_id).where(slot.pipeline == pipeline)
    for slot_ids in connection.execute(in_slot):
        remaining |= {number for number in slot_ids if number is not None}
    connection.execute(tables.publications.delete().where(of_pipeline, numbers.not_in(remaining)))


def champion(connection: sa.Connection, pipeline: str, at: datetime | None = None) -> Promotion | None:
    """The latest promotion, optionally up to an instant."""
    query = sa.select(tables.promotions).where(tables.promotions.c.pipeline == pipeline)
    if at is not None:
        query = query.where(tables.promotions.c.at <= at)
    row = single_row(connection, query.order_by(tables.promotions.c.id.desc()).limit(1))
    return None if row is None else promotion_of_row(row)


def add_promotion(
    connection: sa.Connection,
    pipeline: str,
    run_id: str,
    bundle_digest: str,
    model_version: str | None,
    *,
    by: str,
    reason: str,
    at: datetime,
) -> Promotion:
    """Make a bundle the champion, or confirm the current one."""
    reigning = champion(connection, pipeline)
    row: dict[str, Any] = {"pipeline": pipeline, "run_id": run_id, "by": by, "at": at}
    row |= sentence_values("reason", reason)
    row |= {"bundle_digest": bundle_digest, "model_version": model_version}
    row |= {"previous_digest": reigning.bundle_digest if reigning else None}
    connection.execute(tables.promotions.insert().values(**row))
    promotion = champion(connection, pipeline)
    assert promotion is not None
    return promotion


def previous_champion(promotions: Sequence[Promotion]) -> Promotion | None:
    """Promotion to step back to: that of the champion before the current one, except champions
    deposed by a step back.

    `promotions` are all of a pipeline, oldest first. A promotion of the bundle before the reigning
    one is a step back; one of the reigning bundle confirms it. So two steps back lead two champions
    back, not to and fro.
    """
    champion_terms: list[Promotion] = []
    for promotion in promotions:
        if len(champion_terms) > 1 and promotion.bundle_digest == champion_terms[-2].bundle_digest:
            champion_terms.pop()
        elif not champion_terms or promotion.bundle_digest != champion_terms[-1].bundle_digest:
            champion_terms.append(promotion)
    return champion_terms[-2] if len(champion_terms) > 1 else None
