"""HTTP routes of the edited workbook of the week board: a page with its changes, and the resulting
overrides and crews."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from dashboards.ops.access import Person, audit, csrf, csrf_token, person, planner, require
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
from forecaster.core.terminal import count
from forecaster.errors import DeskError, MissingExtra, OverrideError
from forecaster.ledger.publication import PublishedDay
from forecaster.planning import crew_settings, service
from forecaster.planning.override_groups import OverrideCells

PAGE, SAVED = "/week-file", "/week-file/overrides"
# fields of the form: depot, day and orders or drivers, separated by tabs
FIELD, CREW_FIELD = "cell", "crew"


@dataclass(frozen=True)
class ChangedRow:
    """A changed cell in words; `now` differs from `before` if something newer is published."""

    depot_id: str
    href: str
    day: str
    before: str
    now: str
    number: str
    moved: str
    name: str  # of the form's field; `field` is its value
    field: str


def _planner(request: Request) -> Person:
    """Return the planner who sent a form; its CSRF token is one of its fields, and checked later."""
    return require("planner").holder(request)


Planner = Annotated[Person, Depends(_planner)]


@dataclass(frozen=True)
class WeekFileRoutes:
    """The routes of one pipeline."""

    spec: Spec
    context: AccessContext
    page: RenderPage

    def router(self) -> APIRouter:
        """Return the routes under /week-file."""
        routes = APIRouter(include_in_schema=False, route_class=RoleFirst)
        routes.add_api_route(PAGE, self.form)
        routes.add_api_route(PAGE, self.read, methods=["POST"])
        routes.add_api_route(SAVED, self.save, methods=["POST"])
        return routes

    def form(self, request: Request, sender: Annotated[Person, Depends(require("planner"))]) -> Response:
        """Show the form that uploads the workbook."""
        return self._shown(request)

    async def read(self, request: Request, sender: Planner) -> Response:
        """Preview the changes of the workbook; nothing is saved."""
        request.state.audited = True  # nothing is written
        async with self._fields(request) as fields:
            await csrf.check(request, file_token(request, fields))
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
        """Save an override or a crew for each changed cell, all or none, and redirect to the
        overridden days."""
        async with self._fields(request) as fields:
            await csrf.check(request, file_token(request, fields))
            values = FormData(fields)
        try:
            await run_in_threadpool(self._save, request, by, values)
        except OverrideError as error:
            return self._shown(request, fault=str(error), status=422)
        except DeskError as error:
            return self._shown(request, fault=_(error.for_readers), status=409)
        query = BoardQuery(only="overridden" if values.getlist(FIELD) else "")
        return RedirectResponse(self.context.prefix + query.to(), 303)

    def _fields(self, request: Request) -> Any:
        return request.form(max_files=1, max_fields=10_000)

    def _changes(self, content: bytes, sender: Person) -> list[ChangedRow]:
        """Return the changed cells compared with the current publication. Also raises OverrideError
        for a cell that is not published."""
        by_shift = self.spec.staffing is not None and bool(self.spec.staffing.shifts)
        changed, edition = changed_cells(content, by_shift=by_shift), self.context.store.edition(sender.cities)
        now = {
            (harmless(depot.depot_id), day.target_date): (depot.depot_id, day)
            for depot in edition.outline()
            for day in depot.days
            if day.open
        }
        for cell in changed:
            if (cell.depot_id, cell.target_date) not in now:
                values = {"depot": cell.depot_id, "day": cell.target_date}
                raise OverrideError(_("{depot} on {day}: wanted an open day that is published", **values))
        return [_row(cell, *now[cell.depot_id, cell.target_date], edition.head.levels) for cell in changed]

    def _save(self, request: Request, by: Person, fields: FormData) -> None:
        def text(name: str) -> str:
            return str(fields.get(name, "")).strip()

        cells = tuple(_cell(str(field)) for field in fields.getlist(FIELD))
        crews = {(depot_id, day): {"": drivers} for depot_id, day, drivers in map(_cell, fields.getlist(CREW_FIELD))}
        name = planner.name(by, text("by")) or by.name
        if by.cities is not None:
            depots = {*(cell[0] for cell in cells), *(depot_id for depot_id, _day in crews)}
            planner.see_all(self.context.store.edition(by.cities), depots)
        entry = f"set {count(len(crews), 'crew')} by a workbook"
        if crews and not cells and any(map(text, ("reason", "note", "until"))):
            raise OverrideError(_("found a reason, a note or a last day, wanted them only with changed orders"))

        def write_crews(connection: sa.Connection) -> None:
            if crews and crew_settings.write_crews(connection, self.spec, crews, name, datetime.now(UTC)):
                audit(request, entry, connection)

        if cells or not crews:
            group = OverrideCells(cells, text("reason"), name, text("note"), form_day(text("until")))
            service.save_group(self.spec, group, audit=auditing(request), beside=write_crews)
        else:
            request.state.audited = True  # a repeated write changes nothing and is not audited
            crew_settings.set_crews(self.spec, crews, by=name, audit=partial(audit, request, entry))
        self.context.store.forget()

    def _shown(self, request: Request, status: int = 200, **content: Any) -> Response:
        who = person(request)
        reasons = [(reason, reason_text(reason)) for reason in self.spec.overrides.reasons]
        values = {"rows": None, "fault": "", **content, "reasons": reasons}
        values |= {"who": {"signed_in": who.via != "local", "csrf": csrf_token(request)}}
        body = self.page("week_file.html", front=self.context.store.edition(who.cities).front, **values)
        return Response(body, status, media_type=HTML, headers={"Cache-Control": "no-store"})


def file_token(request: Request, fields: FormData) -> str:
    """Return the CSRF token of a form with a file."""
    return request.headers.get(csrf.HEADER) or str(fields.get(csrf.FIELD, ""))


def _row(cell: ChangedCell, depot_id: str, day: PublishedDay, levels: tuple[float, ...]) -> ChangedRow:
    on, new_number, field = cell.target_date, cell.number, f"{depot_id}\t{cell.target_date}\t{cell.number}"
    place = depot_id, cell_href(depot_id, on), display.day(on)
    if cell.of_crew:
        drivers = day.drivers or 0
        numbers = display.drivers(round(cell.before)), display.drivers(drivers), display.drivers(new_number)
        return ChangedRow(*place, *numbers, display.signed(new_number - drivers), CREW_FIELD, field)
    now = median_and_range(day, levels).median
    numbers = display.orders(cell.before), display.orders(now), display.orders(new_number)
    return ChangedRow(*place, *numbers, display.signed(new_number - now), FIELD, field)


def _cell(field: Any) -> tuple[str, date, int]:
    """Parse a field of the form that saves. Raises OverrideError."""
    depot_id, day, number = ["", "", "", *str(field).rsplit("\t", 2)][-3:]
    try:
        return depot_id, date.fromisoformat(day), int(number)
    except ValueError:
        raise OverrideError(
            _("cell: found {field}, wanted a depot, a day and a number", field=repr(str(field)[:80]))
        ) from None
