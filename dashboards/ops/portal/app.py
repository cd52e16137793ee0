"""ASGI application of several pipelines: the common front page at /, each one's own pages under
/p/NAME."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from anyio import to_thread
from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.signatures import SignedSessions
from dashboards.ops.app import THREADS, bare_app, now, page_app, session_options, templates, wrap
from dashboards.ops.portal.front_page import FrontPage
from dashboards.ops.portal.front_routes import front_routes
from dashboards.ops.portal.open_pages import OpenPages
from dashboards.ops.portal.served import PREFIX, ServedPipeline, serve_together
from dashboards.ops.reading.overview import Overview
from dashboards.ops.reading.readers import SharedReaders
from dashboards.ops.routes import errors
from forecaster.config import Spec

if TYPE_CHECKING:
    from dashboards.ops.http.request_metrics import PageMetrics

FRONT = "*"  # pipeline name of the front page in metrics; no pipeline can have it
# address of a pipeline without the trailing slash
ONE = re.compile(r"/p/[a-z0-9][a-z0-9_-]*")


def create_portal(
    specs: Sequence[Spec], *, clock: Callable[[], datetime] = now, metrics: PageMetrics | None = None
) -> Portal:
    """Return the pages of several pipelines as one ASGI application; `metrics` counts their
    answers, those of the front page under the name `FRONT`.

    Raises SpecError for duplicate names, different sign-in declarations, or a missing secret.
    """
    readers = SharedReaders()
    served, door = serve_together(specs, clock, readers)
    overview = Overview({name: pipeline.context.url for name, pipeline in served.items()}, readers, clock)
    front = FrontPage(served, readers, overview, clock)
    return Portal(served, door, front, metrics)


class Portal:
    """ASGI application that routes each request to the pipeline with its path's prefix, and all
    others to the front page.

    Pipelines share the sign-in, the style sheet, and connections to a common ledger; nothing
    rendered for one is ever served for another.
    """

    def __init__(
        self,
        served: Mapping[str, ServedPipeline],
        door: AccessContext,
        front: FrontPage,
        metrics: PageMetrics | None = None,
    ) -> None:
        self.served, self.front, self._metrics = served, front, metrics
        self._front_app: ASGIApp = _front_app(served, door, front, metrics)
        self.pages: OpenPages[FastAPI] = OpenPages(self._open, self._close)
        self._app: ASGIApp = self._lead
        if door.access.sign_in == "oidc":
            self._app = SignedSessions(self._lead, **session_options(door))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def _lead(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and path.startswith(PREFIX):
            if ONE.fullmatch(path):  # whether or not it exists, which unauthenticated clients must not learn
                await RedirectResponse(f"{path}/", 308)(scope, receive, send)
                return
            name, _, rest = path.removeprefix(PREFIX).partition("/")
            if name in self.served:
                inner = {**scope, "path": f"/{rest}", "raw_path": quote(f"/{rest}").encode(), "state": {}}
                await self.pages(name, inner, receive, send)
                return
        await self._front_app(scope, receive, send)

    def _open(self, name: str) -> FastAPI:
        pipeline = self.served[name]

        async def as_if_not_there(scope: Scope, receive: Receive, send: Send) -> None:
            await self._front_app({**scope, "path": f"{PREFIX}{name}{scope['path']}", "state": {}}, receive, send)

        return page_app(pipeline.context, pipeline.spec, outside=as_if_not_there, metrics=self._metrics)

    def _close(self, name: str) -> None:
        self.served[name].context.store.close()


def _front_app(
    served: Mapping[str, ServedPipeline], door: AccessContext, front: FrontPage, metrics: PageMetrics | None
) -> FastAPI:
    """Return the application of all paths outside the pipelines' prefixes."""
    page = templates(prefix="", signs_out=door.access.sign_in == "oidc", plans_days=False, portal=True)
    refuse = errors.refusing(page)

    @asynccontextmanager
    async def serving(_: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield
        front.close()
        for pipeline in served.values():
            pipeline.context.store.close()
        front.readers.close()

    language = next(iter(served.values())).spec.page.language  # of the pipeline that is named first
    app = bare_app(door, refuse, language, serving)
    wrap(app, metrics, FRONT)
    app.include_router(front_routes(served, front, page))
    if door.access.sign_in == "oidc":
        from dashboards.ops.access import oidc

        app.include_router(oidc.router(door, page))
    return app
