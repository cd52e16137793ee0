"""HTTP route of a run's report: the page that its run wrote, with its own styles and pictures, in a
sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from dashboards.ops.access import person
from dashboards.ops.http.render import HTML
from dashboards.ops.reading.editions import HIDDEN_MESSAGE
from dashboards.ops.reading.run_links import report_file
from forecaster.core.language import _

if TYPE_CHECKING:
    from forecaster.config import Spec

# The report is self-contained; it may run no script, send no form and open nothing of this page.
POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "private, no-cache"}


def router(spec: Spec | None) -> APIRouter:
    """Return the route; without a pipeline file there are no reports."""
    routes = APIRouter(include_in_schema=False)

    @routes.api_route("/runs/{run_id}/report", methods=["GET", "HEAD"])
    def report(request: Request, run_id: str) -> Response:
        if person(request).cities is not None:  # the report concerns all depots together
            raise HTTPException(403, _(HIDDEN_MESSAGE))
        file = report_file(spec, run_id) if spec else None
        if file is None:
            raise HTTPException(404, _("This run has no report here: it trained no model, or the report was removed."))
        return Response(file.read_bytes(), media_type=HTML, headers=HEADERS)

    return routes
