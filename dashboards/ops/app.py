"""ASGI application factory of a pipeline's page: answers from the ledger's current publication and
latest runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from types import CodeType, MappingProxyType
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response
from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from dashboards.ops.access import links
from dashboards.ops.access.context import AccessContext, signing_keys
from dashboards.ops.access.middleware import AccessMiddleware
from dashboards.ops.access.person import is_for_admin
from dashboards.ops.access.signatures import SignedSessions
from dashboards.ops.formatting import display
from dashboards.ops.http.bodies import LARGEST_BODY, LARGEST_FORM, BodyLimits
from dashboards.ops.http.head import CHANGING, HeadRequests
from dashboards.ops.http.language import LanguageMiddleware
from dashboards.ops.http.render import Renderer, RenderPage
from dashboards.ops.http.response_cache import ResponseCache
from dashboards.ops.http.responses import SecurityHeaders
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.routes import admin, api, errors, feeds, health, runs, subscriptions
from dashboards.ops.routes.my_depot import my_depot
from dashboards.ops.routes.pages import pages
from dashboards.ops.views.catalogue import linkable
from forecaster import __version__
from forecaster.config.access import Access
from forecaster.core import language as languages
from forecaster.plugins import plugin

if TYPE_CHECKING:
    from dashboards.ops.http.request_metrics import PageMetrics
    from forecaster.config import Spec

HERE = Path(__file__).parent
STATIC = {
    "style": "style.css",
    "icon": "icon.svg",
    "script": "page.js",
    "board_script": "board.js",
    "manifest": "manifest.webmanifest",
}
WORKBOOKS, LARGEST_WORKBOOK = ("/week-file", "/shifts/file"), 8 << 20  # bytes of an uploaded workbook
THREADS = 8  # that answer at once; each has its own memory


def now() -> datetime:
    return datetime.now(UTC)


def create_app(
    ledger_url: str,
    *,
    pipeline: str | None = None,
    clock: Callable[[], datetime] = now,
    access: Access | None = None,
    spec: Spec | None = None,
    metrics: PageMetrics | None = None,
) -> FastAPI:
    """Return the page as an ASGI application. It starts without a ledger too, and answers 503 until
    there is one.

    Without a declared access it serves only its own machine. With a pipeline file, planners can ask
    what-if and override days; without one the page is read-only. `metrics` counts its answers.
    Raises SpecError if a declared secret is missing.
    """
    access = access or Access()
    store = PublicationStore(ledger_url, pipeline, clock, build(), spec=spec)
    context = AccessContext(access, ledger_url, pipeline, store, clock, linkable(), keys=signing_keys(access))
    return page_app(context, spec, metrics=metrics)


def page_app(
    context: AccessContext,
    spec: Spec | None,
    *,
    outside: ASGIApp | None = None,
    metrics: PageMetrics | None = None,
) -> FastAPI:
    """Return the page of one pipeline.

    For one of several pipelines (`context.prefix`), paths arrive without the prefix, people sign in
    elsewhere, and `outside` answers readers who may see nothing of it.
    """
    store, oidc, plans = context.store, context.access.sign_in == "oidc", spec is not None
    has_file = spec is not None and spec.file is not None
    page = templates(prefix=context.prefix, signs_out=oidc, plans_days=plans, settings=has_file)
    refuse = errors.refusing(page)
    language = spec.page.language if spec else languages.ENGLISH
    bodies = {"largest": _largest}
    app = bare_app(context, refuse, language, partial(_serving, store), cached=store, outside=outside, bodies=bodies)
    if oidc and not context.prefix:
        app.add_middleware(SignedSessions, **session_options(context))
        # saves other pages a second of imports
        from dashboards.ops.access import oidc as signing_in

        app.include_router(signing_in.router(context, page))
    wrap(app, metrics, context.pipeline or "")
    renderer = Renderer(store, spec)
    for routes in (
        pages(renderer, page, plans=plans, spec=spec),
        my_depot(renderer, page, plans=plans),
        health.router(store),
        runs.router(spec),
        _links(context),
        feeds.router(renderer, context),
        subscriptions.router(store, context, page),
        api.router(renderer),
        admin.router(context),
    ):
        app.include_router(routes)
    if spec is not None:
        for router in _deciding(spec, store, context, page, refuse):
            app.include_router(router)
    return app


def _deciding(
    spec: Spec, store: PublicationStore, context: AccessContext, page: RenderPage, refuse: errors.Refuse
) -> Iterator[APIRouter]:
    """Yield the routes for decisions, whose modules import the forecasting code."""
    from dashboards.ops.routes import planning, settings
    from dashboards.ops.routes.planners import acceptance, week_file

    yield planning.router(spec, store, page, refuse)
    yield acceptance.router(spec, context, refuse)
    yield week_file.WeekFileRoutes(spec, context, page).router()
    if spec.file is not None:
        yield settings.router(spec, context, page)
    if spec.staffing is not None and spec.staffing.people:
        yield plugin("people.edits").ShiftEditRoutes(spec, context, page, refuse).router()
        yield plugin("people.my_week").MyWeekRoutes(spec, context, page, refuse).router()
    if spec.staffing is not None and spec.staffing.notice_days is not None:
        yield plugin("notice.routes").router(spec, context, page, refuse)


def bare_app(
    context: AccessContext,
    refuse: errors.Refuse,
    language: str,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
    *,
    cached: PublicationStore | None = None,
    outside: ASGIApp | None = None,
    bodies: Mapping[str, Any] = MappingProxyType({}),
) -> FastAPI:
    """Return an application without routes; its middleware controls access and finds the reader's
    language. `bodies` are options of `BodyLimits`."""
    app = FastAPI(
        title="Depot forecasts",
        version=__version__,
        docs_url=None,  # FastAPI's documentation pages load their scripts from other hosts
        redoc_url=None,
        openapi_url=f"{api.PREFIX}/openapi.json",
        servers=[{"url": context.prefix}] if context.prefix else None,
        lifespan=lifespan,
        dependencies=[Depends(api.check_query)],
    )
    app.state.access_context = context
    if cached is not None:
        app.add_middleware(ResponseCache, store=cached, but=("/feed/", "/runs/"))
    app.add_middleware(HeadRequests, but=CHANGING)
    app.add_middleware(BodyLimits, **bodies)
    app.add_middleware(AccessMiddleware, context=context, refuse=refuse, outside=outside)
    app.add_middleware(LanguageMiddleware, default=language, secure=context.secure, prefix=context.prefix)
    errors.handle(app, refuse)
    return app


def _largest(path: str) -> int:
    """Return the largest body of this path, in bytes."""
    if path.startswith(WORKBOOKS):
        return LARGEST_WORKBOOK
    return LARGEST_FORM if path.startswith("/settings") else LARGEST_BODY


def wrap(app: FastAPI, metrics: PageMetrics | None, pipeline: str) -> None:
    """Add the outermost middleware, which compresses, adds headers and counts answers, and the
    static files."""
    app.add_middleware(GZipMiddleware, minimum_size=800)
    app.add_middleware(SecurityHeaders)
    if metrics is not None:
        app.add_middleware(metrics.middleware, metrics=metrics, pipeline=pipeline, routes_of=app)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")


def session_options(context: AccessContext) -> dict[str, Any]:
    """Options of the session cookie for people who sign in at a provider."""
    return {
        "keys": context.keys,
        "session_cookie": context.cookie("session"),
        "max_age": int(context.access.session_hours * 3600),
        "https_only": context.secure,
    }


@asynccontextmanager
async def _serving(store: PublicationStore, _: FastAPI) -> AsyncIterator[None]:
    """Limit the threads, and close the ledger at the end."""
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield
    store.close()


class _CompiledOnce(BytecodeCache):
    """Compiled templates, shared by all pages of this process: a portal has hundreds of pages."""

    def __init__(self) -> None:
        # by the template's key and the checksum of its source
        self._code: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        self._code[bucket.key, bucket.checksum] = bucket.code


_COMPILED = _CompiledOnce()


def templates(
    *, prefix: str, signs_out: bool, plans_days: bool, portal: bool = False, settings: bool = False
) -> RenderPage:
    """Return a function that renders a template.

    `prefix` precedes the addresses of the pipeline's pages; `signs_out` is true if people sign in
    here and can sign out; `plans_days`, if there are pages for planners; `portal`, for the pages of
    all pipelines together; `settings`, if admins have a settings page.
    """
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        bytecode_cache=_COMPILED,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = display.number
    for function in (languages._, languages.ngettext, languages.pgettext):
        environment.globals[function.__name__] = _with_markup(function)
    environment.globals.update(
        language=languages.language, direction=languages.direction, languages=languages.LANGUAGES
    )
    environment.globals.update(prefix=prefix, signs_out=signs_out, plans_days=plans_days, portal=portal)
    environment.globals.update(settings=settings, is_for_admin=is_for_admin)
    environment.globals.update({name: f"/static/{file}?v={build()}" for name, file in STATIC.items()})

    def page(name: str, **values: Any) -> bytes:
        template = environment.get_template(name)
        context = template.new_context(values)
        try:
            return environment.concat(template.root_render_func(context)).encode()
        finally:
            # A template's macros and its context refer to one another, and Python rarely collects
            # such cycles (`listening.quick`): all values of the page would stay in memory.
            context.parent.clear()

    return page


def _with_markup(function: Callable[..., str]) -> Callable[..., Markup]:
    """Return translated sentences as HTML, which may contain tags; the values filled in are
    escaped."""

    def sentence(*message: Any, **values: Any) -> Markup:
        return languages.filled(Markup(function(*message)), values)

    return sentence


def _links(context: AccessContext) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/link/{token}")
    def enter(request: Request, token: str) -> Response:
        return links.enter(request, context, token)

    return routes


@lru_cache
def build() -> str:
    """Digest of the source files of the pages, so that a browser discards pages of another version."""
    files = sorted(path for path in HERE.rglob("*") if path.suffix in {".html", ".css", ".svg", ".js", ".py"})
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
