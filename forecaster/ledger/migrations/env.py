"""Run the revisions on the connection that the ledger passes, inside its transaction."""

from __future__ import annotations

from alembic import context

from forecaster.ledger.migrations.revision import REVISION_TABLE
from forecaster.ledger.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=REVISION_TABLE,
)
context.run_migrations()
