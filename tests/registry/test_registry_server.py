"""The registry works the same with a real MLflow server that requires authentication."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from werkzeug.security import generate_password_hash

from forecaster.config import Spec, load
from forecaster.ledger.store import Ledger
from forecaster.registry import outbox
from tests.cli.test_champions import alias, bundles, record, reign
from tests.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.e2e]
USER, PASSWORD = "forecaster", "a long enough password"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a server's address; only the user above has permissions."""
    folder = tmp_path_factory.mktemp("mlflow")
    (folder / "auth.ini").write_text(
        f"[mlflow]\ndefault_permission = NO_PERMISSIONS\ndatabase_uri = sqlite:///{folder / 'auth.db'}\n"
        f"admin_username = {USER}\nadmin_password = {PASSWORD}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n",
        "utf-8",
    )
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--app-name", "basic-auth", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1", "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    authentication = {
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "s3cret" * 8,
    }
    quiet = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GIT_PYTHON_REFRESH": "quiet",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # saves five processes, as in `flows.local_stack`
    }
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **authentication, **quiet}, stdout=log, stderr=log, cwd=folder
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, folder / "server.log")
        _hash_quickly(folder / "auth.db")
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _hash_quickly(database: Path) -> None:
    """Replace the password's hash with a fast one: the server verifies it at each request, and its
    own kind is slow by design."""
    quick = generate_password_hash(PASSWORD, method="pbkdf2:sha256:1")
    with closing(sqlite3.connect(database)) as connection, connection:
        assert connection.execute("update users set password_hash = ?", [quick]).rowcount == 1


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    raise AssertionError(f"MLflow's server did not come up: {log.read_text('utf-8', errors='replace')[-3000:]}")


@pytest.fixture
def spec(server: str, tmp_path: Path) -> Spec:
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        f"name: t\ndemand: {{source: {{kind: csv, path: d.csv}}}}\nstate: state\nregistry: {server}\n", "utf-8"
    )
    return load(file)


def test_nights_and_champions_are_registered_as_in_an_embedded_store(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forecaster.registry.mlflow_registry import Registry

    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    first, second = bundles(spec, 2)
    reign(spec, [first, second], versions=True)
    with Ledger.open(spec.ledger_url) as ledger:
        assert outbox.align(spec, ledger) is None
        decision = ledger.promotions(spec.name)[-1]
    registry = Registry(spec.registry_url, "t", spec.paths.folder / "unused")
    assert (registry.version_of(first), registry.version_of(second)) == ("1", "2")
    assert [alias(registry, name) for name in ("champion", "previous", "challenger")] == ["2", "1", "2"]
    assert not (spec.paths.registry_outbox / "night-1").exists()
    tags = registry._client.get_model_version("t", "2").tags
    card = {"promoted_by": decision.by, "promoted_at": decision.at.isoformat(), "promoted_because": decision.reason}
    assert card.items() <= tags.items()


def test_without_access_the_night_waits_and_the_reason_is_reported(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "something else")
    outbox.enqueue(record("night-9"), {"a.png": b"a picture"}, spec)
    with pytest.raises(Exception, match=r"401|authenticated"):
        outbox.send(spec)
    assert (spec.paths.registry_outbox / "night-9").exists()
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    outbox.send(spec)
    assert not (spec.paths.registry_outbox / "night-9").exists()
