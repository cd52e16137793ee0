"""HTTP routes of feeds: the RSS feed and the calendar opened by a link's token, for its depot, its
city, or all."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from dashboards.ops.access import links
from dashboards.ops.access.context import AccessContext
from dashboards.ops.http.render import Renderer
from dashboards.ops.reading.editions import Edition, NoSuchDepot
from dashboards.ops.reading.point_in_time import NotRetained
from dashboards.ops.views.digest import feeds
from dashboards.ops.views.digest.content import DigestScope, NoSuchCity, digest
from dashboards.ops.views.digest.feeds import FeedItem
from forecaster.errors import MissingExtra
from forecaster.ledger.access import Link


def router(renderer: Renderer, context: AccessContext) -> APIRouter:
    """Return the routes of both formats; `?depot=` and `?city=` narrow the link's scope. An invalid
    link is a 404."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/feed/{token}/rss")
    def as_rss(request: Request, token: str) -> Response:
        def make(edition: Edition, scope: DigestScope, base: str) -> bytes:
            return feeds.rss(_items(renderer, edition, scope, base), base)

        return _answer(renderer, context, request, token, feeds.RSS, make)

    @routes.get("/feed/{token}/ics")
    def as_calendar(request: Request, token: str) -> Response:
        def make(edition: Edition, scope: DigestScope, base: str) -> bytes:
            return feeds.calendar(FeedItem(edition, digest(edition, scope, base)))

        return _answer(renderer, context, request, token, feeds.CALENDAR, make)

    return routes


def _answer(
    renderer: Renderer,
    context: AccessContext,
    request: Request,
    token: str,
    media_type: str,
    make: Callable[[Edition, DigestScope, str], bytes],
) -> Response:
    link, reader = links.feed_reader(context, token)
    request.state.person = reader  # the link alone determines what is visible, even if somebody is signed in
    base = (context.access.url or str(request.base_url).rstrip("/")) + context.prefix
    try:
        scope = _scope(link, request.query_params.get("depot", ""), request.query_params.get("city", ""))
        return renderer.of_publication(
            request, media_type, lambda edition: make(edition, scope, base), (scope, renderer.store.quarter_hour())
        )
    except NoSuchCity:
        raise HTTPException(404, "there is no such city in what this link shows") from None
    except MissingExtra as error:
        raise HTTPException(501, str(error)) from error


def _scope(link: Link, depot_id: str, city: str) -> DigestScope:
    """Return the requested scope, within that of the link. Raises NoSuchDepot and NoSuchCity for a
    scope outside it."""
    if link.depot_id is not None:
        if depot_id not in ("", link.depot_id):
            raise NoSuchDepot(depot_id)
        if city:
            raise NoSuchCity(city)
        return DigestScope(link.depot_id)
    if link.city is not None and city not in ("", link.city):
        raise NoSuchCity(city)
    return DigestScope(depot_id, "" if depot_id else city or link.city or "")


def _items(renderer: Renderer, edition: Edition, scope: DigestScope, base: str) -> list[FeedItem]:
    """Return the digests of the last days, as readers saw them then; none for days before a depot
    existed."""
    items = [FeedItem(edition, digest(edition, scope, base))]
    for head in feeds.publications_of_days(edition):
        if head.publication_id == edition.head.publication_id:
            continue
        try:
            past = renderer.store.edition(edition.cities, publication=head.publication_id)
            items.append(FeedItem(past, digest(past, scope, base)))
        except (NotRetained, NoSuchDepot, NoSuchCity):
            continue
    return items
