"""A local S3: moto's server, as a temporary process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.ports import free_port


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Return the address of a local S3."""
    with s3_server() as address:
        yield address


@contextmanager
def s3_server() -> Iterator[str]:
    """Run moto's server while the block runs, and yield its address."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
    try:
        while True:
            try:
                urllib.request.urlopen(f"{address}/moto-api/", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "moto's server stopped"
                assert time.monotonic() < deadline, "moto's server does not answer"
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait(20)


class Gateway:
    """A proxy to an S3 that can be made to hang, fail or be slow: matching requests are received,
    but not answered."""

    def __init__(self, there: str) -> None:
        self._there = urlsplit(there)
        self.hangs: Callable[[str, str], bool] = lambda method, path: False
        self.fails: Callable[[str, str], bool] = lambda method, path: False
        """Requests answered with `status`."""
        self.loses: Callable[[str, str], bool] = lambda method, path: False
        """Requests that the store executes, but that are answered with `status`."""
        self.status = "500 Internal Server Error"
        self.delay = 0.0  # seconds of delay of each response
        self.requests = 0
        self.trickles = False
        """Send responses at a byte per second."""
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                gateway._answer(self)

            def log_message(self, *_: object) -> None:
                return

        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        if self.hangs(request.command, request.path):
            self._over.wait()
            request.close_connection = True
            return
        self.requests += 1
        self._over.wait(self.delay)
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if self.fails(request.command, request.path):
            self._refuse(request)
            return
        onward = HTTPConnection(str(self._there.hostname), self._there.port, timeout=60)
        onward.request(request.command, request.path, body, dict(request.headers))
        answer = onward.getresponse()
        content = answer.read()
        if self.loses(request.command, request.path):
            onward.close()
            self._refuse(request)
            return
        head = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        head += [f"{name}: {value}" for name, value in answer.getheaders() if name.lower() not in HOP]
        if request.command != "HEAD":
            head.append(f"Content-Length: {len(content)}")
        onward.close()
        with suppress(OSError):
            self._send(request, "\r\n".join([*head, "", ""]).encode() + content)

    def _refuse(self, request: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):
            self._send(request, f"HTTP/1.1 {self.status}\r\nContent-Length: 0\r\n\r\n".encode())

    def _send(self, request: BaseHTTPRequestHandler, data: bytes) -> None:
        if not self.trickles:
            request.wfile.write(data)
            return
        for place in range(len(data)):
            request.wfile.write(data[place : place + 1])
            if self._over.wait(1):
                return


HOP = ("transfer-encoding", "connection", "content-length", "keep-alive")


@pytest.fixture
def gateway(s3: str) -> Iterator[Gateway]:
    """Yield a proxy to that S3 for one test."""
    way = Gateway(s3)
    try:
        yield way
    finally:
        way.close()
