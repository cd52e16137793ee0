"""Prefect's server stores its runs in PostgreSQL if the environment names one."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path

import pytest
import sqlalchemy as sa

from flows import prefect_server
from tests.databases import Postgres, postgres  # noqa: F401 (a fixture)

pytestmark = pytest.mark.long


def test_the_server_stores_its_runs_in_postgresql_from_the_environment(
    postgres: Postgres,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = sa.create_engine(postgres.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("create database prefect")
    url = postgres.url(database="prefect")
    there = url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", there)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    with prefect_server.running() as ready:
        ready(prefect_server.PATIENCE)
        flow_request = urllib.request.Request(
            f"{os.environ[prefect_server.URL]}/flows/",
            data=json.dumps({"name": "nightly"}).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(flow_request, timeout=60).close()
    engine.dispose()
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("select name from flow").scalars().all() == ["nightly"]
    engine.dispose()
    assert not list(tmp_path.glob("*.db"))
