"""HTTP routes where planners edit a depot's week, as pages and as JSON: preview of edits, saving,
undo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any
from urllib.parse import urlencode

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from dashboards.ops.access import Person, audit, csrf, links, person, planner, require
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.roles import RoleFirst
from dashboards.ops.http.render import HTML, JSON, RenderPage
from dashboards.ops.routes.admin import LinkRequest, check_link, made_link
from dashboards.ops.routes.api import PREFIX, TROUBLE
from dashboards.ops.routes.errors import Refuse
from dashboards.ops.routes.planners.week_file import Planner as FilePlanner
from dashboards.ops.routes.planners.week_file import file_token
from dashboards.ops.routes.planning import UNANSWERED, Planner, form_context
from dashboards.ops.routes.planning_requests import Body, ShiftEditsIn, described, fields, form_day, mistake
from dashboards.ops.views.api_schema import to_json
from dashboards.ops.views.shifts.edited_week import answer_text, candidate_texts, edit_page, edits_of, fields_of
from dashboards.ops.views.shifts.week import NoPlans
from dashboards.ops.views.shifts.week_upload import changed_shifts
from forecaster.config import Spec
from forecaster.core.language import _
from forecaster.errors import DeskError, MissingExtra, OverrideError
from forecaster.planning.people import shift_edits
from forecaster.planning.people.shift_edits import EditAnswer, ShiftEdit

PAGE = "/shifts"


@dataclass(frozen=True)
class ShiftEditRoutes:
    """The routes of one pipeline."""

    spec: Spec
    context: AccessContext
    page: RenderPage
    refuse: Refuse

    def router(self) -> APIRouter:
        """Return the routes under /shifts, and the same as JSON."""
        routes = APIRouter(route_class=RoleFirst)
        routes.add_api_route(PAGE, self.show, include_in_schema=False)
        forms: dict[str, Callable[..., Any]] = {
            PAGE: self.check,
            f"{PAGE}/edits": self.save,
            f"{PAGE}/undo": self.undo,
            f"{PAGE}/links": self.link,
        }
        forms[f"{PAGE}/file"] = self.read_file
        for path, endpoint in forms.items():
            routes.add_api_route(path, endpoint, methods=["POST"], include_in_schema=False)
        routes.add_api_route(
            f"{PREFIX}/shifts/edits",
            self.edit_shifts,
            methods=["POST"],
            response_model=EditAnswer,
            responses=TROUBLE | UNANSWERED,
            tags=["planning"],
            openapi_extra=described(ShiftEditsIn),
        )
        return routes

    def show(
        self,
        request: Request,
        reader: Annotated[Person, Depends(require("planner"))],
        depot: str,
        first: str = "",
        day: str = "",
        shift: str = "",
    ) -> Response:
        """Show the week with a choice for each person and day; with `day` and `shift` also the
        candidates for that shift."""
        open_day = form_day(day)
        if not (shift and open_day):
            return self._shown(request, depot, form_day(first))
        self.context.store.edition(reader.cities).depot(depot)
        try:
            ranked = candidate_texts(shift_edits.candidates(self.spec, depot, open_day, shift))
        except (OverrideError, DeskError) as error:
            return self._shown(request, depot, form_day(first), fault=_fault(error), status=_status(error))
        return self._shown(request, depot, form_day(first), candidates=ranked, open_shift=(open_day, shift))

    async def check(self, request: Request, by: Planner, content: Body) -> Response:
        """Preview the effect of the form's choices; nothing is saved."""
        request.state.audited = True  # nothing is written
        return await run_in_threadpool(self._answer, request, content, by, save=False)

    async def save(self, request: Request, by: Planner, content: Body) -> Response:
        """Save the form's choices, and redirect to the resulting week."""
        request.state.audited = True  # a repeated write changes nothing and is not audited
        return await run_in_threadpool(self._answer, request, content, by, save=True)

    async def undo(self, request: Request, by: Planner, content: Body) -> Response:
        """Undo the depot's last edit."""
        request.state.audited = True
        return await run_in_threadpool(self._undo, request, content, by)

    async def link(self, request: Request, by: Planner, content: Body) -> Response:
        """Make a link for a person of the depot, and show its address this once."""
        return await run_in_threadpool(self._link, request, content, by)

    async def read_file(self, request: Request, by: FilePlanner) -> Response:
        """Preview the changes of the week's workbook; nothing is saved."""
        request.state.audited = True  # nothing is written
        async with request.form(max_files=1) as sent:
            await csrf.check(request, file_token(request, sent))
            depot, file = str(sent.get("depot", "")), sent.get("file")
            content = await file.read() if isinstance(file, UploadFile) else b""
        return await run_in_threadpool(self._read_file, request, by, depot, content)

    def _read_file(self, request: Request, by: Person, depot: str, content: bytes) -> Response:
        edition = self.context.store.edition(by.cities)
        edition.depot(depot)
        plans = edition.ledger.plans(edition.head.publication_id, depot)
        names = [shift.name for shift in self.spec.staffing.shifts] if self.spec.staffing else []
        try:
            edits = changed_shifts(content, plans[0], names) if plans else []
            fields = fields_of(plans[0], edits) if plans else {}
            if not edits:
                return self._shown(request, depot, None, fault=_("The file changes nothing."))
            answer = answer_text(shift_edits.ask(self.spec, depot, edits))
        except (OverrideError, DeskError) as error:
            return self._shown(request, depot, None, fault=_fault(error), status=_status(error))
        except MissingExtra as error:
            raise HTTPException(501, str(error)) from error
        days = [edit.target_date for edit in edits]
        return self._shown(request, depot, None, fields, answer=answer, chosen=days)

    async def edit_shifts(self, request: Request, by: Planner, content: Body) -> Response:
        """Try edits of a depot's week, or save them: replacements, drivers, probability of a
        shortage, and costs."""
        request.state.audited = True  # a repeated write changes nothing and is not audited
        return await run_in_threadpool(self._edit, request, content, by)

    def _edit(self, request: Request, content: bytes, by: Person) -> Response:
        try:
            form = ShiftEditsIn.model_validate(fields(request, content))
            self.context.store.edition(by.cities).depot(form.depot_id)
            edits = [ShiftEdit(edit.person, edit.target_date, edit.shift) for edit in form.edits]
            if form.save:
                name = planner.name(by, form.by)
                answer = shift_edits.save(self.spec, form.depot_id, edits, by=name, audit=self._auditing(request))
                self.context.store.forget()
            else:
                answer = shift_edits.ask(self.spec, form.depot_id, edits)
        except (OverrideError, DeskError, ValidationError) as error:
            return self.refuse(request, _status(error), _fault(error))
        return Response(to_json(answer), media_type=JSON)

    def _link(self, request: Request, content: bytes, by: Person) -> Response:
        sent = _texts(request, content)
        depot, name = sent.get("depot", ""), planner.name(by, sent.get("by", ""))
        self.context.store.edition(by.cities).depot(depot)
        wish = LinkRequest(view=links.PERSON, depot_id=depot, person=sent.get("person", ""))
        check_link(wish, self.context)
        _new_link, address = made_link(request, self.context, replace(by, name=name), wish)
        return self._shown(request, depot, form_day(sent.get("first", "")), link=address)

    def _answer(self, request: Request, content: bytes, by: Person, *, save: bool) -> Response:
        sent = _texts(request, content)
        depot, first = sent.get("depot", ""), form_day(sent.get("first", ""))
        try:
            edits = self._edits(by, depot, sent)
            if not save:
                answer = answer_text(shift_edits.ask(self.spec, depot, edits)) if edits else None
                return self._shown(request, depot, first, sent, answer=answer)
            if edits:
                name = planner.name(by, sent.get("by", ""))
                shift_edits.save(self.spec, depot, edits, by=name, audit=self._auditing(request))
        except (OverrideError, DeskError, ValidationError) as error:
            return self._shown(request, depot, first, sent, fault=_fault(error), status=_status(error))
        return self._to_week(depot, first)

    def _undo(self, request: Request, content: bytes, by: Person) -> Response:
        sent = _texts(request, content)
        depot, first = sent.get("depot", ""), form_day(sent.get("first", ""))
        self.context.store.edition(by.cities).depot(depot)
        name = planner.name(by, sent.get("by", ""))
        try:
            shift_edits.undo(self.spec, depot, by=name, audit=self._auditing(request))
        except (OverrideError, DeskError) as error:
            return self._shown(request, depot, first, fault=_fault(error), status=_status(error))
        return self._to_week(depot, first)

    def _edits(self, by: Person, depot_id: str, sent: Mapping[str, str]) -> list[ShiftEdit]:
        """Return the edits of a form. Raises OverrideError if a newer publication has replaced the
        form's."""
        edition = self.context.store.edition(by.cities)
        edition.depot(depot_id)
        if sent.get("publication") != str(edition.head.publication_id):
            raise OverrideError(_("another publication is shown meanwhile; look at its crews first"))
        plans = edition.ledger.plans(edition.head.publication_id, depot_id)
        return edits_of(plans[0], edition.front.target_dates, sent) if plans else []

    def _auditing(self, request: Request) -> shift_edits.Audit:
        def auditing(connection: sa.Connection, answer: EditAnswer) -> None:
            audit(request, f"edited the week of {answer.depot_id}: {len(answer.moves)} shifts move", connection)

        return auditing

    def _to_week(self, depot: str, first: date | None) -> Response:
        self.context.store.forget()
        query = urlencode({"depot": depot, **({"first": first} if first else {})})
        return RedirectResponse(f"{self.context.prefix}{PAGE}?{query}", 303)

    def _shown(
        self,
        request: Request,
        depot_id: str,
        first: date | None,
        sent: Mapping[str, str] | None = None,
        *,
        open_shift: tuple[date, str] | None = None,
        chosen: Sequence[date] = (),
        status: int = 200,
        **content: Any,
    ) -> Response:
        edition = self.context.store.edition(person(request).cities)
        try:
            week = edit_page(edition, edition.depot(depot_id), first, sent or {}, open_shift, chosen)
        except NoPlans as error:
            raise HTTPException(404, str(error)) from error
        may_link = self.context.access.sign_in != "none" and self.context.access.secret is not None
        values = {"answer": None, "fault": "", "candidates": (), "link": "", "may_link": may_link, **content}
        values |= {"who": form_context(request), "publication": edition.head.publication_id}
        body = self.page("shifts.html", front=edition.front, week=week, **values)
        return Response(body, status, media_type=HTML, headers={"Cache-Control": "no-store"})


def _texts(request: Request, content: bytes) -> dict[str, str]:
    return {name: str(value) for name, value in fields(request, content).items()}


def _fault(error: OverrideError | DeskError | ValidationError) -> str:
    return _(error.for_readers) if isinstance(error, DeskError) else mistake(error)


def _status(error: Exception) -> int:
    return 409 if isinstance(error, DeskError) else 422
