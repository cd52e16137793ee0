"""HTTP routes of published schedules: their page, the form that publishes a week, and the same as
JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool

from dashboards.ops.access import Person, audit, person, planner
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.roles import RoleFirst
from dashboards.ops.http.render import HTML, RenderPage
from dashboards.ops.routes.api import PREFIX, TROUBLE
from dashboards.ops.routes.errors import Refuse
from dashboards.ops.routes.planning import Planner, form_context
from dashboards.ops.routes.planning_requests import Body, Day, fields, mistake
from dashboards.ops.views.planning.schedules import ScheduleOut, schedule_lines, schedule_out, schedule_page
from forecaster.config import Spec
from forecaster.core.language import _
from forecaster.errors import OverrideError
from forecaster.ledger import records
from forecaster.operations import schedule_webhook
from forecaster.planning import schedules
from forecaster.planning.overrides import check_words

__all__ = ["router", "schedule_lines"]


class WeekForm(BaseModel):
    """The form that publishes a week; `publication` is the one that the planner saw."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    week: Day
    publication: int
    by: str = ""


def router(spec: Spec, context: AccessContext, page: RenderPage, refuse: Refuse) -> APIRouter:
    """Return the routes of a pipeline that declares a notice period."""
    routes = APIRouter(route_class=RoleFirst)

    @routes.get("/schedule", include_in_schema=False)
    def show(request: Request) -> Response:
        """Show the states of the weeks, and the changes since they were published."""
        edition = context.store.edition(person(request).cities)
        view, who = schedule_page(edition, spec), form_context(request)
        number = edition.head.publication_id
        body = page("schedule.html", front=edition.front, schedule=view, who=who, publication=number)
        return Response(body, media_type=HTML)

    @routes.post("/schedule", include_in_schema=False)
    async def publish(request: Request, by: Planner, content: Body) -> Response:
        """Publish a week for the depots that the planner sees."""
        request.state.audited = True  # a repeated write changes nothing and is not audited
        try:
            await run_in_threadpool(_publish, request, by, content)
        except (OverrideError, ValidationError) as error:
            return refuse(request, 422, mistake(error))
        return RedirectResponse(context.prefix + "/schedule", 303)

    def _publish(request: Request, by: Person, content: bytes) -> None:
        form = WeekForm.model_validate(fields(request, content))
        name = planner.name(by, form.by) or by.name
        check_words(name, "")
        edition = context.store.edition(by.cities)
        assert spec.staffing is not None
        days = form.week, form.week + timedelta(days=6)
        depots, at = edition.depots(), datetime.now(UTC)
        with context.writing() as connection:
            pipeline = edition.head.pipeline
            if edition.head.publication_id != form.publication or records.head(connection, pipeline) != edition.head:
                raise OverrideError(_("another publication is shown meanwhile; look at its crews first"))
            weeks = sorted({day - timedelta(day.weekday()) for day in edition.front.target_dates})
            if form.week not in weeks:
                raise OverrideError(
                    _("found {day}, wanted one of {days}", day=form.week, days=", ".join(map(str, weeks)))
                )
            if new := schedules.publish_days(connection, pipeline, depots, days, spec.staffing, by=name, at=at):
                audit(request, f"published the week of {form.week}: {new} depot-days", connection)
        context.store.forget()
        schedule_webhook.deliver_soon(spec)

    @routes.get(f"{PREFIX}/schedule", responses=TROUBLE, tags=["planning"])
    def schedule(request: Request) -> ScheduleOut:
        """States of the weeks ahead, and each publication and change of a depot's day with its
        premium."""
        return schedule_out(context.store.edition(person(request).cities))

    return routes
