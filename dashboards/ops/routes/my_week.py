"""HTTP routes of a person's own week, which their link opens: the shifts, their answers, and their
calendar."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool

from dashboards.ops.access import Person, audit, csrf_token, links, require
from dashboards.ops.access.context import AccessContext
from dashboards.ops.http.render import HTML, RenderPage
from dashboards.ops.reading.editions import Edition
from dashboards.ops.routes.errors import Refuse
from dashboards.ops.routes.planning_requests import Body, Day, fields, mistake
from dashboards.ops.views.shifts.my_week import my_file, my_week
from dashboards.ops.views.shifts.week import NoPlans
from forecaster.config import Spec
from forecaster.core.language import _
from forecaster.errors import DeskError, OverrideError
from forecaster.planning import refresh
from forecaster.planning.people import person_days, shift_edits
from forecaster.planning.people.person_days import PersonDay
from forecaster.planning.people.shift_edits import EditAnswer
from forecaster.staffing.people.roster_files import MEDIA_TYPES, WeekFile

Reader = Annotated[Person, Depends(require("viewer"))]


class AnswerForm(BaseModel):
    """A person's answer for a day. `shift` is the shift that they saw, empty on a free day; `take`
    is a colleague's offered shift."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    day: Day
    answer: Literal["confirmed", "declined", "withdrawn", "offered", "wished", "unwished", "taken"] = "taken"
    shift: str = ""
    take: str = ""


@dataclass(frozen=True)
class MyWeekRoutes:
    """The routes of a pipeline that plans people."""

    spec: Spec
    context: AccessContext
    page: RenderPage
    refuse: Refuse

    def router(self) -> APIRouter:
        """Return the routes under /my-week."""
        routes = APIRouter(include_in_schema=False)
        routes.add_api_route(links.MY_WEEK, self.show)
        routes.add_api_route(links.MY_CALENDAR, self.calendar)
        routes.add_api_route(links.MY_WEEK, self.answer, methods=["POST"])
        return routes

    def show(self, request: Request) -> Response:
        """Show the week of the person whose link the browser holds."""
        edition, file = self._mine(request)
        who = {"plan": file.weeks[0].plan, "csrf": csrf_token(request)}
        return Response(
            self.page("my_week.html", front=edition.front, days=my_week(edition, file), **who), media_type=HTML
        )

    def calendar(self, request: Request) -> Response:
        """Return this person's calendar, without an ETag, since an ETag would let readers share a
        cached copy."""
        headers = {"Content-Disposition": 'attachment; filename="my-week.ics"'}
        return Response(self._mine(request)[1].write("ics"), media_type=MEDIA_TYPES["ics"], headers=headers)

    async def answer(self, request: Request, reader: Reader, content: Body) -> Response:
        """Write an answer, and redirect to the week."""
        request.state.audited = True  # a repeated answer changes nothing and is not audited
        try:
            await run_in_threadpool(self._save, request, content)
        except (OverrideError, ValidationError) as error:
            return self.refuse(request, 422, mistake(error))
        except DeskError as error:
            return self.refuse(request, 409, _(error.for_readers))
        return RedirectResponse(self.context.prefix + links.MY_WEEK, 303)

    def _mine(self, request: Request) -> tuple[Edition, WeekFile]:
        """Return the plan of the link's person. Raises DeadLink."""
        edition = self.context.store.edition()
        try:
            return edition, my_file(edition, *links.of_person(request, self.context))
        except NoPlans as error:
            raise links.DeadLink(str(error)) from error

    def _take(self, request: Request, depot_id: str, form: AnswerForm, person: str) -> None:
        """Give the person a shift that a colleague offers."""

        def auditing(connection: sa.Connection, answer: EditAnswer) -> None:
            audit(request, f"took over {form.take} of {form.day} at {depot_id}", connection)

        shift_edits.take(self.spec, depot_id, form.day, form.take, person=person, audit=auditing)
        self.context.store.forget()

    def _save(self, request: Request, content: bytes) -> None:
        """Write the answer, and have the plan refreshed."""
        form = AnswerForm.model_validate(fields(request, content))
        edition, file = self._mine(request)
        day = next((day for day in my_week(edition, file) if day.date == form.day), None)
        if day is None:
            raise OverrideError(_("day: found {day}, wanted a day of your week that is not over", day=form.day))
        depot_id, person = file.weeks[0].plan.depot_id, file.weeks[0].plan.positions[0].name
        if form.answer == "taken":
            self._take(request, depot_id, form, person)
            return
        at, pipeline, days = datetime.now(UTC), edition.head.pipeline, person_days
        with self.context.writing() as connection:
            if form.answer == "withdrawn" or form.answer == "unwished":
                kinds = days.ANSWERS if form.answer == "withdrawn" else days.WISHED
                changed = days.withdraw(connection, pipeline, (depot_id, form.day), person, at, kinds) > 0
            elif form.answer == "wished":
                row = PersonDay(depot_id, form.day, person, "", "wished", person, at)
                changed = days.write(connection, pipeline, [row]) > 0
            else:
                row = PersonDay(depot_id, form.day, person, form.shift, form.answer, person, at)
                changed = days.answer(connection, pipeline, row)
            if changed and form.shift != day.shift:
                raise OverrideError(_("your shift on {day} has changed; load your week again", day=day.day))
            if changed:
                refresh.refresh_within(connection, pipeline, self.spec.paths)
                # without the name, since the audit is kept forever
                shift_text = "a free day" if form.answer in ("wished", "unwished") else form.shift or "a free day"
                audit(request, f"{form.answer} {shift_text} of {form.day} at {depot_id}", connection)
