"""Test client of a page at a fixed instant, and its visible text."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable
from datetime import datetime
from functools import cache
from html.parser import HTMLParser
from typing import Any

import fastapi.routing
import httpx

from dashboards.ops.app import create_app
from tests.dashboards.seed import NOON

Get = Callable[..., httpx.Response]

# Three quarters of the time to create an app go into the schemas of its answers, which are the same
# in each test.
fastapi.routing.create_model_field = cache(fastapi.routing.create_model_field)


def visitor(url: str, now: datetime = NOON, pipeline: str | None = None, **options: object) -> Get:
    """Return a function that queries a page at a fixed instant."""
    app = create_app(url, pipeline=pipeline, clock=lambda: now)

    def get(path: str, method: str = "GET", **headers: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app, **options)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
                return await client.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})

        return asyncio.run(ask())

    return get


def ask_locally(app: Any, method: str, path: str, **what: Any) -> httpx.Response:
    """Query a page as a browser on the same machine would; `what` are options of httpx, such as
    `data`. A write carries the token of a page of ours."""

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8000") as client:
            headers = dict(what.pop("headers", {}))
            if method != "GET":
                headers["X-CSRF-Token"] = (await client.get("/api/v1/me")).json()["csrf"]
            return await client.request(method, path, headers=headers, **what)

    return asyncio.run(ask())


def text(answer: httpx.Response) -> str:
    """Return the visible text: without tags, with single spaces."""
    bare = re.sub(r"<(title|desc|style)\b.*?</\1>", " ", answer.text, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", bare)).split())


class Balanced(HTMLParser):
    """Parser that records wrongly nested elements, and every ID."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.wrong: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [str(value) for name, value in attrs if name == "id"]
        if tag not in {"meta", "link", "input"}:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if self.stack.pop() != tag:
            self.wrong.append(tag)
