"""Run the revisions on the connection that the ledger hands over, inside its transaction."""

from __future__ import annotations

from typing import Any

from alembic import context

from forecaster.ledger.sqlite import row_checksums
from forecaster.ledger.tables import REVISION_TABLE, metadata


def _is_ours(thing: Any, name: str | None, kind: str, reflected: bool, compared_with: Any) -> bool:
    """Whether a difference from the tables in code is one: SQLite's have a column more (`row_checksums`)."""
    return not (kind == "column" and reflected and name == row_checksums.COLUMN)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=REVISION_TABLE,
    include_object=_is_ours,
)
context.run_migrations()
