"""Prefect's database after its migrations, which take half of a server's first start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import shared

ROOT = Path(__file__).resolve().parents[1]
MIGRATE = """
import asyncio, sys
from pathlib import Path
from flows import environment
environment.prepare(Path(sys.argv[1]))
from prefect.server.database import provide_database_interface
asyncio.run(provide_database_interface().create_db())
"""


def put_into(state: Path) -> None:
    """Copy the session's database into an unused state folder."""
    shared.copy("prefect-home", _migrated, state)


def _migrated(state: Path) -> None:
    command = [sys.executable, "-c", MIGRATE, str(state)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert process.returncode == 0, process.stderr
