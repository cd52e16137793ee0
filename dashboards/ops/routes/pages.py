"""HTTP routes of the HTML pages, and the service worker that shows them offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from dashboards.ops.http.render import HTML, Renderer, RenderPage
from dashboards.ops.reading.editions import HIDDEN_MESSAGE, Edition, Logbook
from dashboards.ops.reading.header import title_of
from dashboards.ops.reading.run_links import RunLinker
from dashboards.ops.routes import board, depots
from dashboards.ops.views.accuracy import AccuracyQuery as Weeks
from dashboards.ops.views.accuracy import accuracy
from dashboards.ops.views.champion import champion
from dashboards.ops.views.freshness import freshness
from dashboards.ops.views.health import health
from dashboards.ops.views.money.outlook import outlook
from dashboards.ops.views.money.turned_away import left_out, turned_away
from dashboards.ops.views.money.value import chosen_span, value_page
from dashboards.ops.views.network import network
from dashboards.ops.views.reliability.canary import canary_line
from dashboards.ops.views.reliability.drift import drift_list
from dashboards.ops.views.reliability.on_call import on_call
from dashboards.ops.views.reliability.promises import promises
from dashboards.ops.views.wall import wall
from forecaster.core.language import _

if TYPE_CHECKING:
    from forecaster.config import Spec

WORKER = Path(__file__).parents[1] / "static" / "worker.js"
GET = ["GET", "HEAD"]


def pages(renderer: Renderer, page: RenderPage, *, plans: bool = False, spec: Spec | None = None) -> APIRouter:
    """Return the routes of all read-only pages; each has its view in `views.catalogue`.

    `plans` is true if there are also pages for planners; `spec` declares the service objectives.
    """
    router = APIRouter(include_in_schema=False)
    router.include_router(board.router(renderer, page, plans=plans, spec=spec))
    router.include_router(depots.router(renderer, page, plans=plans))
    _of_the_publication(router, renderer, page)
    _of_the_past(router, renderer, page, spec)

    @router.get("/worker.js")
    def worker() -> Response:
        # The worker's path is at the root, since a worker controls only pages at or below its path;
        # browsers refetch it daily.
        return FileResponse(WORKER, media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    return router


def _of_the_publication(router: APIRouter, renderer: Renderer, page: RenderPage) -> None:
    @router.api_route("/wall", methods=GET)
    def wall_screen(request: Request) -> Response:
        city = request.query_params.get("city", "")[:200]

        def make(edition: Edition) -> bytes:
            depots = edition.outline()
            network_view = network(edition.head, depots, edition.front, edition.totals(), edition.cities is not None)
            view = wall(edition.head, depots, edition.front, network_view, edition.before(), city)
            return page("wall.html", front=edition.front, wall=view)

        return renderer.of_publication(request, HTML, make, city)


def _of_the_past(router: APIRouter, renderer: Renderer, page: RenderPage, spec: Spec | None) -> None:
    @router.api_route("/accuracy", methods=GET)
    def accuracy_page(request: Request) -> Response:
        query = Weeks.of(request.query_params)

        def make(book: Logbook) -> bytes:
            title = title_of(book.head)
            rates = accuracy(book.tallies(), book.runs, query, book.first_night())
            return page("accuracy.html", title=title, accuracy=rates, left_out=left_out(book.capped_depots()))

        return renderer.of_nights(request, HTML, make)

    @router.api_route("/value", methods=GET)
    def what_it_is_worth(request: Request) -> Response:
        weeks = chosen_span(request.query_params)

        def make(book: Logbook) -> bytes:
            title = title_of(book.head)
            sentences = (*outlook(book), *turned_away(book.capped_depots(), spec.staffing if spec else None))
            return page("value.html", title=title, value=value_page(book.value(weeks)), outlook=sentences)

        return renderer.of_nights(request, HTML, make)

    @router.api_route("/champion", methods=GET)
    def champion_page(request: Request) -> Response:
        def make(book: Logbook) -> bytes:
            view = champion(book.head, book.promotions(), book.runs, book.tallies())
            canary = canary_line(book.canary(), book.head)
            return page("champion.html", front=book.front(), champion=view, canary=canary, links=RunLinker.of(book))

        return renderer.of_nights(request, HTML, make)

    @router.api_route("/health", methods=GET)
    def health_page(request: Request) -> Response:
        def make(book: Logbook) -> bytes:
            fresh = freshness(book.head, book.depots(), book.runs, book.now)
            withheld = "" if book.cities is None else _(HIDDEN_MESSAGE)
            view, objectives = health(book.runs, book.head, book.now, withheld), promises(book, spec)
            content: dict[str, Any] = {
                "fresh": fresh,
                "promises": objectives,
                "drifting": drift_list(book.drifts()),
                "on_call": on_call(book),
            }
            content |= {"canary": canary_line(book.canary(), book.head), "links": RunLinker.of(book)}
            return page("health.html", health=view, **content)

        return renderer.of_nights(request, HTML, make)
