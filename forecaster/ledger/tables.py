"""Database schema of the ledger (SQLAlchemy tables) as it stands after the newest revision.

A new ledger is made from them, an older one by the revisions in `migrations/versions`; a test
compares both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from forecaster.ledger.columns.instants import Instant, depot_day_columns
from forecaster.ledger.columns.sentences import sentence_columns

Json = sa.JSON(none_as_null=True)
metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)


def _required(kind: Any, *names: str) -> Iterator[sa.Column[Any]]:
    """Non-nullable columns of one type."""
    return (sa.Column(name, kind, nullable=False) for name in names)


runs = sa.Table(
    "runs",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("pipeline", sa.Text, nullable=False, index=True),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant),
    sa.Column("as_of", Instant, nullable=False),
    sa.Column("spec_digest", sa.Text, nullable=False),
    sa.Column("lake_versions", Json, nullable=False),  # lake table → Delta version read
    sa.Column("bundle_digest", sa.Text),
    sa.Column("tier", sa.Text),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("exit_code", sa.Integer),
    sa.Column("findings", Json, nullable=False),  # list of {rule, severity, count, message, places, made_of}
    sa.Column("timings", Json, nullable=False),  # stage → seconds
    sa.Column("verdict", Json),
    *sentence_columns("message"),
    sa.Column("kind", sa.Text, nullable=False, server_default="night"),
    # {forecasts, cost_per_hour, currency}: published depot-days; cost as declared at the time
    sa.Column("computing", Json),
    # names as in `forecaster.core.metric_names.OF_RUNS`, and versions; null: not counted
    sa.Column("measures", Json),
    sa.Column("night", Instant),  # scheduled instant at the time of the run; null: not a scheduled run
)

# Numbers of deleted runs: counters read from the ledger must never fall.
forgotten_runs = sa.Table(
    "forgotten_runs",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("outcome", sa.Text, primary_key=True),
    sa.Column("runs", sa.Integer, nullable=False),
)

deploy_windows = sa.Table(
    "deploy_windows",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    *_required(Instant, "opened_at", "closes_at"),
)

lease = sa.Table(
    "lease",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    *_required(sa.Text, "run_id", "holder"),
    *_required(Instant, "taken_at", "expires_at"),
)

publications = sa.Table(
    "publications",
    metadata,
    sa.Column("publication_id", sa.Integer, primary_key=True),
    sa.Column("pipeline", sa.Text, nullable=False, index=True),
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
    *_required(Instant, "published_at", "as_of"),
    sa.Column("cutoff", sa.Date, nullable=False),
    sa.Column("horizon", sa.Integer, nullable=False),  # days
    *_required(sa.Text, "tier", "model"),
    sa.Column("bundle_digest", sa.Text),
    sa.Column("timezone", sa.Text, nullable=False),
    sa.Column("levels", Json, nullable=False),
    sa.Column("title", sa.Text),
    *sentence_columns("note"),
    sa.Column("desk", sa.Text),  # file of its inputs
    sa.Column("revised_at", Instant),  # last change of a day by planners
    sa.Column("rows_digest", sa.Text),  # SHA-256 of all that readers see (`soundness`)
    sa.Column("rows_seal", sa.Text),  # public key and signature of the digest, hexadecimal; null: no key
    sqlite_autoincrement=True,  # ids are never reused: caches are keyed by them
)


def _of_publication() -> sa.Column[int]:
    publication = sa.ForeignKey("publications.publication_id", ondelete="CASCADE")
    return sa.Column("publication_id", sa.Integer, publication, primary_key=True)


published_depots = sa.Table(
    "published_depots",
    metadata,
    _of_publication(),
    sa.Column("depot_id", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("attributes", Json, nullable=False),
    sa.Column("recent", Json, nullable=False),  # list of [ISO date, orders or null, open]
    sa.Column("marks", Json, nullable=False),  # list of [ISO date, kind, name]
    sa.Column("timezone", sa.Text),  # null: the publication's
    sa.Column("tier", sa.Text),  # null: the publication's
    sa.Column("bundle_digest", sa.Text),  # null: the publication's
    sa.Column("weeks", Json),  # quantiles of the sum of each whole week, as those of a day
)

published = sa.Table(
    "published",
    metadata,
    _of_publication(),
    sa.Column("depot_id", sa.Text, primary_key=True),
    sa.Column("target_date", sa.Date, primary_key=True),
    sa.Column("horizon", sa.Integer, nullable=False),
    sa.Column("open", sa.Boolean, nullable=False),
    sa.Column("quantiles", Json, nullable=False),  # orders, aligned with the publication's levels
    sa.Column("drivers", sa.Integer),
    # {vans, chance_short, cost, one_more, one_fewer, borrowed, lent, shifts}; money in the spec's unit
    sa.Column("roster", Json),
    # {id, orders, quantiles, reason, note, by, at, until}; the quantiles are the model's
    sa.Column("override", Json),
    sa.Column("change", Json),  # {since, before, parts: list of [name, orders]}
)

published_totals = sa.Table(
    "published_totals",
    metadata,
    _of_publication(),
    sa.Column("name", sa.Text, primary_key=True),  # the value of the level; empty: the network
    sa.Column("target_date", sa.Date, primary_key=True),  # the first day
    sa.Column("quantiles", Json, nullable=False),  # orders, aligned with the publication's levels
    sa.Column("level", sa.Text, primary_key=True),  # column of the depots source
    sa.Column("days", sa.Integer, primary_key=True, autoincrement=False),
)

published_plans = sa.Table(
    "published_plans",
    metadata,
    _of_publication(),
    sa.Column("depot_id", sa.Text, primary_key=True),
    # the shift of each person: `forecaster.ledger.week_plan.WeekPlan`
    sa.Column("plan", Json, nullable=False),
)

OF_PUBLICATION = (published_depots, published, published_totals, published_plans)

# Sums, so that weeks can be added up; see `forecaster.ledger.accuracy`.
hindsight = sa.Table(
    "hindsight",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("week", sa.Date, primary_key=True),  # its Monday
    sa.Column("model", sa.Text, primary_key=True),
    sa.Column("part", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, primary_key=True),
    sa.Column("days", sa.Integer, nullable=False),
    *_required(sa.Float, "actual", "error"),
    sa.Column("absolute", sa.Float, nullable=False),
    sa.Column("covered", sa.Integer),
)

# Days with known costs of rosters; see `forecaster.ledger.value`.
value_days = sa.Table(
    "value_days",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("day", sa.Date, primary_key=True),
    sa.Column("basis", sa.Text, nullable=False),
    sa.Column("currency", sa.Text),
    sa.Column("backfilled", sa.Boolean, nullable=False),
    sa.Column("overridden", sa.Integer, nullable=False),
    sa.Column("buffer", sa.Text, nullable=False),
    sa.Column("buffer_costs", Json, nullable=False),
)

value_costs = sa.Table(
    "value_costs",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("day", sa.Date, primary_key=True),
    sa.Column("city", sa.Text, primary_key=True),  # empty: depots without one
    sa.Column("way", sa.Text, primary_key=True),
    sa.Column("week", sa.Date, nullable=False),  # its Monday
    sa.Column("month", sa.Date, nullable=False),  # its first day
    sa.Column("cost", sa.Float, nullable=False),
    *_required(sa.Integer, "short", "idle"),
    *_required(sa.Integer, "drivers", "depots"),
)

# Scores of actuals within their forecasts, one row per day; see `forecaster.ledger.drift`.
drift_days = sa.Table(
    "drift_days",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("day", sa.Date, primary_key=True),
    sa.Column("scores", Json, nullable=False),  # {depots, scores, actual, median}: aligned lists
)

# Drifts as of the last run.
drifts = sa.Table(
    "drifts",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("part", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("direction", sa.Integer, nullable=False),
    *_required(sa.Date, "since", "through"),
    sa.Column("value", sa.Float, nullable=False),
    sa.Column("usual", sa.Float),
)

slot = sa.Table(
    "slot",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("publication_id", sa.Integer, sa.ForeignKey("publications.publication_id"), nullable=False),
    sa.Column("previous_id", sa.Integer, sa.ForeignKey("publications.publication_id")),
    sa.Column("flipped_at", Instant, nullable=False),
)

promotions = sa.Table(
    "promotions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("pipeline", sa.Text, nullable=False, index=True),
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
    sa.Column("bundle_digest", sa.Text, nullable=False),
    sa.Column("model_version", sa.Text),
    sa.Column("previous_digest", sa.Text),
    sa.Column("by", sa.Text, nullable=False),
    *sentence_columns("reason", nullable=False),
    sqlite_autoincrement=True,
)

# New models on trial at some depots; see `forecaster.ledger.trials.canaries`.
_RUNNING = sa.text("state = 'running'")  # at most one per pipeline
canaries = sa.Table(
    "canaries",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("pipeline", sa.Text, nullable=False, index=True),
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
    *_required(sa.Text, "bundle_digest", "champion_digest"),
    sa.Column("model_version", sa.Text),
    sa.Column("since", Instant, nullable=False),
    sa.Column("cohort", Json, nullable=False),  # ids of the depots that see it
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("nights", sa.Integer, nullable=False),
    sa.Column("judged", Json),
    sa.Column("ended_at", Instant),
    sa.Column("by", sa.Text),
    *sentence_columns("reason"),
    sa.Index("ix_canaries_running", "pipeline", unique=True, sqlite_where=_RUNNING, postgresql_where=_RUNNING),
    sqlite_autoincrement=True,
)
display_log = sa.Table(
    "shown",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("pipeline", sa.Text, nullable=False, index=True),
    sa.Column("publication_id", sa.Integer, nullable=False),  # may no longer be kept
    sqlite_autoincrement=True,
)

links = sa.Table(
    "links",
    metadata,
    sa.Column("link_id", sa.Text, primary_key=True),
    sa.Column("pipeline", sa.Text, nullable=False, index=True),
    sa.Column("view", sa.Text, nullable=False),
    sa.Column("city", sa.Text),  # null: all
    sa.Column("made_at", Instant, nullable=False),
    sa.Column("made_by", sa.Text, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("revoked_at", Instant),
    sa.Column("revoked_by", sa.Text),
    sa.Column("depot_id", sa.Text),  # null: all of the city
    sa.Column("person", sa.Text),  # person of the depot whose week it shows; null: nobody
)

# Last morning digest of each receiver's day; see `forecaster.ledger.once.digests`.
digests = sa.Table(
    "digests",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("block", sa.Text, primary_key=True),
    sa.Column("depot_id", sa.Text, primary_key=True),  # empty: of a city, or of all depots
    sa.Column("city", sa.Text, primary_key=True),  # empty: of a depot, or of all depots
    sa.Column("day", sa.Date, primary_key=True),  # day of sending, in the pipeline's zone
    sa.Column("publication_id", sa.Integer, nullable=False),  # may no longer be kept
    sa.Column("at", Instant, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("old", sa.Boolean, nullable=False),  # of a run before that day
    # ISO date → depot → drivers as sent; -1: closed
    sa.Column("crews", Json, nullable=False),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("pipeline", sa.Text, nullable=False, index=True),
    *_required(sa.Text, "who", "role", "address", "method", "path", "what"),
    sqlite_autoincrement=True,
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("session_id", sa.Text, primary_key=True),  # digest of the browser's token
    *_required(sa.Text, "pipeline", "name"),
    sa.Column("groups", Json, nullable=False),  # as reported by the provider
    *_required(Instant, "checked_at", "expires_at"),
)

overrides = sa.Table(
    "overrides",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("pipeline", sa.Text, nullable=False, index=True),
    sa.Column("depot_id", sa.Text, nullable=False),
    sa.Column("target_date", sa.Date, nullable=False),
    sa.Column("orders", sa.Integer, nullable=False),
    *_required(sa.Text, "reason", "note", "by"),
    sa.Column("until", sa.Date, nullable=False),
    sqlite_autoincrement=True,
)

withdrawals = sa.Table(
    "withdrawals",
    metadata,
    sa.Column("override_id", sa.Integer, sa.ForeignKey("overrides.id"), primary_key=True),
    sa.Column("at", Instant, nullable=False),
    *_required(sa.Text, "by", "note"),
)

override_results = sa.Table(
    "override_results",
    metadata,
    sa.Column("override_id", sa.Integer, sa.ForeignKey("overrides.id"), primary_key=True),
    # the model's median in the last publication before the day
    sa.Column("model_orders", sa.Float, nullable=False),
    sa.Column("actual", sa.Float),  # null: unknown, or the depot was closed
)

accepted_crews = sa.Table(
    "accepted_crews",
    metadata,
    *depot_day_columns(),
    sa.Column("drivers", sa.Integer, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("withdrawn_at", Instant),
    sa.Column("crews", Json),  # of a crew set by hand: shift → drivers; "": the whole day; null: accepted as published
)

# Crews of published schedules, and their later changes (`forecaster.planning.schedules`).
schedule_days = sa.Table(
    "schedule_days",
    metadata,
    *depot_day_columns(),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("crews", Json, nullable=False),  # shift → drivers; "": the whole day
    # of a change; null: the row publishes the day
    *(sa.Column(name, sa.Float) for name in ("premium", "saving")),
)

# People's shifts set by planners, and people's answers (`forecaster.planning.people.person_days`).
person_days = sa.Table(
    "person_days",
    metadata,
    *depot_day_columns(),
    sa.Column("person", sa.Text, primary_key=True),
    # a kind of `PersonDay`; name of the shift, "": a free day
    *_required(sa.Text, "kind", "shift", "by"),
    sa.Column("withdrawn_at", Instant),
)
