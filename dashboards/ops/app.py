"""ASGI application factory and server of the page: answers from the ledger's current publication and last nights."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from anyio import to_thread
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.staticfiles import StaticFiles

from dashboards.ops.access import links
from dashboards.ops.access.context import AccessContext, signing_key
from dashboards.ops.access.middleware import AccessMiddleware
from dashboards.ops.access.networks import is_local
from dashboards.ops.formatting import display
from dashboards.ops.http.bodies import BodyLimits
from dashboards.ops.http.head import HeadRequests
from dashboards.ops.http.protocol import GuardedProtocol, quiet_log
from dashboards.ops.http.render import Renderer, RenderPage
from dashboards.ops.http.response_cache import ResponseCache
from dashboards.ops.http.responses import SecurityHeaders
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.routes import admin, api, errors, health
from dashboards.ops.routes.my_depot import my_depot
from dashboards.ops.routes.pages import pages
from dashboards.ops.views.catalogue import linkable
from forecaster import __version__
from forecaster.config.access import Access
from forecaster.errors import SpecError

if TYPE_CHECKING:
    from forecaster.config import Spec

HERE = Path(__file__).parent
STATIC = {"style": "style.css", "icon": "icon.svg", "script": "page.js"}
SWITCH = 0.0002  # seconds, where Python takes 5 ms: each request changes threads several times
THREADS = 8  # that answer at once; each has memory of its own
RARELY = 1000  # times that Python looks through young values before it looks through all, where it takes 10


def now() -> datetime:
    return datetime.now(UTC)


def create_app(
    ledger_url: str,
    *,
    pipeline: str | None = None,
    clock: Callable[[], datetime] = now,
    access: Access | None = None,
    spec: Spec | None = None,
) -> FastAPI:
    """The page as an ASGI application. It starts without a ledger too, and answers 503 until there is one.

    Without a declared access it serves its own machine alone. With a pipeline file planners can ask what-if and
    override days; without one the page is for reading. Raises SpecError when a declared secret is not there.
    """
    access, build = access or Access(), _build()
    store = PublicationStore(ledger_url, pipeline, clock, build)
    key = signing_key(access)
    context = AccessContext(access, ledger_url, pipeline, store, clock, linkable(), **({"key": key} if key else {}))
    page = _pages(build, signs_out=access.sign_in == "oidc", plans_days=spec is not None)
    refuse = errors.refusing(page)
    app = FastAPI(
        title="Depot forecasts",
        version=__version__,
        docs_url=None,  # those pages load their scripts from elsewhere
        redoc_url=None,
        openapi_url=f"{api.PREFIX}/openapi.json",
        lifespan=partial(_serving, store),
    )
    app.state.access_context = context
    app.add_middleware(ResponseCache, store=store)
    app.add_middleware(HeadRequests, but=("/sign-in", "/link/"))
    app.add_middleware(BodyLimits)
    app.add_middleware(AccessMiddleware, context=context, refuse=refuse)
    if access.sign_in == "oidc":
        app.add_middleware(
            SessionMiddleware,
            secret_key=context.key,
            session_cookie=context.cookie("session"),
            max_age=int(access.session_hours * 3600),
            https_only=context.secure,
        )
        from dashboards.ops.access import oidc  # a second of imports that other pages do without

        app.include_router(oidc.router(context, page))
    app.add_middleware(GZipMiddleware, minimum_size=800)
    app.add_middleware(SecurityHeaders)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    renderer = Renderer(store)
    plans = spec is not None
    read = pages(renderer, page, plans=plans)
    for routes in (
        read,
        my_depot(store, page, plans=plans),
        health.router(store),
        _links(context),
        api.router(renderer),
        admin.router(context),
    ):
        app.include_router(routes)
    if spec is not None:
        from dashboards.ops.routes.planning import router  # which loads what forecasts

        app.include_router(router(spec, store, page, refuse))
    errors.handle(app, refuse)
    return app


@asynccontextmanager
async def _serving(store: PublicationStore, _: FastAPI) -> AsyncIterator[None]:
    """Few threads, and a ledger that is closed at the end."""
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield
    store.close()


def _pages(build: str, *, signs_out: bool, plans_days: bool) -> RenderPage:
    """Fills in a template; `signs_out` says whether people sign in here, and can sign out, `plans_days` whether there
    are pages for planners."""
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["number"] = display.number
    templates.globals.update(signs_out=signs_out, plans_days=plans_days)
    templates.globals.update({name: f"/static/{file}?v={build}" for name, file in STATIC.items()})

    def page(name: str, **values: Any) -> bytes:
        return templates.get_template(name).render(**values).encode()

    return page


def _links(context: AccessContext) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/link/{token}")
    def enter(request: Request, token: str) -> Response:
        return links.enter(request, context, token)

    return routes


def quick() -> None:
    """Let requests wait less for whoever computes: a new publication is read in a thread beside theirs.

    While Python looks through all values for cycles, everybody waits: 0.1 s for what was loaded at the start, 0.2 s for
    the values of 5,000 depots, which have no cycles. So the former is left out, and the latter are seldom looked at.
    """
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], RARELY)


def config(app: FastAPI) -> uvicorn.Config:
    """How the page is served."""
    quiet_log()
    return uvicorn.Config(
        app,
        http=GuardedProtocol,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # whose headers are believed is declared, and looked at by the access middleware
        ws="none",  # nothing here speaks it, and its library takes memory
    )


def serve(spec: Spec, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve the pipeline's page until interrupted; port 0 takes a free one.

    Raises SpecError when the address cannot be had, or others could come in and nothing says how they sign in.
    """
    access = spec.page.access
    if access.sign_in == "none" and not is_local(host):
        raise SpecError(
            f"--host: found {host}, which others can reach, and page.access.sign_in says how nobody signs in; wanted "
            "127.0.0.1, or sign_in: header or oidc in the pipeline file"
        )
    app = create_app(spec.ledger_url, pipeline=spec.name, access=access, spec=spec)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise SpecError(f"cannot listen on {host} port {port}: {error.strerror}; wanted a free port of ours") from error
    with listener:
        url_host = f"[{host}]" if ":" in host else host
        print(f"{spec.name}: http://{url_host}:{listener.getsockname()[1]}/", flush=True)
        quick()
        uvicorn.Server(config(app)).run(sockets=[listener])


def _build() -> str:
    """Names what the pages are made with, so that a browser forgets those made with something else."""
    files = sorted(path for path in HERE.rglob("*") if path.suffix in {".html", ".css", ".svg", ".js", ".py"})
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
