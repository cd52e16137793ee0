"""HTTP routes of the front page of several pipelines, and of the shared parts: health, the service
worker, links."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, PlainTextResponse, RedirectResponse, Response

from dashboards.ops.access import links, person
from dashboards.ops.formatting import locale
from dashboards.ops.formatting.csv import MEDIA_TYPE, sheet
from dashboards.ops.http.language import of_request
from dashboards.ops.http.render import HTML, JSON, RenderPage
from dashboards.ops.http.responses import ORIGIN, TRY_AGAIN, not_modified, with_etag
from dashboards.ops.portal.front_page import FrontPage
from dashboards.ops.portal.served import ServedPipeline
from dashboards.ops.portal.tile_list import TileQuery, tile_list
from dashboards.ops.routes import api
from dashboards.ops.routes.pages import WORKER
from dashboards.ops.views.api_schema import to_json
from dashboards.ops.views.tiles import PipelineRow, PipelinesOut, rows_out
from forecaster.core.language import N_, _
from forecaster.errors import LedgerError

TITLE = N_("Depot forecasts")


def front_routes(served: Mapping[str, ServedPipeline], front: FrontPage, page: RenderPage) -> APIRouter:
    """Return all routes outside the pipelines' prefixes, except sign-in."""
    routes = APIRouter()
    _of_readers(routes, front, page)
    _of_machines(routes, front)
    _of_links(routes, served)
    return routes


def _of_readers(routes: APIRouter, front: FrontPage, page: RenderPage) -> None:
    @routes.get("/", include_in_schema=False)
    def front_page(request: Request) -> Response:
        readers = front.visible(person(request))
        with locale.active(of_request(request)):
            tiles = front.tiles(readers)
            view = tile_list(tiles, TileQuery.of(request.query_params))
            body = page("portal.html", title=_(TITLE), list=view)
        if not any(tile.is_copy for tile in tiles):
            return _answer(request, body, HTML)
        request.scope[ORIGIN] = "copy"
        headers = {"Cache-Control": "no-store", **TRY_AGAIN}
        return Response(body, media_type=HTML, headers=headers)

    @routes.get(f"{api.PREFIX}/pipelines", response_model=PipelinesOut, responses=api.TROUBLE | api.AS_CSV)
    def pipelines(request: Request, format: api.Format = "json") -> Response:
        """Pipelines visible to the reader, those in trouble first."""
        out = rows_out(front.tiles(front.visible(person(request))))
        if format == "csv":
            return _answer(request, sheet(PipelineRow, out.rows).csv(), MEDIA_TYPE)
        return _answer(request, to_json(out), JSON)


def _of_machines(routes: APIRouter, front: FrontPage) -> None:
    @routes.get("/healthz", response_class=PlainTextResponse)
    async def healthz() -> str:
        """Liveness: the process is up."""
        return "ok\n"

    @routes.get("/readyz", response_class=PlainTextResponse, responses={503: {"description": "Not ready"}})
    def readyz() -> Response:
        """Readiness: at least one pipeline has something to show. Each pipeline reports its own
        under its prefix."""
        if front.any_ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", 503, {"Retry-After": "60"})

    @routes.get("/worker.js", include_in_schema=False)
    def worker() -> Response:
        return FileResponse(WORKER, media_type="text/javascript", headers={"Cache-Control": "no-cache"})


def _of_links(routes: APIRouter, served: Mapping[str, ServedPipeline]) -> None:
    @routes.get("/link/{token}", include_in_schema=False)
    def enter(request: Request, token: str) -> Response:
        # `forecaster link` does not know where the pipeline is served, and writes this address
        for pipeline in served.values():
            try:
                return links.enter(request, pipeline.context, token)
            except (links.DeadLink, LedgerError):
                continue
        raise links.DeadLink

    @routes.get("/feed/{token}/{form}", include_in_schema=False)
    def feed(request: Request, token: str, form: str) -> Response:
        # likewise; its content is under the pipeline's prefix
        for pipeline in served.values():
            try:
                links.feed_reader(pipeline.context, token)
            except (links.DeadLink, LedgerError):
                continue
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(f"{pipeline.context.prefix}/feed/{token}/{quote(form, safe='')}{query}", 307)
        raise links.DeadLink


def _answer(request: Request, body: bytes, media_type: str) -> Response:
    tag = f'W/"{sha256(body).hexdigest()[:32]}"'
    return not_modified(request, tag) or with_etag(body, media_type, tag)
