"""HTTP routes of crews that planners accept as published or set by hand: forms that redirect to the
day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from dashboards.ops.access import audit, planner
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.roles import RoleFirst
from dashboards.ops.reading.header import cell_href
from dashboards.ops.routes.errors import Refuse
from dashboards.ops.routes.planning import Planner
from dashboards.ops.routes.planning_requests import Body, CrewForm, CrewWithdrawalForm, fields, mistake
from forecaster.config import Spec
from forecaster.core.language import _
from forecaster.errors import DeskError, OverrideError
from forecaster.ledger.publication import PublishedDepot
from forecaster.planning import accepted_crews, crew_settings
from forecaster.planning.overrides import Cell, check_words


def router(spec: Spec, context: AccessContext, refuse: Refuse) -> APIRouter:
    """Return the routes of a pipeline; `refuse` answers with a plain sentence."""
    routes = APIRouter(route_class=RoleFirst, include_in_schema=False)

    async def answer(request: Request, write: Callable[[], Cell]) -> Response:
        request.state.audited = True  # a repeated write changes nothing and is not audited
        try:
            depot_id, day = await run_in_threadpool(write)
        except (OverrideError, ValidationError) as error:
            return refuse(request, 422, mistake(error))
        except DeskError as error:
            return refuse(request, 409, _(error.for_readers))
        return RedirectResponse(context.prefix + cell_href(depot_id, day), 303)

    @routes.post("/accepted")
    async def accept(request: Request, by: Planner, content: Body) -> Response:
        """Accept a depot-day's published crew, or set another one."""

        def write() -> Cell:
            form = CrewForm.model_validate(fields(request, content))
            name, cell = planner.name(by, form.by) or by.name, (form.depot_id, form.target_date)
            check_words(name, "")
            _check_crew(context.store.edition(by.cities).depot(form.depot_id), form)
            if form.set or form.crews:
                entry = f"set the crew of {form.depot_id} on {form.target_date} to {_in_words(form.crews)}"
                crew_settings.set_crew(spec, cell, form.crews, by=name, audit=partial(audit, request, entry))
                context.store.forget()
                return cell
            pipeline, crew = context.pipeline_shown(), form.drivers
            with context.writing() as connection:
                if accepted_crews.accept(connection, pipeline, cell, drivers=crew, by=name, at=datetime.now(UTC)):
                    audit(request, f"accepted a crew of {crew} for {form.depot_id} on {form.target_date}", connection)
            return cell

        return await answer(request, write)

    @routes.post("/accepted/withdrawal")
    async def withdraw(request: Request, by: Planner, content: Body) -> Response:
        """Withdraw the acceptance of a depot-day's crew."""

        def write() -> Cell:
            form = CrewWithdrawalForm.model_validate(fields(request, content))
            context.store.edition(by.cities).depot(form.depot_id)
            cell = form.depot_id, form.target_date
            entry = f"withdrew the acceptance of {form.depot_id} on {form.target_date}"
            crew_settings.leave_crew(spec, cell, audit=partial(audit, request, entry))
            context.store.forget()
            return cell

        return await answer(request, write)

    return routes


def _in_words(crews: Mapping[str, int]) -> str:
    return ", ".join(f"{shift} {count}".strip() for shift, count in crews.items())


def _check_crew(depot: PublishedDepot, form: CrewForm) -> None:
    """Raise OverrideError unless this crew is published."""
    crew = next((day.drivers for day in depot.days if day.target_date == form.target_date and day.open), None)
    if crew != form.drivers:
        raise OverrideError(
            _(
                "drivers: found {drivers}, wanted the published crew of {depot} on {day}, which is {crew}",
                drivers=form.drivers,
                depot=depot.depot_id,
                day=form.target_date,
                crew="–" if crew is None else crew,
            )
        )
