"""How the process that listens is set up: uvicorn's options, and how often Python stops to look for garbage."""

from __future__ import annotations

import gc
import sys

import uvicorn
from starlette.types import ASGIApp

from dashboards.ops.http.protocol import GuardedProtocol, quiet_log

SWITCH = 0.0002  # seconds, where Python takes 5 ms: each request changes threads several times
RARELY = 1000  # times that Python looks through young values before it looks through all, where it takes 10


def quick() -> None:
    """Let requests wait less for whoever computes: a new publication is read in a thread beside theirs.

    While Python looks through all values for cycles, everybody waits: 0.1 s for what was loaded at the start, 0.2 s for
    the values of 5,000 depots, which have no cycles. So the former is left out, and the latter are seldom looked at.
    """
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], RARELY)


def config(app: ASGIApp) -> uvicorn.Config:
    """How an application is served."""
    quiet_log()
    return uvicorn.Config(
        app,
        http=GuardedProtocol,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # whose headers are believed is declared, and looked at by the access middleware
        ws="none",  # nothing here speaks it, and its library takes memory
    )
