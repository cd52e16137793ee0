"""Canaries: new models on trial at some depots before one of them forecasts for all.

At most one per pipeline is running, which the database itself enforces (a partial unique index).
Each function works on a connection whose transaction the caller holds, so that a killed run leaves
no partial canary.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from forecaster.core.forecast import CanaryTrial, TrialState
from forecaster.core.language import N_
from forecaster.core.language.sentences import packed, sentence, unpacked
from forecaster.errors import LedgerError
from forecaster.ledger import records, tables
from forecaster.ledger.columns.sentences import sentence_values, with_sentence
from forecaster.ledger.records import Promotion
from forecaster.ledger.store import CANARY


def start(
    connection: sa.Connection,
    pipeline: str,
    *,
    run_id: str,
    bundle_digest: str,
    cohort: Collection[str],
    now: datetime,
) -> CanaryTrial:
    """Start a bundle as a canary next to the champion. Raises LedgerError if there is no other
    champion, or another canary runs."""
    champion = records.champion(connection, pipeline)
    if champion is None or champion.bundle_digest == bundle_digest:
        raise LedgerError(f"{bundle_digest} is no canary: wanted another champion beside which it runs")
    if (current := running(connection, pipeline)) is not None:
        raise LedgerError(f"{bundle_digest} is no canary: {current.bundle_digest} runs since {current.since}")
    row = {"pipeline": pipeline, "run_id": run_id, "bundle_digest": bundle_digest, "since": now, "state": "running"}
    row |= {"champion_digest": champion.bundle_digest, "cohort": sorted(cohort), "nights": 0}
    connection.execute(tables.canaries.insert().values(**row))
    trial = running(connection, pipeline)
    assert trial is not None
    return trial


def running(connection: sa.Connection, pipeline: str) -> CanaryTrial | None:
    """The running canary."""
    row = tables.canaries.c
    query = sa.select(tables.canaries).where(row.pipeline == pipeline, row.state == "running")
    found_row = records.single_row(connection, query)
    return None if found_row is None else _trial(found_row)


def history(connection: sa.Connection, pipeline: str, limit: int = 20) -> tuple[CanaryTrial, ...]:
    """The last canaries, newest first."""
    row = tables.canaries.c
    query = sa.select(tables.canaries).where(row.pipeline == pipeline).order_by(row.id.desc()).limit(limit)
    return tuple(_trial(found_row) for found_row in connection.execute(query).mappings())


def was_taken_back(connection: sa.Connection, pipeline: str, bundle_digest: str) -> CanaryTrial | None:
    """The last trial in which this very bundle was rolled back; None if there is none."""
    row = tables.canaries.c
    query = sa.select(tables.canaries).where(
        row.pipeline == pipeline, row.bundle_digest == bundle_digest, row.state == "rolled_back"
    )
    found_row = connection.execute(query.order_by(row.id.desc()).limit(1)).mappings().one_or_none()
    return None if found_row is None else _trial(found_row)


def keep_judgement(connection: sa.Connection, trial: CanaryTrial, judged: Mapping[str, Any], nights: int) -> None:
    """Store a run's judgment of a canary that continues; do nothing if it has ended in the
    meantime."""
    row = tables.canaries.c
    still = (row.id == trial.id) & (row.state == "running")
    connection.execute(tables.canaries.update().where(still).values(judged=packed(judged), nights=nights))


def end(
    connection: sa.Connection, trial: CanaryTrial, state: TrialState, *, by: str, reason: str, now: datetime
) -> CanaryTrial:
    """End a running canary. Raises LedgerError if it has ended in the meantime, e.g. by another
    command."""
    row = tables.canaries.c
    still = (row.id == trial.id) & (row.state == "running")
    values = {"state": state, "by": by, "ended_at": now, **sentence_values("reason", reason)}
    if connection.execute(tables.canaries.update().where(still).values(**values)).rowcount != 1:
        raise LedgerError(f"canary {trial.bundle_digest} does not run any more; see `forecaster canary FILE`")
    return replace(trial, state=state, by=by, reason=reason, ended_at=now)


def promote(connection: sa.Connection, trial: CanaryTrial, *, reason: str, now: datetime) -> Promotion:
    """Make a canary the champion, and end its trial. Raises LedgerError if it has ended in the
    meantime."""
    end(connection, trial, "promoted", by=CANARY, reason=reason, now=now)
    return records.add_promotion(
        connection,
        trial.pipeline,
        run_id=trial.run_id,
        bundle_digest=trial.bundle_digest,
        model_version=trial.model_version,
        by=CANARY,
        reason=reason,
        at=now,
    )


def take_back(connection: sa.Connection, trial: CanaryTrial, *, reason: str, now: datetime) -> CanaryTrial:
    """Roll a canary back, and record among the promotions why the champion stays. Raises
    LedgerError if it has ended already."""
    ended = end(connection, trial, "rolled_back", by=CANARY, reason=reason, now=now)
    champion = records.champion(connection, trial.pipeline)
    if champion is not None:
        records.add_promotion(
            connection,
            trial.pipeline,
            run_id=champion.run_id,
            bundle_digest=champion.bundle_digest,
            model_version=champion.model_version,
            by=CANARY,
            reason=sentence(
                N_("stays, because canary {bundle} was withdrawn: {reason}"), bundle=trial.bundle_digest, reason=reason
            ),
            at=now,
        )
    return ended


def end_at_promotion(connection: sa.Connection, promotion: Promotion) -> None:
    """End a running canary when another promotion makes a champion.

    If the new champion is the canary, it has won; if it is a third bundle, the canary has nothing
    to compare with. A confirmed champion changes nothing.
    """
    trial = running(connection, promotion.pipeline)
    if trial is None or promotion.bundle_digest == trial.champion_digest:
        return
    won = promotion.bundle_digest == trial.bundle_digest
    overtaken = sentence(N_("{bundle} was promoted: {reason}"), bundle=promotion.bundle_digest, reason=promotion.reason)
    reason = promotion.reason if won else overtaken
    state: TrialState = "promoted" if won else "superseded"
    end(connection, trial, state, by=promotion.by, reason=reason, now=promotion.at)


def _trial(row: sa.RowMapping) -> CanaryTrial:
    judged = row["judged"]
    content = {"cohort": frozenset(row["cohort"]), "judged": judged if judged is None else unpacked(judged)}
    return CanaryTrial(**with_sentence(row, "reason") | content)
