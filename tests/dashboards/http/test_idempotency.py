"""A planner's write that is sent again with its key is done once and answered alike, whoever else is at work."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
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
from forecaster.planning import override_table, service
from tests import fleets
from tests.dashboards.guests import SECRET, declared, house, signed_in
from tests.dashboards.seed import NOON, fill, publication
from tests.dashboards.visitor import ask_locally
from tests.databases import Postgres, new_database
from tests.databases import postgres as postgres
from tests.planning.nights import publish_nights

ROOT = Path(__file__).parents[3]
WISH = {"depot_id": "BOS-01", "target_date": "2025-06-18", "orders": 200, "reason": "weather", "by": "Ana"}
KEY = '"8e03978e-40d5-43dd-bc93-6894a57f9324"'
SAVE, WITHDRAW = "/api/v1/overrides", "/api/v1/overrides/1/withdrawal"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The ledger of a published fleet, on each of the two databases."""
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
    """The connections to PostgreSQL of each page are closed with the test, as at the end of one that is served."""
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
    return load(file).model_copy(update={"ledger": url})  # which may hold a password, as no file may


@pytest.fixture
def app(url: str, spec: Spec) -> FastAPI:
    return create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)


def send(app: FastAPI, path: str, key: str | None = KEY, **body: Any) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return ask_locally(app, "POST", path, json=body, headers=headers)


def rows(url: str) -> dict[str, int]:
    """How many rows each table of what people write has."""
    names = ("overrides", "withdrawals", "audit", "idempotency_keys")
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(tables.metadata.tables[name])).scalar_one()
            for name in names
        }


def test_what_is_sent_again_is_done_once_and_answered_byte_for_byte(app: FastAPI, url: str) -> None:
    first = send(app, SAVE, **WISH)
    assert first.status_code == 201
    for key in (KEY, KEY.strip('"')):
        again = send(app, SAVE, key, **WISH)
        assert (again.status_code, again.content, again.headers) == (201, first.content, first.headers)
    assert rows(url) == {"overrides": 1, "withdrawals": 0, "audit": 1, "idempotency_keys": 1}
    first = send(app, WITHDRAW, "another", by="Ana")
    again = send(app, WITHDRAW, "another", by="Ana")
    assert (first.status_code, again.status_code, again.content) == (200, 200, first.content)
    assert send(app, SAVE, **WISH).json()["override"]["id"] == 1  # as it was then, though it is withdrawn by now
    assert rows(url) == {"overrides": 1, "withdrawals": 1, "audit": 2, "idempotency_keys": 2}


def test_without_a_key_or_with_another_it_is_another_write(app: FastAPI, url: str) -> None:
    answers = [send(app, SAVE, key, **WISH | {"orders": 200 + n}) for n, key in enumerate((None, None, "a", "b"))]
    assert [answer.json()["override"]["id"] for answer in answers] == [1, 2, 3, 4]
    assert rows(url)["audit"] == 4


def test_a_key_stands_for_one_request_alone(app: FastAPI, url: str) -> None:
    assert send(app, SAVE, **WISH).status_code == 201
    for path, body in ((SAVE, WISH | {"orders": 201}), (WITHDRAW, {"by": "Ana"})):
        answer = send(app, path, **body)
        assert answer.status_code == 422
        assert "under which something else was sent before; wanted a new one" in answer.json()["detail"]
    assert rows(url) == {"overrides": 1, "withdrawals": 0, "audit": 1, "idempotency_keys": 1}


@pytest.mark.parametrize("key", ["", '""', "two words", "x" * 256, '"half'])
def test_what_is_no_key_is_refused_in_a_sentence(app: FastAPI, url: str, key: str) -> None:
    answer = send(app, SAVE, key, **WISH)
    assert (answer.status_code, "Idempotency-Key: found" in answer.json()["detail"]) == (422, True)
    assert rows(url)["overrides"] == 0


def test_what_was_refused_keeps_no_key(app: FastAPI, url: str) -> None:
    assert send(app, SAVE, **WISH | {"reason": "mood"}).status_code == 422
    assert send(app, SAVE, **WISH).status_code == 201
    assert rows(url) == {"overrides": 1, "withdrawals": 0, "audit": 1, "idempotency_keys": 1}


