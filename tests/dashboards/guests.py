"""Test clients of a page with declared access."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
from fastapi import FastAPI

from dashboards.ops.access import links
from dashboards.ops.app import create_app
from forecaster.config import Access, Spec
from forecaster.ledger import access as ledger_access
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import NOON

PROXY = "10.0.0.5"
SECRET = "for the tests alone, and long enough"
HOME = "https://depots.example"


def declared(**changes: Any) -> Access:
    """Return access behind a proxy: Ada is admin, planners plan, Bob sees only Boston, Vic and
    planners see all."""
    settings: dict[str, Any] = {
        "sign_in": "header",
        "url": HOME,
        "proxies": [f"{PROXY}/32"],
        "secret": "${PAGE_SECRET}",
        "roles": {"admin": ["ada"], "planner": ["group:planners"]},
        "cities": {"*": [], "vic": ["*"], "group:planners": ["*"], "bob": ["Boston"]},
    }
    return Access.model_validate(settings | changes)


@dataclass
class Guest:
    """Client of one app that keeps cookies, as a browser does."""

    app: FastAPI
    headers: Mapping[str, str] = field(default_factory=dict)
    address: str = PROXY
    base: str = HOME
    cookies: httpx.Cookies = field(default_factory=httpx.Cookies)

    def __call__(self, path: str, method: str = "GET", **options: Any) -> httpx.Response:
        headers = {**self.headers, **options.pop("headers", {})}

        async def ask() -> httpx.Response:
            async with self._client() as client:
                answer = await client.request(method, path, headers=headers, **options)
                self.cookies = client.cookies
                return answer

        return asyncio.run(ask())

    def each(self, paths: Iterable[str]) -> list[httpx.Response]:
        """Return the answers of many addresses, requested one after the other in one event loop,
        whose threads start once."""

        async def ask() -> list[httpx.Response]:
            async with self._client() as client:
                answers = [await client.get(path, headers=self.headers) for path in paths]
                self.cookies = client.cookies
                return answers

        return asyncio.run(ask())

    def _client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(self.address, 4711))
        return httpx.AsyncClient(transport=transport, base_url=self.base, cookies=self.cookies)

    def writes(self, path: str, method: str = "POST", **options: Any) -> httpx.Response:
        """Send a write with the token that a page of ours would send."""
        token = self("/api/v1/me").json().get("csrf", "")
        return self(path, method, headers={"X-CSRF-Token": token, **options.pop("headers", {})}, **options)


def signed_in(app: FastAPI, name: str, groups: str = "") -> Guest:
    """Return a client that the proxy has signed in."""
    return Guest(app, {"X-Forwarded-User": name} | ({"X-Forwarded-Groups": groups} if groups else {}))


def house(
    url: str, access: Access, now: datetime = NOON, spec: Spec | None = None, pipeline: str = "harbor-fleet"
) -> FastAPI:
    return create_app(url, pipeline=pipeline, clock=lambda: now, access=access, spec=spec)


def hang_up(
    url: str, now: datetime = NOON, view: str = "network", city: str | None = None, depot_id: str | None = None
) -> tuple[ledger_access.Link, str]:
    """Make a link valid for 90 days; returns it with its address."""
    link = links.new(view, city, 90, pipeline="harbor-fleet", by="ada", now=now, depot_id=depot_id)
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        ledger_access.make_link(connection, link)
    return link, links.address((SECRET,), HOME, link)
