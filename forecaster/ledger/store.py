"""Ledger store, a relational database of runs, publications and champions.

An SQLite file in WAL mode by default, PostgreSQL by URL. A publication is staged, read back,
checked, and shown by updating one slot row, all in one transaction: readers never see a mix.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, get_args

import sqlalchemy as sa

from forecaster.core.processes.resource_usage import merge
from forecaster.errors import LedgerError, NoSuchRow
from forecaster.ledger import connect, lease, plan_rows, records, run_totals, tables
from forecaster.ledger.columns.instants import Instant
from forecaster.ledger.columns.sentences import sentence_values
from forecaster.ledger.publication import Publication, PublishedDepot, PublishedTotal, Tier
from forecaster.ledger.records import Head, Kind, Outcome, Promotion, Run
from forecaster.ledger.soundness import Seal
from forecaster.ledger.staging.objections import objections
from forecaster.ledger.week_plan import WeekPlan
from forecaster.plugins import optional

if TYPE_CHECKING:
    from forecaster.ledger.staging.parts import Parts

GATE, CANARY = ITSELF = "gate", "canary"  # authors of automatic promotions, in a run


class Ledger:
    """The ledger, opened for writing (`open`) or for reading (`open_reader`); threads may share it.

    Every method raises LedgerError, in a plain sentence, if the database operation fails.
    """

    def __init__(self, url: str, engine: sa.Engine) -> None:
        self.url, self._engine = url, engine

    @classmethod
    def open(cls, url: str, *, patience: float = connect.PATIENCE) -> Self:
        """Open for writing; create the folder, migrate the tables. `patience` as in
        `connect.writer`."""
        return cls(url, connect.writer(url, patience=patience))

    @classmethod
    def open_reader(cls, url: str, *, patience: float = 0.0) -> Self:
        """Open for reading only; LedgerError if the ledger is missing or its revision is unknown."""
        return cls(url, connect.reader(url, patience=patience))

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # runs

    def start_run(
        self,
        run_id: str,
        *,
        pipeline: str,
        as_of: datetime,
        spec_digest: str,
        lake_versions: Mapping[str, int] | None = None,
        kind: Kind = "night",
        at: datetime | None = None,
    ) -> str:
        """Record the start of a run, now by default. Raises LedgerError if the run id is taken.

        Runs that will write take the lease at the same time: `run_start.begin`.
        """
        row = {"run_id": run_id, "pipeline": pipeline, "as_of": as_of, "spec_digest": spec_digest, "kind": kind}
        row |= {"started_at": at or datetime.now(UTC), "lake_versions": dict(lake_versions or {})}
        with self._transaction() as connection:
            records.add_run(connection, row)
        return run_id

    def note(
        self,
        run_id: str,
        *,
        timings: Mapping[str, float] | None = None,
        findings: Iterable[Any] = (),
        lake_versions: Mapping[str, int] | None = None,
        bundle_digest: str | None = None,
        tier: Tier | None = None,
        verdict: Any = None,
        message: str | None = None,
        computing: Mapping[str, Any] | None = None,
        measures: Mapping[str, Any] | None = None,
    ) -> None:
        """Add the results of a stage: timings (seconds), lake versions and measures are merged,
        findings appended once, the rest replaced. Findings and the verdict are dataclasses or
        mappings."""
        changes = {"bundle_digest": bundle_digest, "tier": tier, "verdict": records.plain(verdict)}
        changes |= {"computing": None if computing is None else dict(computing)}
        values: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
        values |= {} if message is None else sentence_values("message", message)
        with self._transaction() as connection:
            row = self._run_row(connection, run_id)
            values["timings"] = row["timings"] | {stage: float(s) for stage, s in (timings or {}).items()}
            values["lake_versions"] = row["lake_versions"] | dict(lake_versions or {})
            if measures:
                values["measures"] = merge(row["measures"], dict(measures))
            values["findings"] = list(row["findings"])
            for finding in map(records.plain, findings):
                if finding not in values["findings"]:
                    values["findings"].append(finding)
            connection.execute(tables.runs.update().where(tables.runs.c.run_id == run_id).values(**values))

    def finish_run(
        self,
        run_id: str,
        outcome: Outcome,
        exit_code: int,
        message: str | None = None,
        tier: Tier | None = None,
        *,
        at: datetime | None = None,
    ) -> None:
        """Record the end of a run, and give its lease back. A message or tier noted earlier stays
        unless another is given; the row of a run that another one closed as dead stays unchanged."""
        if outcome not in get_args(Outcome):
            raise LedgerError(f"outcome is {outcome!r}, wanted one of {', '.join(get_args(Outcome))}")
        values: dict[str, Any] = {"outcome": outcome, "exit_code": exit_code, "finished_at": at or datetime.now(UTC)}
        values |= {} if message is None else sentence_values("message", message)
        values |= {} if tier is None else {"tier": tier}
        with self._transaction() as connection:
            row = self._run_row(connection, run_id)
            if not (row["finished_at"] and str(row["message"]).startswith(lease.WAS_KILLED)):
                connection.execute(tables.runs.update().where(tables.runs.c.run_id == run_id).values(**values))
            lease.give_back(connection, run_id)

    def runs(
        self, pipeline: str | None = None, limit: int = 30, *, ended: bool = False, nights: bool = False
    ) -> tuple[Run, ...]:
        """Latest runs, newest first; with `ended` only finished ones, with `nights` only those
        meant to publish: no maintenance, no backfill, no `busy` run."""
        query = sa.select(tables.runs).order_by(tables.runs.c.started_at.desc(), tables.runs.c.run_id).limit(limit)
        if pipeline is not None:
            query = query.where(tables.runs.c.pipeline == pipeline)
        if ended:
            query = query.where(tables.runs.c.finished_at.is_not(None))
        if nights:
            query = query.where(tables.runs.c.kind.not_in(("maintain", "backfill")), tables.runs.c.outcome != "busy")
        with self._transaction() as connection:
            rows = connection.execute(query).mappings().all()
        return tuple(map(records.run_of_row, rows))

    def run(self, run_id: str) -> Run:
        """One run. Raises LedgerError if it was never started."""
        with self._transaction() as connection:
            row = self._run_row(connection, run_id)
        return records.run_of_row(row)

    def forget_runs(self, pipeline: str, *, before: datetime, keep: str) -> int:
        """Delete runs that ended before an instant, and return their number; keep `keep` and those
        that other rows reference."""
        runs, naming = tables.runs.c, (tables.promotions, tables.publications, tables.canaries)
        referenced = sa.union(*(sa.select(table.c.run_id) for table in naming))
        unnamed = runs.run_id.not_in(referenced)
        old = (runs.pipeline == pipeline, runs.finished_at < before, runs.run_id != keep, unnamed)
        with self._transaction() as connection:
            run_totals.remember(connection, pipeline, *old)
            return connection.execute(tables.runs.delete().where(*old)).rowcount

    def published_nights(self, pipeline: str, *, since: datetime) -> list[tuple[datetime | None, datetime]]:
        """Night and `as_of` of each nightly run or backfill published as of an instant or later."""
        runs = tables.runs.c
        query = sa.select(runs.night, runs.as_of).where(runs.pipeline == pipeline, runs.as_of >= since)
        query = query.where(runs.outcome.in_(("published", "degraded")), runs.kind.in_(("night", "backfill")))
        with self._transaction() as connection:
            return [(night, as_of) for night, as_of in connection.execute(query.order_by(runs.as_of))]

    def first_as_of(self, pipeline: str) -> datetime | None:
        """Earliest instant as of which a nightly run published forecasts; None if none has."""
        runs = tables.runs.c
        query = sa.select(sa.func.min(runs.as_of, type_=Instant)).where(
            runs.pipeline == pipeline, runs.kind == "night", runs.outcome.in_(("published", "degraded"))
        )
        with self._transaction() as connection:
            earliest: datetime | None = connection.execute(query).scalar()
        return earliest

    def in_use_since(self, pipeline: str) -> tuple[datetime | None, datetime | None]:
        """Start of the first run, and instant of the last deployment; None: never."""
        runs, deployed = tables.runs.c, tables.deploy_windows.c
        first = sa.select(sa.func.min(runs.started_at, type_=Instant)).where(runs.pipeline == pipeline)
        opened = sa.select(deployed.opened_at).where(deployed.pipeline == pipeline)
        with self._transaction() as connection:
            return connection.execute(first).scalar(), connection.execute(opened).scalar()

    def seems_killed(self, run: Run, now: datetime) -> bool:
        """Return true if a run has not ended but is no longer at work; the next run will close it."""
        if run.outcome != "running":
            return False
        with self._transaction() as connection:
            return not lease.lives(connection, run.pipeline, run.run_id, now)

    def expected_timings(self, pipeline: str) -> dict[str, float]:
        """Stage → seconds: median over the last 14 finished nightly runs that had the stage."""
        with self._transaction() as connection:
            return run_totals.expected_timings(connection, pipeline)

    # publications

    def publish(
        self,
        publication: Publication,
        *,
        keep: int = records.KEPT,
        show: bool = True,
        parts: Parts | None = None,
        beside: Callable[[sa.Connection], object] | None = None,
        seal: Seal | None = None,
    ) -> int:
        """Show this publication, or without `show` only keep it; keep the last `keep`; return its
        id.

        `parts` returns the depots of a publication too large for memory; they have passed
        `objections_to_depots`. `beside` writes in the same transaction, `seal` signs the rows.
        Publishing the shown publication of the same run again changes nothing. Raises LedgerError,
        changing nothing, if the publication is not whole, or its run was never started or was
        closed as dead.
        """
        from forecaster.ledger.staging import parts as staging  # imports pyarrow: 30 MB that readers do not need

        if sentences := objections(publication, in_parts=parts is not None):
            raise LedgerError("not published: " + "; ".join(sentences))
        parts = parts or staging.parts_of(publication)
        with self._transaction() as connection:
            lease.admit(connection, publication.pipeline, publication.run_id)
            self._run_row(connection, publication.run_id)
            head = records.head(connection, publication.pipeline)
            number = head.publication_id if head and head.run_id == publication.run_id else None
            if number is not None and staging.is_kept(connection, number, publication, parts):
                return number
            number = staging.stage(connection, publication, parts, seal)
            previous = head.publication_id if head else None
            if show:
                records.flip(connection, publication.pipeline, number, previous, publication.published_at)
            if beside is not None:
                beside(connection)
            records.prune(connection, publication.pipeline, keep)
        return number

    def current(self, pipeline: str | None = None) -> Head | None:
        """Shown publication; None if nothing was published.

        Without a pipeline, that of the only one; raises LedgerError if there are several.
        """
        with self._transaction() as connection:
            if pipeline is None:
                names = connection.execute(sa.select(tables.slot.c.pipeline).order_by("pipeline")).scalars().all()
                if len(names) > 1:
                    raise LedgerError(f"the ledger holds several pipelines; name one of {', '.join(names)}")
                if not names:
                    return None
                pipeline = names[0]
            return records.head(connection, pipeline)

    def published_by(self, run_id: str) -> Publication | None:
        """Last kept publication of a run."""
        with self._transaction() as connection:
            return records.of_run(connection, run_id)

    def published_before(self, pipeline: str, instant: datetime) -> Publication | None:
        """Last kept publication made as of an instant before this one."""
        with self._transaction() as connection:
            return records.publication_before(connection, pipeline, instant)

    def whole(self, head: Head) -> Publication:
        """A publication with all its depots."""
        with self._transaction() as connection:
            return records.whole(connection, head)

    def desks(self) -> frozenset[str]:
        """Names of the input files of kept publications, of all pipelines."""
        query = sa.select(tables.publications.c.desk).where(tables.publications.c.desk.is_not(None))
        with self._transaction() as connection:
            return frozenset(connection.execute(query).scalars())

    def depots(self, publication_id: int, depot_ids: Collection[str] | None = None) -> tuple[PublishedDepot, ...]:
        """Depots of a publication in order, optionally only the given ones; empty if not kept."""
        with self._transaction() as connection:
            return records.depots(connection, publication_id, depot_ids)

    def depot(self, publication_id: int, depot_id: str) -> PublishedDepot | None:
        """One depot of a publication."""
        with self._transaction() as connection:
            return next(iter(records.depots(connection, publication_id, [depot_id])), None)

    def totals(self, publication_id: int) -> tuple[PublishedTotal, ...]:
        """Totals of the network (first) and of each group of depots, by day and week; empty if not
        published."""
        with self._transaction() as connection:
            return records.totals(connection, publication_id)

    def plans(self, publication_id: int, depot_id: str | None = None) -> tuple[WeekPlan, ...]:
        """Plans of the week of a publication, or of one depot; empty if no people are declared."""
        with self._transaction() as connection:
            return plan_rows.read(connection, publication_id, depot_id)

    def publications(self, pipeline: str) -> tuple[Head, ...]:
        """Heads of all kept publications, newest first."""
        with self._transaction() as connection:
            return records.list_heads(connection, pipeline)

    def shown_at(self, pipeline: str, at: datetime) -> int | None:
        """Id of the publication shown at an instant, kept or not; None before the first."""
        with self._transaction() as connection:
            return records.shown_at(connection, pipeline, at)

    def rollback(self, pipeline: str) -> Head:
        """Show the publication before the current one again; a second call undoes the first."""
        with self._transaction() as connection:
            head = records.head(connection, pipeline)
            if head is None or head.previous_id is None:
                raise LedgerError(f"nothing to roll back to: {pipeline} has no earlier publication")
            records.flip(connection, pipeline, head.previous_id, head.publication_id)
            restored = records.head(connection, pipeline)
        assert restored is not None
        return restored

    # champions

    def promote(
        self,
        pipeline: str,
        *,
        run_id: str,
        bundle_digest: str,
        by: str,
        reason: str,
        model_version: str | None = None,
        at: datetime | None = None,
    ) -> Promotion:
        """Make a bundle the champion; ends a running canary unless the champion stays."""
        with self._transaction() as connection:
            if by == GATE:
                lease.admit(connection, pipeline, run_id)
            self._run_row(connection, run_id)
            bundle, now = (run_id, bundle_digest, model_version), at or datetime.now(UTC)
            promotion = records.add_promotion(connection, pipeline, *bundle, by=by, reason=reason, at=now)
            if canaries := optional("canary.ledger"):
                canaries.end_at_promotion(connection, promotion)
        return promotion

    def name_versions(self, pipeline: str, versions: Mapping[str, str]) -> None:
        """Add the registry's versions to earlier rows without one: promotions, and a canary."""
        with self._transaction() as connection:
            for run_id, version in versions.items():
                for table in (tables.promotions, tables.canaries):
                    unnamed = (table.c.pipeline == pipeline) & (table.c.run_id == run_id)
                    unnamed &= table.c.model_version.is_(None)
                    if table is tables.promotions:
                        unnamed &= table.c.by.in_(ITSELF)
                    connection.execute(table.update().where(unnamed).values(model_version=version))

    def champion(self, pipeline: str, at: datetime | None = None) -> Promotion | None:
        """The latest promotion, now or at an instant; None if there was no champion by then."""
        with self._transaction() as connection:
            return records.champion(connection, pipeline, at)

    def promotions(self, pipeline: str) -> tuple[Promotion, ...]:
        """All promotions, oldest first."""
        query = sa.select(tables.promotions).where(tables.promotions.c.pipeline == pipeline)
        with self._transaction() as connection:
            rows = connection.execute(query.order_by(tables.promotions.c.id)).mappings().all()
        return tuple(map(records.promotion_of_row, rows))

    def stamp(self) -> object | None:
        """Value that changes with the ledger; None if only a query can detect changes."""
        return connect.stamp(self.url)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Transaction for joint changes; `lease` and `records` work on its connection."""
        with self._transaction() as connection:
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        with connect.translated_errors(self.url), self._engine.begin() as connection:
            yield connection

    def _run_row(self, connection: sa.Connection, run_id: str) -> sa.RowMapping:
        query = sa.select(tables.runs).where(tables.runs.c.run_id == run_id).with_for_update()
        if (row := records.single_row(connection, query)) is None:
            raise NoSuchRow(f"run {run_id!r} is not in the ledger; wanted one that `forecaster status` names")
        return row
