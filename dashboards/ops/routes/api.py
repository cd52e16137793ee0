"""HTTP routes of the JSON and CSV API: one per declared view, one for a depot, and one for the
requesting person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query
from starlette.requests import Request
from starlette.responses import Response

from dashboards.ops.access import csrf_token, person
from dashboards.ops.access.middleware import is_api
from dashboards.ops.formatting.retelling import told
from dashboards.ops.http.render import Renderer
from dashboards.ops.reading.editions import Edition
from dashboards.ops.views.api_schema import FullDepotOut, depot_out
from dashboards.ops.views.catalogue import VIEWS, View, depot_sheet
from forecaster.core.language import _
from forecaster.core.language.near_words import did_you_mean, nearest_word

PREFIX = "/api/v1"
LARGEST_ID = 2**31 - 1

Format = Annotated[Literal["json", "csv"], Query(description="A `csv` has the same rows.")]
AsOf = Annotated[
    str | None,
    Query(
        max_length=64,
        description="The publication shown at this instant, as in 2026-10-27T06:00, in the pipeline's time zone if "
        "it has no offset; for a day alone, at its end.",
        examples=["2026-10-27T06:00"],
    ),
]
Number = Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="A publication by its id.")]


@dataclass(frozen=True)
class MeOut:
    """The requesting person. `cities` are those visible to them, null: all. Writes send `csrf` as
    the header X-CSRF-Token."""

    name: str
    role: str
    cities: list[str] | None
    csrf: str


def sorry(description: str) -> dict[str, Any]:
    """Return the OpenAPI description of an error: a sentence that explains it."""
    schema = {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


TROUBLE: dict[int | str, dict[str, Any]] = {
    401: sorry("Nobody has signed in"),
    403: sorry("Not for this person"),
    422: sorry("Invalid parameter"),
    429: sorry("Rate limit exceeded; Retry-After gives the wait in seconds"),
    503: sorry("The ledger cannot be read, or nothing has been published"),
}
GONE: dict[int | str, dict[str, Any]] = {404: sorry("No such depot, or no longer stored")}
AS_CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "headers": {"ETag": {"schema": {"type": "string"}}}},
    304: {"description": "Not modified since this ETag"},
}


async def check_query(request: Request) -> None:
    """Raise HTTPException for a query parameter that a route of the API does not have; pages ignore
    it."""
    route = request.scope["route"]
    if not (is_api(request.url.path) and route.include_in_schema):
        return
    names = [field.alias for field in route.dependant.query_params]
    name = next((name for name in request.query_params if name not in names), None)
    if name is None:
        return
    if not names:
        raise HTTPException(422, _("found the parameter {name}, wanted none", name=repr(name[:40])))
    near = told(did_you_mean(nearest_word(name, names)))
    values = {"name": repr(name[:40]), "names": ", ".join(names), "near": near}
    raise HTTPException(422, _("found the parameter {name}, wanted one of {names}{near}", **values))


def router(renderer: Renderer) -> APIRouter:
    """Return all routes under /api/v1."""
    routes = APIRouter(prefix=PREFIX, responses=TROUBLE)
    for view in VIEWS:
        endpoint = (_of_publication if view.of_publication else _of_nights)(renderer, view)
        gone_responses = GONE if view.of_publication else {}
        routes.add_api_route(
            f"/{view.name}",
            endpoint,
            response_model=view.out,
            responses=AS_CSV | gone_responses,
            name=view.name,
            description=view.says,
            tags=["forecasts" if view.of_publication else "nights"],
        )

    @routes.get("/depots/{depot_id:path}", response_model=FullDepotOut, responses=AS_CSV | GONE, tags=["forecasts"])
    def depot(
        request: Request, depot_id: str, as_of: AsOf = None, publication: Number = None, format: Format = "json"
    ) -> Response:
        """Forecast of one depot with all its quantiles, in orders, and its recent days; as CSV only
        the days ahead."""

        def make(edition: Edition) -> FullDepotOut:
            return depot_out(edition.head, edition.depot(depot_id), edition.front)

        return renderer.api_answer(request, "depot", format, make, depot_sheet, as_of=as_of, publication=publication)

    @routes.get("/me", tags=["access"])
    def me(request: Request) -> MeOut:
        """The requesting person, their permissions, and the token for writes."""
        who = person(request)
        return MeOut(who.name, who.role, None if who.cities is None else sorted(who.cities), csrf_token(request))

    return routes


def _of_publication(renderer: Renderer, view: View) -> Callable[..., Response]:
    def endpoint(request: Request, as_of: AsOf = None, publication: Number = None, format: Format = "json") -> Response:
        return renderer.api_answer(
            request, view.name, format, view.make, view.sheet, as_of=as_of, publication=publication
        )

    return endpoint


def _of_nights(renderer: Renderer, view: View) -> Callable[..., Response]:
    def endpoint(request: Request, format: Format = "json") -> Response:
        return renderer.api_answer(request, view.name, format, view.make, view.sheet, of_publication=False)

    return endpoint
