"""Audit log: who wrote what. Each write through the page becomes one row of the ledger."""

from __future__ import annotations

import sqlalchemy as sa
from starlette.requests import Request

from dashboards.ops.access.context import access_context
from dashboards.ops.access.person import person
from forecaster.ledger import access as ledger_access

LONGEST = 2000  # characters of a path or a sentence


def audit(request: Request, action: str, connection: sa.Connection | None = None) -> None:
    """Write a row; in the transaction of the write if its connection is given.

    For a route that never calls this, the middleware writes a row without a sentence.
    """
    context = access_context(request)
    who = person(request)
    entry = ledger_access.AuditEntry(
        at=context.clock(),
        pipeline=context.pipeline_shown(),
        who=who.name,
        role=who.role,
        address=str(request.state.address),
        method=request.method,
        path=request.url.path[:LONGEST],
        what=action[:LONGEST],
    )
    if connection is None:
        with context.writing() as own_connection:
            ledger_access.note(own_connection, entry)
    else:
        ledger_access.note(connection, entry)
    request.state.audited = True
