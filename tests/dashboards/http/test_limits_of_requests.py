"""Size and time limits of request bodies."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from dashboards.ops.http import bodies
from dashboards.ops.http.listening import config
from forecaster.config import load
from tests.dashboards.guests import SECRET, declared, house
from tests.dashboards.seed import fill, publication

MEGABYTE = b"x" * 1_000_000


@pytest.fixture
def app(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    fill(url, publication())
    file = tmp_path / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\n", "utf-8")
    access = declared(proxies=["127.0.0.1/32"], url=None, limits={"writes": "1000/minute"})
    return house(url, access, spec=load(file))


@pytest.fixture
def address(app: FastAPI) -> Iterator[tuple[str, int]]:
    with served(app) as port:
        yield "127.0.0.1", port


@contextmanager
def served(app: FastAPI) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    server = uvicorn.Server(config(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def ask(address: tuple[str, int], who: str) -> httpx.Client:
    headers = {"X-Forwarded-User": who} | ({"X-Forwarded-Groups": "planners"} if who == "paula" else {})
    return httpx.Client(base_url=f"http://{address[0]}:{address[1]}", headers=headers, timeout=20)


def exchange(address: tuple[str, int], *parts: bytes, pause: float = 0.0) -> bytes:
    """Return the server's answer to these bytes before it closes."""
    with socket.create_connection(address, timeout=20) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        except OSError:  # already closed
            pass
        answer = b""
        try:
            while data := connection.recv(65_536):
                answer += data
        except ConnectionResetError:
            pass
        return answer


def head(who: str, length: str) -> bytes:
    group = "X-Forwarded-Groups: planners\r\n" if who == "paula" else ""
    lines = f"POST /api/v1/overrides HTTP/1.1\r\nHost: x\r\nX-Forwarded-User: {who}\r\n{group}{length}"
    return f"{lines}\r\nContent-Type: application/json\r\n".encode()


@pytest.mark.parametrize("length", ["Content-Length: 100000000", "Transfer-Encoding: chunked"])
def test_checks_the_role_before_reading_the_body(address: tuple[str, int], length: str) -> None:
    """The answer arrives without any byte of the body."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(head("vic", length) + b"\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 403")
    for path in ("links", "overrides"):
        with ask(address, "vic") as vic:
            answer = vic.post(f"/api/v1/{path}", content=b"no JSON", headers={"content-type": "application/json"})
            assert (answer.status_code, "needs the role" in answer.text) == (403, True)


@pytest.mark.parametrize("chunked", [False, True])
def test_rejects_a_large_body_while_it_arrives(address: tuple[str, int], chunked: bool) -> None:
    with ask(address, "paula") as paula:
        token = f"X-CSRF-Token: {paula.get('/api/v1/me').json()['csrf']}\r\n\r\n".encode()
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {100 * len(MEGABYTE)}"
    part = b"%x\r\n%b\r\n" % (len(MEGABYTE), MEGABYTE) if chunked else MEGABYTE
    begun = head("paula", length) + token
    assert exchange(address, begun, part[:70_000]).startswith(b"HTTP/1.1 413" if not chunked else b"HTTP/1.1 4")
    form = begun.replace(b"application/json", b"application/x-www-form-urlencoded").replace(b"X-CSRF", b"X-Other")
    assert exchange(address, form, part[:70_000]).startswith(b"HTTP/1.1 413")


def test_times_out_on_a_missing_body(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.3)
    form = head("paula", "Content-Length: 20").replace(b"application/json", b"application/x-www-form-urlencoded")
    assert exchange(address, form + b"\r\n", b"csrf=").startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("60", 60),
        ("0" * 5000 + "7", 7),
        *((text, None) for text in ("0", "61", "9" * 5000, "", "-1", "1.5", "²", "٣")),
    ],
)
def test_a_number_in_a_header_is_digits_within_bounds(text: str, number: int | None) -> None:
    assert bodies.whole_number(text, 1, 60) == number


def test_answers_all_pipelined_requests(address: tuple[str, int]) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    last = one.replace(b"Host: x", b"Connection: close")
    assert exchange(address, one * 3 + last).count(b"ok\n") == 4
    assert exchange(address, *[one] * 3, last, pause=0.05).count(b"ok\n") == 4


def test_malformed_requests_do_not_flood_the_log(address: tuple[str, int], caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        exchange(address, b"nonsense\r\n\r\n")
    assert len([record for record in caplog.records if "Invalid HTTP" in record.getMessage()]) <= 1
