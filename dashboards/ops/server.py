"""The web page for the depots: answers from the ledger's current publication and last nights, or a plain sentence."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from dashboards.ops.answers import HEADERS, KeepToItself, tagged, unchanged
from dashboards.ops.shelf import Edition, Logbook, NoSuchDepot, Shelf
from dashboards.ops.views.api import FullDepotOut, PublicationOut, depot_out, publication_out, to_json
from dashboards.ops.views.depot import depot_page
from dashboards.ops.views.health import health
from dashboards.ops.views.network import network
from dashboards.ops.views.nights import RunsOut, runs_out
from forecaster import __version__
from forecaster.errors import LedgerError, SpecError

if TYPE_CHECKING:
    from forecaster.spec import Spec

HERE = Path(__file__).parent
HTML, JSON = "text/html; charset=utf-8", "application/json"
Make = Callable[[Edition], bytes]


def now() -> datetime:
    return datetime.now(UTC)


def create_app(
    ledger_url: str,
    *,
    pipeline: str | None = None,
    clock: Callable[[], datetime] = now,
    spec: Spec | None = None,
) -> FastAPI:
    """The page as an ASGI application. It starts without a ledger too, and answers 503 until there is one.

    With a pipeline file planners can ask what-if and override days; without one the page is for reading.
    """
    build = _build()
    shelf = Shelf(ledger_url, pipeline, clock, build)
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals.update(style=f"/static/style.css?v={build}", icon=f"/static/icon.svg?v={build}")

    def page(name: str, **values: Any) -> bytes:
        return templates.get_template(name).render(**values).encode()

    def answer(request: Request, media_type: str, make: Make) -> Response:
        edition = shelf.edition()
        tag = shelf.tag(edition, request.url.path)
        body = shelf.answer(edition, tag, lambda: make(edition))  # first, as it may be that there is no such page
        return unchanged(request, tag) or tagged(body, media_type, tag)

    def of_nights(request: Request, media_type: str, make: Callable[[Logbook], bytes]) -> Response:
        body = make(shelf.logbook())  # made each time: it changes with every stage of a night, and few ask
        tag = shelf.named(request.url.path, body)
        return unchanged(request, tag) or tagged(body, media_type, tag)

    def trouble(request: Request, status: int, heading: str, sentence: str) -> Response:
        headers = {**HEADERS, "Cache-Control": "no-store"} | ({"Retry-After": "60"} if status == 503 else {})
        if request.url.path.startswith("/api/"):
            return JSONResponse({"detail": sentence}, status, headers)
        body = page("trouble.html", title=heading, heading=heading, sentence=_sentence(sentence))
        return Response(body, status, headers, HTML)

    app = FastAPI(
        title="Depot forecasts",
        version=__version__,
        docs_url=None,  # those pages load their scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )
    app.add_middleware(GZipMiddleware, minimum_size=800)
    app.add_middleware(KeepToItself)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    def network_page(request: Request) -> Response:
        def make(edition: Edition) -> bytes:
            view = network(edition.head, edition.depots(), edition.front, edition.totals())
            return page("network.html", front=edition.front, network=view, notice=edition.notice)

        return answer(request, HTML, make)

    @app.api_route("/depot/{depot_id:path}", methods=["GET", "HEAD"], include_in_schema=False)
    def one_depot(request: Request, depot_id: str) -> Response:
        def make(edition: Edition) -> bytes:
            view = depot_page(edition.head, edition.depot(depot_id), edition.front)
            return page("depot.html", front=edition.front, depot=view, plans=spec is not None)

        return answer(request, HTML, make)

    @app.api_route("/health", methods=["GET", "HEAD"], include_in_schema=False)
    def health_page(request: Request) -> Response:
        return of_nights(request, HTML, lambda b: page("health.html", health=health(b.runs, b.head, b.now)))

    if spec is not None:
        from dashboards.ops.routes_planning import router  # which loads what forecasts

        app.include_router(router(spec, shelf, page, trouble))

    @app.get("/api/v1/runs", response_model=RunsOut, tags=["nights"])
    def runs(request: Request) -> Response:
        """The last nights: outcome, findings, seconds by stage."""
        return of_nights(request, JSON, lambda b: to_json(runs_out(b.runs)))

    @app.get("/api/v1/publication", response_model=PublicationOut, tags=["forecasts"])
    def publication(request: Request) -> Response:
        """The forecast of the network, of each city and of each depot: the median and the 80 % range, in orders."""
        return answer(request, JSON, lambda e: to_json(publication_out(e.head, e.depots(), e.front, e.totals())))

    @app.get("/api/v1/depots/{depot_id:path}", response_model=FullDepotOut, tags=["forecasts"])
    def depot(request: Request, depot_id: str) -> Response:
        """One depot's forecast with all its quantiles, in orders, and the days before it."""
        return answer(request, JSON, lambda e: to_json(depot_out(e.head, e.depot(depot_id), e.front)))

    @app.get("/healthz", response_class=PlainTextResponse, tags=["health"])
    def healthz() -> str:
        """The process is up."""
        return "ok\n"

    @app.get("/readyz", response_class=PlainTextResponse, tags=["health"])
    def readyz() -> Response:
        """The ledger can be read and something is published; else 503 and why."""
        try:
            edition = shelf.edition()
        except LedgerError as error:
            return PlainTextResponse(f"{error}\n", 503, {"Retry-After": "60"})
        return PlainTextResponse(f"publication {edition.head.publication_id} of {edition.head.pipeline}\n")

    @app.exception_handler(LedgerError)
    def no_ledger(request: Request, error: LedgerError) -> Response:
        return trouble(request, 503, "No forecasts to show", str(error))

    @app.exception_handler(NoSuchDepot)
    def no_depot(request: Request, error: NoSuchDepot) -> Response:
        return trouble(request, 404, "No such depot", f"there is no depot “{error}” in the current forecasts")

    @app.exception_handler(HTTPException)
    def no_page(request: Request, error: HTTPException) -> Response:
        sentence = f"there is nothing at {request.url.path}" if error.status_code == 404 else str(error.detail)
        return trouble(request, error.status_code, "No such page", sentence)

    @app.exception_handler(Exception)
    def our_fault(request: Request, error: Exception) -> Response:
        sentence = "the page could not be made; the forecasts are untouched, and the server's log says more"
        return trouble(request, 500, "Something went wrong here", sentence)

    return app


def serve(spec: Spec, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve the pipeline's page until interrupted; port 0 takes a free one.

    Raises SpecError when the address cannot be had.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise SpecError(f"cannot listen on {host} port {port}: {error.strerror}; wanted a free port of ours") from error
    with listener:
        shown = f"[{host}]" if ":" in host else host
        print(f"{spec.name}: http://{shown}:{listener.getsockname()[1]}/", flush=True)
        app = create_app(spec.ledger_url, pipeline=spec.name, spec=spec)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False)).run(sockets=[listener])


def _build() -> str:
    """Names what the pages are made with, so that a browser forgets those made with something else."""
    files = sorted(path for path in HERE.rglob("*") if path.suffix in {".html", ".css", ".svg", ".py"})
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!")) else ".")
