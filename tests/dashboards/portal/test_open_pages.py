"""Pipelines' pages are opened on request, and the least recently used is closed first."""

from __future__ import annotations

import asyncio
import gc
import weakref

from starlette.types import Receive, Scope, Send

from dashboards.ops.portal.open_pages import OpenPages


class App:
    """An app that answers once it is allowed to."""

    def __init__(self) -> None:
        self.may = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("waits"):
            await self.may.wait()


def test_closes_the_least_recently_used_but_never_an_active_one() -> None:
    async def ask() -> None:
        apps: dict[str, App] = {}
        closed: list[str] = []

        def make(name: str) -> App:
            apps[name] = App()
            return apps[name]

        pages = OpenPages(make, closed.append, most=2)
        slow = asyncio.create_task(pages("a", {"waits": True}, None, None))  # type: ignore[arg-type]
        while "a" not in apps:
            await asyncio.sleep(0.01)
        for name in ("b", "c", "b", "d"):
            await pages(name, {}, None, None)  # type: ignore[arg-type]
        assert (closed, pages.names) == (["b", "c", "b"], ("a", "d"))
        apps["a"].may.set()
        await slow
        await pages("b", {}, None, None)  # type: ignore[arg-type]
        assert (closed[3:], pages.names) == (["a"], ("d", "b"))

    asyncio.run(ask())


def test_concurrent_requests_share_one_opening() -> None:
    async def ask() -> None:
        made: list[str] = []

        def make(name: str) -> App:
            made.append(name)
            return App()

        pages = OpenPages(make, lambda _: None)
        await asyncio.gather(*(pages("a", {}, None, None) for _ in range(5)))  # type: ignore[arg-type]
        assert made == ["a"]

    asyncio.run(ask())


def test_closed_pages_are_collected_despite_reference_cycles() -> None:
    class Page(App):
        """A page with a reference cycle, of which FastAPI apps have many."""

        def __init__(self) -> None:
            super().__init__()
            self.itself = self

    async def ask() -> None:
        made: list[weakref.ref[Page]] = []

        def make(_: str) -> Page:
            page = Page()
            made.append(weakref.ref(page))
            return page

        pages = OpenPages(make, lambda _: None, most=4)
        for number in range(40):
            await pages(f"{number}", {}, None, None)  # type: ignore[arg-type]
        assert sum(page() is not None for page in made) <= 2 * 4

    gc.disable()
    try:
        asyncio.run(ask())
    finally:
        gc.enable()
