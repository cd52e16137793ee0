"""A page on loopback with sign-in at a real provider, for browser tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest
import uvicorn

from forecaster.config import Spec
from tests.dashboards.guests import SECRET, declared, house
from tests.dashboards.provider import CLIENT, Provider, providing
from tests.dashboards.provider import SECRET as GIVEN
from tests.dashboards.seed import NOON


@contextmanager
def signing_in(url: str, now: datetime = NOON, spec: Spec | None = None) -> Iterator[tuple[str, Provider]]:
    """Run a page; yields its address and the provider. Ana is a planner, everyone else a viewer."""
    listener = socket.create_server(("127.0.0.1", 0))
    home = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with providing(f"{home}/sign-in/back") as provider, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGE_SECRET", SECRET)
        patch.setenv("OIDC_SECRET", GIVEN)
        oidc = {"issuer": provider.issuer, "client_id": CLIENT, "client_secret": "${OIDC_SECRET}"}
        roles = {"planner": ["ana@example.com"]}
        access = declared(sign_in="oidc", url=home, oidc=oidc, proxies=[], roles=roles, cities={})
        pipeline = spec.name if spec else "harbor-fleet"
        app = house(url, access, now, spec, pipeline)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"{home}/", provider
        finally:
            server.should_exit = True
            thread.join(10)
            listener.close()
