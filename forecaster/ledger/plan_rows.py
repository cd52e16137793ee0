"""Rows of the plans of the week: written with their publication, read for one depot or all.

Each function works on a connection whose transaction the caller holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import sqlalchemy as sa

from forecaster.ledger import soundness, tables
from forecaster.ledger.soundness import Seal, named_damage
from forecaster.ledger.week_plan import WeekPlan


def write(connection: sa.Connection, publication_id: int, plans: Iterable[WeekPlan]) -> None:
    """Insert plans of a publication that has no plans of these depots yet."""
    rows = [{"publication_id": publication_id, "depot_id": plan.depot_id, "plan": plan.to_json()} for plan in plans]
    if rows:
        connection.execute(tables.published_plans.insert(), rows)


def update(connection: sa.Connection, publication_id: int, plans: Iterable[WeekPlan]) -> None:
    """Replace the plans of these depots."""
    row = tables.published_plans.c
    for plan in plans:
        filters = (row.publication_id == publication_id, row.depot_id == plan.depot_id)
        connection.execute(tables.published_plans.update().where(*filters).values(plan=plan.to_json()))


def read(connection: sa.Connection, publication_id: int, depot_id: str | None = None) -> tuple[WeekPlan, ...]:
    """Plans of a publication by depot, or that of one depot."""
    row = tables.published_plans.c
    query = sa.select(row.plan).where(row.publication_id == publication_id)
    if depot_id is not None:
        query = query.where(row.depot_id == depot_id)
    with named_damage(f"publication {publication_id}"):
        plans = (WeekPlan.from_json(content) for content in connection.execute(query).scalars())
        # by code point, as Python sorts: databases have collations of their own
        return tuple(sorted(plans, key=lambda plan: plan.depot_id))


def forget_names(connection: sa.Connection, pipeline: str, before: datetime, seal: Seal | None = None) -> int:
    """Replace names with numbers in plans made as of before an instant; return the number of
    changed plans.

    Also delete shifts set by hand and answers of earlier days, and expired links of people. `seal`
    signs the changed rows.
    """
    publication, days, links = tables.publications.c, tables.person_days, tables.links
    old = sa.select(publication.publication_id).where(publication.pipeline == pipeline, publication.as_of < before)
    count = 0
    for publication_id in connection.execute(old).scalars().all():
        plans = [plan for plan in read(connection, publication_id) if any(who.is_named for who in plan.positions)]
        if plans:
            update(connection, publication_id, (plan.nameless() for plan in plans))
            soundness.write_digest(connection, publication_id, seal)
        count += len(plans)
    connection.execute(days.delete().where(days.c.pipeline == pipeline, days.c.target_date < before.date()))
    expired = (links.c.pipeline == pipeline, links.c.person.is_not(None), links.c.expires_at < before)
    connection.execute(links.delete().where(*expired))
    return count


def forget_person(
    connection: sa.Connection, pipeline: str, depot_id: str, person: str, seal: Seal | None = None
) -> int:
    """Replace a person's name with a number in all plans of a depot; return the number of changed
    plans.

    The publications are marked as revised, so that readers notice the change; `seal` signs it.
    """
    publications, count = tables.publications, 0
    numbers = sa.select(publications.c.publication_id).where(publications.c.pipeline == pipeline)
    for publication_id in connection.execute(numbers).scalars().all():
        for plan in read(connection, publication_id, depot_id):
            if any(who.name == person for who in plan.positions):
                update(connection, publication_id, [plan.nameless(person)])
                this = publications.update().where(publications.c.publication_id == publication_id)
                connection.execute(this.values(revised_at=datetime.now(UTC)))
                soundness.write_digest(connection, publication_id, seal)
                count += 1
    return count
