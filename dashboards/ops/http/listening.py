"""Setup of the listening process: its address, uvicorn's options, and the garbage collector's
thresholds."""

from __future__ import annotations

import ctypes
import gc
import logging
import socket
import sys
from typing import TYPE_CHECKING

import uvicorn
from starlette.types import ASGIApp

from dashboards.ops.access.networks import is_local
from dashboards.ops.access.rare_warnings import RareWarnings
from forecaster.core.processes import garbage
from forecaster.errors import SpecError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from forecaster.config.access import Access

SWITCH = 0.0002  # seconds, instead of Python's 5 ms: each request changes threads several times
NOISE = ("Invalid HTTP request received.", "Unsupported upgrade request.", "No supported WebSocket library")
M_ARENA_MAX = -8  # parameter of mallopt(3)
ARENAS = 2  # a single arena is slower: threads that read the ledger wait for one another
# young collections before a full one, instead of Python's 10
RARELY = 1000


def quick() -> None:
    """Reduce the time that requests wait for computation: a thread reads a new publication while
    others answer.

    A full garbage collection stops all threads: 0.1 s for the objects loaded at the start, 0.2 s
    for the values of 5,000 depots, which have no cycles. So the former are frozen, and the latter
    are rarely scanned.
    """
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*garbage.USUAL[:2], RARELY)
    _limit_arenas()


def _limit_arenas() -> None:
    """Limit glibc, if present, to `ARENAS` memory arenas for all threads.

    By default it uses up to 8 arenas per core and keeps freed memory in each: 90 MB after twenty
    minutes of mixed use.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_ARENA_MAX, ARENAS)


class _RareNoise(logging.Filter):
    """Filter that passes warnings about malformed HTTP requests once a minute at most."""

    def __init__(self) -> None:
        super().__init__()
        self._warnings = RareWarnings()

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(NOISE) or self._warnings.may_write() is not None


def _limit_noise() -> None:
    log = logging.getLogger("uvicorn.error")
    if not any(isinstance(existing, _RareNoise) for existing in log.filters):
        log.addFilter(_RareNoise())


def config(app: ASGIApp) -> uvicorn.Config:
    """Return the options of the server. Slow clients and large headers are left to the proxy in
    front (docs/SECURITY.md)."""
    _limit_noise()
    return uvicorn.Config(
        app,
        http="httptools",
        log_level="warning",
        server_header=False,
        # the access middleware decides which proxies' headers to trust
        proxy_headers=False,
        ws="none",  # unused, and its library takes memory
    )


def open_listener(access: Access, host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 takes a free one.

    Raises SpecError if the address is unavailable, or if others could reach it but no sign-in is
    declared.
    """
    if access.sign_in == "none" and not is_local(host):
        raise SpecError(
            f"--host: found {host}, which others can reach, and page.access.sign_in says how nobody signs in; wanted "
            "127.0.0.1, or sign_in: header or oidc in the pipeline file"
        )
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SpecError(f"cannot listen on {host} port {port}: {error.strerror}; wanted a free port of ours") from error


def address_of(listener: socket.socket, host: str) -> str:
    """Return the listener's URL for a browser on this machine: http://HOST:PORT."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def listen_for_prometheus(collectors: CollectorRegistry, address: str) -> None:
    """Answer Prometheus at HOST:PORT, and print where. Raises SpecError for an invalid address or
    one in use."""
    from forecaster.monitoring import listener

    print(f"metrics: {listener.listen(collectors, address, '--metrics')}", flush=True)


def run(server: uvicorn.Server, listener: socket.socket, line: str) -> None:
    """Print the line, which states the server's address, and answer until interrupted."""
    print(line, flush=True)
    quick()
    server.run(sockets=[listener])
