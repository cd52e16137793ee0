"""HTTP routes of the week board's workbook, sent back: a page with what it changes, and the overrides that follow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from dashboards.ops.access import Person, csrf, csrf_token, person, planner, require
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.roles import RoleFirst
from dashboards.ops.formatting import display
from dashboards.ops.formatting.csv import harmless
from dashboards.ops.http.render import HTML, RenderPage
from dashboards.ops.reading.header import cell_href, median_and_range
from dashboards.ops.routes.planning import auditing
from dashboards.ops.routes.planning_requests import form_day
from dashboards.ops.views.board.board_upload import ChangedCell, changed_cells
from dashboards.ops.views.board.query import BoardQuery
from dashboards.ops.views.planning.override_text import reason_text
from forecaster.config import Spec
from forecaster.core.language import _
from forecaster.errors import MissingExtra, OverrideError
from forecaster.planning import service
from forecaster.planning.override_groups import OverrideCells

PAGE, SAVED = "/week-file", "/week-file/overrides"
FIELD = "cell"  # of the form: depot, day and orders, between tabs


@dataclass(frozen=True)
class ChangedRow:
    """A changed cell in words; `now` differs from `before` where something newer is published."""

    depot_id: str
    href: str
    day: str
    before: str
    now: str
    orders: str
    moved: str
    field: str


def _planner(request: Request) -> Person:
    """Planner of a form whose token is one of its own fields."""
    return require("planner").holder(request)


Planner = Annotated[Person, Depends(_planner)]


@dataclass(frozen=True)
class WeekFileRoutes:
    """The routes of one pipeline."""

    spec: Spec
    context: AccessContext
    page: RenderPage

    def router(self) -> APIRouter:
        """The routes under /week-file."""
        routes = APIRouter(include_in_schema=False, route_class=RoleFirst)
        routes.add_api_route(PAGE, self.form)
        routes.add_api_route(PAGE, self.read, methods=["POST"])
        routes.add_api_route(SAVED, self.save, methods=["POST"])
        return routes

    def form(self, request: Request, sender: Annotated[Person, Depends(require("planner"))]) -> Response:
        """The form that takes the workbook."""
        return self._shown(request)

    async def read(self, request: Request, sender: Planner) -> Response:
        """What the workbook changes; nothing is saved."""
        request.state.audited = True  # nothing is written
        async with self._fields(request) as fields:
            await csrf.check(request, _token(request, fields))
            file = fields.get("file")
            content = await file.read() if isinstance(file, UploadFile) else b""
        try:
            rows = await run_in_threadpool(self._changes, content, sender)
        except OverrideError as error:
            return self._shown(request, fault=str(error), status=422)
        except MissingExtra as error:
            raise HTTPException(501, str(error)) from error
        return self._shown(request, rows=rows)

    async def save(self, request: Request, by: Planner) -> Response:
        """Save an override for each changed cell, all of them or none, and lead to the overridden days."""
        async with self._fields(request) as fields:
            await csrf.check(request, _token(request, fields))
            values = FormData(fields)
        try:
            await run_in_threadpool(self._save, request, by, values)
        except OverrideError as error:
            return self._shown(request, fault=str(error), status=422)
        return RedirectResponse(self.context.prefix + BoardQuery(only="overridden").to(), 303)

    def _fields(self, request: Request) -> Any:
        return request.form(max_files=1, max_fields=10_000)

    def _changes(self, content: bytes, sender: Person) -> list[ChangedRow]:
        """The changed cells beside what is published now. Raises OverrideError for one that is not, too."""
        changed, edition = changed_cells(content), self.context.store.edition(sender.cities)
        levels = edition.head.levels
        now = {
            (harmless(depot.depot_id), day.target_date): (depot.depot_id, median_and_range(day, levels).median)
            for depot in edition.outline()
            for day in depot.days
            if day.open
        }
        for cell in changed:
            if (cell.depot_id, cell.target_date) not in now:
                values = {"depot": cell.depot_id, "day": cell.target_date}
                raise OverrideError(_("{depot} on {day}: wanted an open day that is published", **values))
        return [_row(cell, *now[cell.depot_id, cell.target_date]) for cell in changed]

    def _save(self, request: Request, by: Person, fields: FormData) -> None:
        def text(name: str) -> str:
            return str(fields.get(name, "")).strip()

        cells = tuple(_cell(str(field)) for field in fields.getlist(FIELD))
        name = planner.name(by, text("by"))
        group = OverrideCells(cells, text("reason"), name, text("note"), form_day(text("until")))
        if by.cities is not None:
            planner.see_all(self.context.store.edition(by.cities), group.depot_ids)
        service.save_group(self.spec, group, audit=auditing(request))

    def _shown(self, request: Request, status: int = 200, **content: Any) -> Response:
        who = person(request)
        reasons = [(reason, reason_text(reason)) for reason in self.spec.overrides.reasons]
        values = {"rows": None, "fault": "", **content, "reasons": reasons}
        values |= {"who": {"signed_in": who.via != "local", "csrf": csrf_token(request)}}
        body = self.page("week_file.html", front=self.context.store.edition(who.cities).front, **values)
        return Response(body, status, media_type=HTML, headers={"Cache-Control": "no-store"})


def _token(request: Request, fields: FormData) -> str:
    return request.headers.get(csrf.HEADER) or str(fields.get(csrf.FIELD, ""))


def _row(cell: ChangedCell, depot_id: str, now: float) -> ChangedRow:
    day, orders = cell.target_date, display.orders(cell.orders)
    numbers = display.orders(cell.before), display.orders(now), orders, display.signed(cell.orders - now)
    return ChangedRow(
        depot_id, cell_href(depot_id, day), display.day(day), *numbers, f"{depot_id}\t{day}\t{cell.orders}"
    )


def _cell(field: str) -> tuple[str, date, int]:
    """A field of the form that saves. Raises OverrideError."""
    depot_id, day, orders = ["", "", "", *field.rsplit("\t", 2)][-3:]
    try:
        return depot_id, date.fromisoformat(day), int(orders)
    except ValueError:
        raise OverrideError(
            _("cell: found {field}, wanted a depot, a day and orders", field=repr(field[:80]))
        ) from None
