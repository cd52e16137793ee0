"""A planner's repeated write is stored once, on both databases and from several pages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI

from dashboards.ops.app import create_app
from dashboards.ops.reading.store import PublicationStore
from forecaster.config import Spec, load
from forecaster.ledger import tables
from forecaster.ledger.store import Ledger
from tests import fleets
from tests.dashboards.seed import NOON, fill, publication
from tests.dashboards.visitor import ask_locally
from tests.databases import Postgres, new_database
from tests.databases import postgres as postgres
from tests.planning.nights import publish_nights

ROOT = Path(__file__).parents[3]
WISH = {"depot_id": "BOS-01", "target_date": "2025-06-18", "orders": 200, "reason": "weather", "by": "Ana"}
SAVE, WITHDRAW = "/api/v1/overrides", "/api/v1/overrides/1/withdrawal"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Create the ledger of a published fleet, on each of the two databases."""
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path / 'ledger.db'}"
        fill(address, publication(2))
        yield address
        return
    server: Postgres = request.getfixturevalue("postgres")
    with new_database(server, "ledger") as address:
        fill(address, publication(2))
        yield address


@pytest.fixture(autouse=True)
def closed_ledgers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close each page's connections to PostgreSQL after the test, as at the end of a served page."""
    stores: list[PublicationStore] = []
    start = PublicationStore.__init__

    def started(store: PublicationStore, *arguments: Any, **options: Any) -> None:
        start(store, *arguments, **options)
        stores.append(store)

    monkeypatch.setattr(PublicationStore, "__init__", started)
    yield
    for store in stores:
        store.close()


@pytest.fixture
def spec(url: str, tmp_path: Path) -> Spec:
    return spec_of(tmp_path, url)


def spec_of(folder: Path, url: str) -> Spec:
    file = folder / "pipeline.yaml"
    file.write_text("name: harbor-fleet\ndemand: {source: {kind: csv, path: demand.csv}}\nstate: .\n", "utf-8")
    return load(file).model_copy(update={"ledger": url})  # the URL may hold a password, which a file may not


@pytest.fixture
def app(url: str, spec: Spec) -> FastAPI:
    return create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)


def send(app: FastAPI, path: str, **body: Any) -> httpx.Response:
    return ask_locally(app, "POST", path, json=body)


def rows(url: str) -> dict[str, int]:
    """Return the number of rows in each table that planners write."""
    names = ("overrides", "withdrawals", "audit")
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(tables.metadata.tables[name])).scalar_one()
            for name in names
        }


def test_the_same_override_sent_twice_is_stored_once(app: FastAPI, url: str) -> None:
    first = send(app, SAVE, **WISH)
    assert first.status_code == 201
    assert send(app, SAVE, **WISH).content == first.content
    assert rows(url) == {"overrides": 1, "withdrawals": 0, "audit": 1}


def test_another_number_is_another_override(app: FastAPI, url: str) -> None:
    send(app, SAVE, **WISH)
    send(app, SAVE, **WISH | {"orders": 7})
    assert rows(url) == {"overrides": 2, "withdrawals": 0, "audit": 2}


def test_a_second_withdrawal_changes_nothing(app: FastAPI, url: str) -> None:
    send(app, SAVE, **WISH)
    assert [send(app, WITHDRAW, by="Ana").status_code for _ in range(2)] == [200, 422]
    assert rows(url) == {"overrides": 1, "withdrawals": 1, "audit": 2}


def test_a_form_sent_twice_is_stored_once(app: FastAPI, url: str) -> None:
    answers = [ask_locally(app, "POST", "/overrides", data=WISH) for _ in range(3)]
    assert {(answer.status_code, answer.headers["location"]) for answer in answers} == {(303, "/day/2025-06-18/BOS-01")}
    assert rows(url) == {"overrides": 1, "withdrawals": 0, "audit": 1}


PAGE = """
import socket, sys
from pathlib import Path
import uvicorn
from dashboards.ops.app import create_app
from dashboards.ops.http.listening import config
from tests.dashboards.routes.test_repeated_writes import spec_of
url = sys.stdin.readline().strip()
listener = socket.create_server(("127.0.0.1", 0))
app = create_app(url, pipeline="harbor-fleet", spec=spec_of(Path(sys.argv[1]), url))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(config(app)).run(sockets=[listener])
"""


@contextmanager
def page(folder: Path, url: str) -> Iterator[httpx.Client]:
    """Run a page in its own process; yields a client of it."""
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", PAGE, str(folder)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{url}\n")
        process.stdin.flush()
        port = int(process.stdout.readline())
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            client.headers["X-CSRF-Token"] = client.get("/api/v1/me").json()["csrf"]
            yield client
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_two_pages_store_the_same_override_once(url: str, tmp_path: Path) -> None:
    with page(tmp_path / "one", url) as here, page(tmp_path / "two", url) as there, ThreadPoolExecutor(8) as pool:
        for number in range(1, 6):
            body = WISH | {"orders": number}
            sent = [pool.submit(side.post, SAVE, json=body) for side in (here, there) * 3]
            answers = {(answer.result().status_code, answer.result().json()["override"]["id"]) for answer in sent}
            assert answers == {(201, number)}
    assert rows(url) == {"overrides": 5, "withdrawals": 0, "audit": 5}


def test_a_repeated_override_does_not_revise_the_publication(tmp_path: Path) -> None:
    """The page shows the number at once, and a repetition changes nothing."""
    spec = publish_nights(tmp_path, fleets.counts("ABCD")).spec
    app = create_app(spec.ledger_url, pipeline=spec.name, clock=lambda: fleets.AS_OF, spec=spec)
    wish = {"depot_id": "A", "target_date": "2024-04-11", "orders": 90, "reason": "weather", "by": "Ana"}

    def shown() -> object:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            head = ledger.current(spec.name)
            assert head is not None
            return head.revised_at

    assert shown() is None
    first = send(app, SAVE, **wish)
    revised = shown()
    assert revised is not None
    assert send(app, SAVE, **wish).content == first.content
    assert shown() == revised
