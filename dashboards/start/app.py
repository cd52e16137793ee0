"""ASGI application of the guide: its steps under /start, and the page of the pipeline once
something is published."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, RedirectResponse, Response
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboards.ops.access.context import AccessContext, signing_keys
from dashboards.ops.access.signatures import SignedSessions
from dashboards.ops.app import bare_app, build, create_app, now, session_options, templates, wrap
from dashboards.ops.http.bodies import LARGEST_BODY
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.routes import errors
from dashboards.ops.routes.pages import WORKER
from dashboards.start.folder import LARGEST_FILE, ProjectFolder
from dashboards.start.nights import FirstNight
from dashboards.start.routes import UPLOAD, GuideSteps
from forecaster.config import Spec
from forecaster.config.access import Access
from forecaster.core import language as languages
from forecaster.core.state_paths import StatePaths
from forecaster.errors import ForecasterError, LedgerError, SpecError
from forecaster.ledger.store import Ledger

UPLOAD_SECONDS = 1800.0
_FORM = 65_536  # bytes of an upload besides its files


class Guide:
    """The guide of a project's folder, and the page of its pipeline. Both are rebuilt when the
    pipeline file changes, as it may declare another sign-in."""

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = now) -> None:
        self.folder, self.night, self._clock = ProjectFolder(path), FirstNight(), clock
        self._lock, self._changed = threading.Lock(), -1
        self._steps: ASGIApp
        self._page: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        steps, page = self._apps()
        path = scope.get("path", "")
        if scope["type"] != "http" or page is None or path == "/start" or path.startswith(("/start/", "/static/")):
            await steps(scope, receive, send)
        else:
            await page(scope, receive, send)

    @property
    def access(self) -> Access:
        """Access as declared in the pipeline file. Raises SpecError if the file is invalid."""
        spec = self.folder.spec
        return spec.page.access if spec else Access()

    def _apps(self) -> tuple[ASGIApp, ASGIApp | None]:
        with self._lock:
            file = self.folder.pipeline
            changed = file.stat().st_mtime_ns if file.is_file() else 0
            if changed != self._changed or self._page is None:
                self._renew(changed)
            return self._steps, self._page

    def _renew(self, changed: int) -> None:
        """Rebuild both after a change of the file, and the page once something is published.

        An invalid file is ignored here; the steps report it. Raises SpecError if the first file is
        invalid.
        """
        try:
            spec = self.folder.spec
        except SpecError:
            if self._changed < 0:
                raise
            return
        if changed != self._changed:
            self._make_steps(spec)
            self._changed, self._page = changed, None
        if spec is not None and _is_published(spec):
            access = spec.page.access
            self._page = create_app(spec.ledger_url, pipeline=spec.name, clock=self._clock, access=access, spec=spec)

    def _make_steps(self, spec: Spec | None) -> None:
        access, name = (spec.page.access, spec.name) if spec else (Access(), None)
        url = spec.ledger_url if spec else f"sqlite:///{StatePaths(self.folder.path / 'var').ledger}"
        store = PublicationStore(url, name, self._clock, build(), spec=spec)
        context = AccessContext(access, url, name, store, self._clock, {}, keys=signing_keys(access))
        self._steps = self._guide(context, spec.page.language if spec else languages.ENGLISH)

    def _guide(self, context: AccessContext, language: str) -> FastAPI:
        page = templates(prefix="", signs_out=context.access.sign_in == "oidc", plans_days=False)
        refuse = errors.refusing(page)
        app = bare_app(
            context,
            refuse,
            language,
            self._serving,
            bodies={
                "largest": lambda path: LARGEST_FILE + _FORM if path == UPLOAD else LARGEST_BODY,
                "seconds": UPLOAD_SECONDS,
            },
        )
        if context.access.sign_in == "oidc":
            app.add_middleware(SignedSessions, **session_options(context))
        wrap(app, None, context.pipeline or "")
        app.include_router(GuideSteps(self.folder, page, self.night, self._clock).router())

        @app.get("/")
        def to_the_guide() -> Response:
            return RedirectResponse("/start/forecast" if self.folder.pipeline.is_file() else "/start", 303)

        @app.get("/worker.js")
        def worker() -> Response:
            return FileResponse(WORKER, media_type="text/javascript", headers={"Cache-Control": "no-cache"})

        @app.exception_handler(ForecasterError)
        def told(request: Request, error: ForecasterError) -> Response:
            return refuse(request, 422, str(error))

        return app

    @asynccontextmanager
    async def _serving(self, _: Any) -> AsyncIterator[None]:
        yield
        self.night.stop()


def _is_published(spec: Spec) -> bool:
    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            return ledger.current(spec.name) is not None
    except LedgerError:  # reported by the steps
        return False
