"""Forget a person: remove the name from the whole ledger. The lake, saved inputs, reports and
digests contain no names of people."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from socket import gethostname

import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.errors import NoSuchRow
from forecaster.ledger import access, connect, plan_rows, tables
from forecaster.ledger.store import Ledger
from forecaster.serving import keys

NOBODY = "[a person who is forgotten]"
REMAINING = (
    "the people table of your own, if there is one: take the person out, or the next night plans them by name again",
    "backups: until you delete them; restoring one brings the name back",
    "files and calendars that were written, sent or subscribed to",
    "what the law has you keep elsewhere, such as time sheets and pay",
)


def forget(spec: Spec, depot_id: str, person: str, *, by: str) -> Mapping[str, int]:
    """Remove a person of a depot from the ledger, all or nothing; return the number of changed rows
    by kind. Raises NoSuchRow if the ledger does not contain the name, LedgerError."""
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("pragma secure_delete=on")
        seal = keys.sealing(spec.paths.folder)
        counts = {"plans of the week": plan_rows.forget_person(connection, spec.name, depot_id, person, seal)}
        for name, table in {"days set or answered": tables.person_days, "links": tables.links}.items():
            filters = (table.c.pipeline == spec.name, table.c.depot_id == depot_id, table.c.person == person)
            counts[name] = connection.execute(table.delete().where(*filters)).rowcount
        counts["sentences of the audit"] = _redact(connection, spec.name, depot_id, person)
        if not any(counts.values()):
            raise NoSuchRow(f"found {person!r}, wanted a person whom the ledger names at {depot_id!r}")
        row = (datetime.now(UTC), spec.name, by, "command", gethostname(), "-", "forget")
        access.note(connection, access.AuditEntry(*row, f"forgot a person of {depot_id}"))
    if (file := connect.sqlite_file(spec.ledger_url)) is not None:
        with closing(sqlite3.connect(file)) as log:  # the WAL still contains the old rows
            log.execute("pragma wal_checkpoint(truncate)")
    return counts


def _redact(connection: sa.Connection, pipeline: str, depot_id: str, person: str) -> int:
    """Replace the name in audit entries on this depot; return their number."""
    audit, name, count = tables.audit, re.compile(rf"(?<!\w){re.escape(person)}(?!\w)"), 0
    for row in connection.execute(sa.select(audit.c.id, audit.c.what).where(audit.c.pipeline == pipeline)).all():
        if depot_id in row.what and name.search(row.what):
            change = audit.update().where(audit.c.id == row.id)
            connection.execute(change.values(what=name.sub(NOBODY, row.what)))
            count += 1
    return count
