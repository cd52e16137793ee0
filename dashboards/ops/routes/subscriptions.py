"""HTTP routes of "in your calendar", where an admin makes the address of a depot's or a city's
feed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import Response

from dashboards.ops.access import Person, csrf_token, links, person, require
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.roles import RoleFirst
from dashboards.ops.http.render import HTML, RenderPage
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.routes.admin import LinkRequest, made_link
from dashboards.ops.views.attention import city_of
from forecaster.ledger import access as ledger_access

Admin = Annotated[Person, Depends(require("admin"))]


def router(store: PublicationStore, context: AccessContext, page: RenderPage) -> APIRouter:
    """Return the routes of the page `/subscribe`, for a `depot=` or a `city=`: an admin makes a
    link there, others read whom to ask."""
    routes = APIRouter(include_in_schema=False, route_class=RoleFirst)

    def filled(request: Request, edition: Edition, depot_id: str, city: str, **more: Any) -> Response:
        whoever = person(request)
        content = {
            "depot_id": depot_id,
            "city": city,
            "name": depot_id or city or "all depots",
            "shared": context.access.sign_in != "none" and context.access.secret is not None,
            "makes": whoever.may("admin"),
            "csrf": csrf_token(request),
            "calendar": "",
            "rss": "",
            "link_id": "",
        }
        body = page("subscribe.html", front=edition.front, subscription={**content, **more})
        return Response(body, media_type=HTML, headers={"Cache-Control": "no-store"})

    @routes.get("/subscribe")
    def how(request: Request, depot: str = "", city: str = "") -> Response:
        edition = _visible(store, person(request), depot, city)
        return filled(request, edition, depot, "" if depot else city)

    @routes.post("/subscribe")
    def make(request: Request, admin: Admin, depot: str = "", city: str = "") -> Response:
        edition = _visible(store, admin, depot, city)
        wish = LinkRequest(
            view=links.FEED,
            city=None if depot or not city else city,
            depot_id=depot or None,
            days=ledger_access.MOST_DAYS,
        )
        link, address = made_link(request, context, admin, wish)
        content = {"calendar": address, "rss": links.rss_address(address), "link_id": link.link_id}
        return filled(request, edition, depot, "" if depot else city, **content)

    return routes


def _visible(store: PublicationStore, reader: Person, depot_id: str, city: str) -> Edition:
    """Return the edition. Raises NoSuchDepot, and HTTPException for a city that the reader does not
    see."""
    edition = store.edition(reader.cities)
    if depot_id:
        edition.depot(depot_id)
    elif city and city not in {city_of(depot) for depot in edition.outline()}:
        raise HTTPException(404, f"there is no city “{city[:80]}” in the current forecasts")
    return edition
