"""HTTP routes of the week board, of a depot's day, and of the files of plans."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from dashboards.ops.formatting.csv import MEDIA_TYPE
from dashboards.ops.http.render import HTML, Renderer, RenderPage
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.point_in_time import NotRetained
from dashboards.ops.routes.depots import depot_content
from dashboards.ops.views.board.board import Counts, board, counts, selected
from dashboards.ops.views.board.board_file import board_csv, board_workbook
from dashboards.ops.views.board.query import ACTUAL, SORTS, BoardQuery
from dashboards.ops.views.board.rail import RailDecision, decisions
from dashboards.ops.views.network import network
from forecaster.core.language import _
from forecaster.errors import MissingExtra
from forecaster.planning import accepted_crews
from forecaster.plugins import optional, plugin

if TYPE_CHECKING:
    from forecaster.config import Spec

GET = ["GET", "HEAD"]
FILES = {
    "csv": (MEDIA_TYPE, board_csv),
    "xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", board_workbook),
}


def router(renderer: Renderer, page: RenderPage, *, plans: bool, spec: Spec | None) -> APIRouter:
    """Return the routes: the board at /, the files of plans at /roster, and, on a page without
    planners (not `plans`), a depot's day."""
    routes = APIRouter(include_in_schema=False)

    @routes.api_route("/", methods=GET)
    def week_board(request: Request) -> Response:
        query = BoardQuery.of(request.query_params)
        if "format" in request.query_params:
            return _board_file(request, renderer, query)

        def make(edition: Edition) -> bytes:
            return board_content(edition, query, renderer, page, plans=plans, spec=spec)

        accepted_at = renderer.store.accepted_at()  # acceptances are not part of an edition
        return renderer.of_publication(request, HTML, make, (query, accepted_at), as_of=query.as_of or None)

    if not plans:

        @routes.api_route("/day/{day}/{depot_id:path}", methods=GET)
        def one_day(request: Request, day: date, depot_id: str) -> Response:
            def make(edition: Edition) -> bytes:
                return depot_content(edition, depot_id, page, day=day, as_of=as_of)

            as_of = request.query_params.get("as_of")
            return renderer.of_publication(request, HTML, make, (renderer.store.quarter_hour(), as_of), as_of=as_of)

    @routes.api_route("/roster", methods=GET)
    def roster_files(request: Request) -> Response:
        if (weeks := optional("people.routes")) is None:
            raise HTTPException(404)
        file: Response = weeks.roster_file(renderer, request)
        return file

    return routes


def _board_file(request: Request, renderer: Renderer, query: BoardQuery) -> Response:
    """Return the content of the board as a file: ?format=csv or xlsx."""
    form = request.query_params["format"]
    if form not in FILES:
        raise HTTPException(422, _("format: found {form}, wanted {forms}", form=form[:40], forms=", ".join(FILES)))
    media_type, write = FILES[form]

    def make(edition: Edition) -> bytes:
        if not selected(edition, query)[0]:
            raise HTTPException(404, _("No depot matches."))
        return write(edition, query)

    try:
        answer = renderer.of_publication(request, media_type, make, query, as_of=query.as_of or None)
    except MissingExtra as error:
        raise HTTPException(501, str(error)) from error
    answer.headers["Content-Disposition"] = f'attachment; filename="week.{form}"'
    return answer


def board_content(
    edition: Edition, query: BoardQuery, renderer: Renderer, page: RenderPage, *, plans: bool, spec: Spec | None
) -> bytes:
    """Render the page of the board."""
    front, dates = edition.front, _publication_days(edition)
    publication_day = edition.head.published_at.astimezone(ZoneInfo(edition.head.timezone)).date().isoformat()
    earlier = max((day for day in dates if day < publication_day), default="")
    later = min((day for day in dates if day > publication_day), default="")
    view = board(edition, query, _actuals(edition, query, renderer))
    address = view.query.to()
    return page(
        "board.html",
        front=front,
        board=view,
        network=network(edition.head, edition.outline(), front, edition.totals(), edition.cities is not None),
        sorts=SORTS,
        plans=plans,
        decisions=() if edition.past else _decisions(edition, spec),
        schedule=_schedule(edition, spec),
        earlier=earlier,
        later=later,
        files=_plan_files(view.shifts, query),
        file=f"/?{address[2:]}&format=" if len(address) > 1 else "/?format=",
        here=f"{address[2:]}&" if len(address) > 1 else "",
        notice=edition.notice.sentence if edition.notice else None,
    )


def _decisions(edition: Edition, spec: Spec | None) -> tuple[RailDecision, ...]:
    """Return today's open decisions: crews that nobody has accepted."""
    head, front = edition.head, edition.front
    with edition.ledger.transaction() as connection:
        accepted = accepted_crews.read_accepted(connection, head.pipeline, front.today)
    return decisions(edition.outline(), front, head.levels, spec.staffing if spec else None, accepted)


def _schedule(edition: Edition, spec: Spec | None) -> tuple[str, ...]:
    """Return the state of each week, if schedules are published."""
    if edition.past or spec is None or spec.staffing is None or spec.staffing.notice_days is None:
        return ()
    lines: tuple[str, ...] = plugin("notice.routes").schedule_lines(edition, spec)
    return lines


def _publication_days(edition: Edition) -> list[str]:
    """Return the local days with a publication, newest first."""
    zone = ZoneInfo(edition.head.timezone)
    heads = edition.ledger.publications(edition.head.pipeline)
    return [head.published_at.astimezone(zone).date().isoformat() for head in heads]


def _actuals(edition: Edition, query: BoardQuery, renderer: Renderer) -> Counts:
    """Return the actuals of the days that a past publication forecast, from the publication after
    its last day."""
    if not edition.past or query.beside != ACTUAL:
        return {}
    ended = edition.front.target_dates[-1] + timedelta(days=1)
    try:
        since = renderer.store.edition(edition.cities, as_of=ended.isoformat())
    except NotRetained:
        return {}
    return counts(since.outline())


def _plan_files(shifts: bool, query: BoardQuery) -> list[tuple[str, str]]:
    """Return addresses and names of the files with the people's plans."""
    if not shifts or (weeks := optional("people.routes")) is None:
        return []
    files: list[tuple[str, str]] = weeks.files_of_all(query.city)
    return files
