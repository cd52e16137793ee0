"""Route of "my depot": a browser remembers one depot, in a separate cookie; needs neither sign-in
nor a script."""

from __future__ import annotations

from urllib.parse import quote, unquote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dashboards.ops.access import person
from dashboards.ops.formatting import locale
from dashboards.ops.http.language import of_request
from dashboards.ops.http.render import HTML, Renderer, RenderPage
from dashboards.ops.reading.editions import NoSuchDepot
from dashboards.ops.routes.depots import depot_content

COOKIE = "my_depot"
A_YEAR = 365 * 24 * 3600
LONGEST = 1000  # characters of a depot ID in the cookie


def my_depot(renderer: Renderer, page: RenderPage, *, plans: bool) -> APIRouter:
    """Return the route `/my-depot`: the page of the depot that this browser remembers. `?depot=ID`
    sets it, `?depot=` clears it."""
    router = APIRouter(include_in_schema=False)

    @router.get("/my-depot")
    def mine(request: Request, depot: str | None = None) -> Response:
        context = request.app.state.access_context
        name = context.cookie(COOKIE)
        depot_id = unquote(request.cookies.get(name, "")) if depot is None else depot[:LONGEST]
        with locale.active(of_request(request)):
            edition = renderer.store.edition(person(request).cities)
            try:
                content = depot_content(edition, depot_id, page, plans=plans, mine=True) if depot_id else None
            except NoSuchDepot:
                if depot is not None:
                    raise
                content = None
            body = content or page("my_depot.html", front=edition.front, gone=depot_id)
            answer = Response(body, media_type=HTML)
        if depot:
            options = {"secure": context.secure, "httponly": True, "samesite": "lax"}
            answer.set_cookie(name, quote(depot_id, safe=""), max_age=A_YEAR, **options)
        elif depot is not None:
            answer.delete_cookie(name, secure=context.secure, httponly=True, samesite="lax")
        return answer

    return router
