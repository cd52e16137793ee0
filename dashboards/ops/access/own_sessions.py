"""Routes where people see their sessions and sign out everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from dashboards.ops.access.audit import audit
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.csrf import csrf_token
from dashboards.ops.access.person import Person
from dashboards.ops.access.roles import RoleFirst, require
from dashboards.ops.formatting import display
from forecaster.errors import LedgerError

ADDRESS = "/sessions"
UTC = ZoneInfo("UTC")  # of pipelines with different time zones
# data that a browser deletes on sign-out, including pages kept for offline use
EMPTIED = {"Clear-Site-Data": '"cache", "storage"'}
Viewer = Annotated[Person, Depends(require("viewer"))]


def router(context: AccessContext, page: Callable[..., bytes]) -> APIRouter:
    """Return the routes that show a person's own sessions and end all of them; `page` renders a
    template."""
    routes = APIRouter(include_in_schema=False, route_class=RoleFirst)

    @routes.get(ADDRESS)
    def show(request: Request, viewer: Viewer) -> Response:
        rows = context.sessions.of_person(viewer.name, context.clock())
        content = {"sessions": rows, "who": viewer.name, "this": context.sessions.id_of(request.session)}
        body = page("sessions.html", **content, csrf=csrf_token(request), instant=lambda at: display.instant(at, UTC))
        return Response(body, media_type="text/html; charset=utf-8", headers={"Cache-Control": "no-store"})

    @routes.post(ADDRESS)
    def end(request: Request, viewer: Viewer) -> Response:
        context.sessions.end_all(viewer.name)
        request.session.clear()
        try:
            audit(request, "signed out everywhere")
        except LedgerError as error:  # the first of several pipelines' ledgers may be unavailable
            request.state.audited = True
            context.troubles.warn("%s has signed out everywhere, which the audit does not have: %s", viewer.name, error)
        return RedirectResponse("/sign-out", 303, EMPTIED)

    return routes