def test_a_write_that_broke_off_left_no_key_and_is_done_when_it_is_sent_again(
    app: FastAPI, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(override_table, "write", lambda *_: (_ for _ in ()).throw(service.OverrideError("broken off")))
        assert send(app, SAVE, **WISH).json() == {"detail": "broken off"}
    assert rows(url)["idempotency_keys"] == 0
    assert send(app, SAVE, **WISH).status_code == 201


def test_keys_are_each_persons_own_and_forgotten_after_a_day(
    url: str, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    body = {name: value for name, value in WISH.items() if name != "by"}

    def write(who: str, hours: float) -> int:
        guest = signed_in(house(url, declared(), NOON + timedelta(hours=hours), spec), who, "planners")
        answer = guest.writes(SAVE, json=body, headers={"Idempotency-Key": KEY})
        return int(answer.json()["override"]["id"])

    assert [write("paula", 0), write("peter", 0), write("paula", 23.9), write("peter", 23.9)] == [1, 2, 1, 2]
    assert (write("paula", 24), rows(url)["idempotency_keys"]) == (3, 1)  # peter's went with it


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Whoever writes an override is at work for a while; set once the first has begun."""
    begun, write = threading.Event(), override_table.write

    def slow(*what: Any) -> Any:
        begun.set()
        threading.Event().wait(0.3)
        return write(*what)

    monkeypatch.setattr(override_table, "write", slow)
    return begun


def test_many_at_once_and_while_the_first_is_at_work_get_its_answer(
    app: FastAPI, url: str, slowly: threading.Event
) -> None:
    token = ask_locally(app, "GET", "/api/v1/me").json()["csrf"]

    async def post() -> httpx.Response:
        headers = {"X-CSRF-Token": token, "Idempotency-Key": KEY}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8000") as client:
            return await client.post(SAVE, json=WISH, headers=headers)

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(asyncio.run, post())
        assert slowly.wait(20)
        others = [pool.submit(asyncio.run, post()) for _ in range(7)]
        bodies = {answer.result().content for answer in (first, *others)}
    assert len(bodies) == 1
    assert json.loads(bodies.pop())["override"]["id"] == 1
    assert rows(url) == {"overrides": 1, "withdrawals": 0, "audit": 1, "idempotency_keys": 1}


PAGE = """
import socket, sys
from pathlib import Path
import uvicorn
from dashboards.ops.app import create_app
from dashboards.ops.http.listening import config
from tests.dashboards.http.test_idempotency import spec_of
url = sys.stdin.readline().strip()
listener = socket.create_server(("127.0.0.1", 0))
app = create_app(url, pipeline="harbor-fleet", spec=spec_of(Path(sys.argv[1]), url))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(config(app)).run(sockets=[listener])
"""


@contextmanager
def page(folder: Path, url: str) -> Iterator[httpx.Client]:
    """Somebody at a page in a process of its own."""
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


def test_two_pages_on_one_ledger_do_a_write_once(url: str, tmp_path: Path) -> None:
    with (
        page(tmp_path / "one", url) as here,
        page(tmp_path / "two", url) as there,
        ThreadPoolExecutor(8) as pool,
    ):
        for number in range(1, 6):
            headers, body = {"Idempotency-Key": f"key-{number}"}, WISH | {"orders": number}
            sent = [pool.submit(side.post, SAVE, json=body, headers=headers) for side in (here, there) * 3]
            answers = {(answer.result().status_code, answer.result().content) for answer in sent}
            assert len(answers) == 1
            status, content = answers.pop()
            assert (status, json.loads(content)["override"]["orders"]) == (201, number)
    assert rows(url) == {"overrides": 5, "withdrawals": 0, "audit": 5, "idempotency_keys": 5}


# --- the page's forms -------------------------------------------------------------------------------------------------


def test_a_form_that_is_sent_twice_is_done_once_and_each_form_has_a_key_of_its_own(app: FastAPI, url: str) -> None:
    plan = "/plan?depot=BOS-01&day=2025-06-18"
    key = re.findall(r'name="idempotency_key" value="([^"]{16,})"', ask_locally(app, "GET", plan).text)
    form = {**WISH, "idempotency_key": key[0]}
    answers = [ask_locally(app, "POST", "/overrides", data=form) for _ in range(3)]
    assert {(a.status_code, a.headers["location"]) for a in answers} == {(303, "/depot/BOS-01")}
    changed = ask_locally(app, "POST", "/overrides", data=form | {"orders": "7"})
    assert (changed.status_code, "which a form gets when its page is loaded again" in changed.text) == (422, True)
    book = re.findall(r'name="idempotency_key" value="([^"]+)"', ask_locally(app, "GET", "/overrides").text)
    assert len({*key, *book}) == len(key) + len(book) == 2
    withdrawal = {"by": "Ana", "idempotency_key": book[0]}
    for _ in range(2):
        assert ask_locally(app, "POST", "/overrides/1/withdrawal", data=withdrawal).status_code == 303
    assert rows(url) == {"overrides": 1, "withdrawals": 1, "audit": 2, "idempotency_keys": 2}


def test_what_is_shown_is_brought_into_line_once(tmp_path: Path) -> None:
    """Of a fleet whose night kept its inputs: the page shows the number at once, and a retry moves nothing."""
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


def test_the_schema_tells_of_the_header(app: FastAPI) -> None:
    schema = ask_locally(app, "GET", "/api/v1/openapi.json").json()
    for path in (SAVE, "/api/v1/overrides/{number}/withdrawal"):
        [header] = [p for p in schema["paths"][path]["post"]["parameters"] if p["in"] == "header"]
        assert (header["name"], header["required"]) == ("Idempotency-Key", False)
        assert "within 24 hours" in header["description"]
