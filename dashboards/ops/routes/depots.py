"""HTTP routes of a depot, and the page of a depot or of one of its days."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from dashboards.ops.formatting import display
from dashboards.ops.http.render import HTML, Renderer, RenderPage
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.header import Front, in_zone, past_query
from dashboards.ops.views.depot import depot_page
from dashboards.ops.views.planning.plan_day import PlanPage
from dashboards.ops.views.reliability.drift import depot_sentence
from forecaster.core.language import _
from forecaster.plugins import optional

GET = ["GET", "HEAD"]


def router(renderer: Renderer, page: RenderPage, *, plans: bool) -> APIRouter:
    """Return the route of a depot's page; `plans` is true if there are pages for planners."""
    routes = APIRouter(include_in_schema=False)

    @routes.api_route("/depot/{depot_id:path}", methods=GET)
    def one_depot(request: Request, depot_id: str) -> Response:
        def make(edition: Edition) -> bytes:
            return depot_content(edition, depot_id, page, plans=plans and not edition.past, as_of=as_of)

        as_of = request.query_params.get("as_of")
        return renderer.of_publication(request, HTML, make, (renderer.store.quarter_hour(), as_of), as_of=as_of)

    return routes


def depot_content(
    edition: Edition,
    depot_id: str,
    page: RenderPage,
    *,
    day: date | None = None,
    plans: bool = False,
    mine: bool = False,
    plan: PlanPage | None = None,
    who: object = None,
    as_of: str | None = None,
) -> bytes:
    """Render a depot's page, in its own time zone, with `day` in front, by default tomorrow.

    `mine`: the page was opened as "my depot"; `as_of`: the requested past instant. Raises
    NoSuchDepot, and HTTPException for a day that is not published.
    """
    depot = edition.depot(depot_id)
    front = in_zone(edition.front, depot.timezone)
    if day is not None:
        front = with_day_in_front(front, day)
    people = optional("people.routes")
    return page(
        "depot.html",
        front=front,
        depot=depot_page(edition.head, depot, front, edition.said_before(depot_id), edition.home),
        plans=plans,
        mine=mine,
        drifting=depot_sentence(edition.drifts(depot)),
        chosen=day is not None,
        plan=plan,
        who=who,
        as_of=past_query(as_of),
        week=people.depot_week(edition, depot) if people else None,
    )


def with_day_in_front(front: Front, day: date) -> Front:
    """Return the header with another day in front. Raises HTTPException for a day that is not
    published."""
    if day not in front.target_dates:
        days = display.days(front.target_dates)
        raise HTTPException(404, _("found {day}, wanted one of {days}", day=display.day(day), days=days))
    return replace(front, meant=front.target_dates.index(day), near=display.near(day, front.today))
