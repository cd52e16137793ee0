"""How the process that listens is set up: its address, uvicorn's options, how often Python looks
for garbage."""

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

SWITCH = 0.0002  # seconds, where Python takes 5 ms: each request changes threads several times
NOISE = ("Invalid HTTP request received.", "Unsupported upgrade request.", "No supported WebSocket library")
M_ARENA_MAX = -8  # of mallopt(3)
ARENAS = 2  # one is slower: threads that read the ledger wait for one another
# times that Python looks through young values before it looks through all, where it takes 10
RARELY = 1000


def quick() -> None:
    """Let requests wait less for whoever computes: a new publication is read in a thread next to
    theirs.

    While Python looks through all values for cycles, everybody waits: 0.1 s for what was loaded at
    the start, 0.2 s for the values of 5,000 depots, which have no cycles. So the former is left
    out, and the latter are seldom looked at.
    """
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*garbage.USUAL[:2], RARELY)
    _limit_arenas()


def _limit_arenas() -> None:
    """Have glibc, where it is, take memory for all threads from `ARENAS` places.

    By itself it has up to 8 places a core and keeps what was freed in each: after twenty minutes of
    mixed use 90 MB.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_ARENA_MAX, ARENAS)


class _RareNoise(logging.Filter):
    """Lets warnings of requests that are no HTTP through once a minute at most."""

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
    """Options of the server. Slow clients and large heads are left to the proxy before it
    (docs/SECURITY.md)."""
    _limit_noise()
    return uvicorn.Config(
        app,
        http="httptools",
        log_level="warning",
        server_header=False,
        # whose headers are believed is declared, and looked at by the access middleware
        proxy_headers=False,
        ws="none",  # nothing here speaks it, and its library takes memory
    )


def open_listener(access: Access, host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one.

    Raises SpecError when the address cannot be had, or others could come in and nothing says how
    they sign in.
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
    """How a browser on this machine finds it: http://HOST:PORT."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def listen_for_prometheus(collectors: CollectorRegistry, address: str) -> None:
    """Answer Prometheus at HOST:PORT, and print where. Raises SpecError for an address that is none
    or taken."""
    from forecaster.monitoring import listener

    print(f"metrics: {listener.listen(collectors, address, '--metrics')}", flush=True)


def run(server: uvicorn.Server, listener: socket.socket, line: str) -> None:
    """Print the line, which says where the server answers, and answer until interrupted."""
    print(line, flush=True)
    quick()
    server.run(sockets=[listener])
