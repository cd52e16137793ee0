"""Routes of the guide: one page per step, each a plain form, for administrators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any
from urllib.parse import parse_qsl

import numpy as np
from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from dashboards.ops.access import Person, csrf, csrf_token, require
from dashboards.ops.access.context import access_context
from dashboards.ops.access.roles import RoleFirst
from dashboards.ops.formatting import display
from dashboards.ops.formatting.line_charts import LineChart, line_chart
from dashboards.ops.http.render import HTML, RenderPage
from dashboards.ops.routes import runs
from dashboards.start import columns, every_night, nights
from dashboards.start.columns import Choices
from dashboards.start.folder import LARGEST_FILE, ProjectFolder, too_large
from dashboards.start.nights import FirstNight
from forecaster.check import html_report, text_report
from forecaster.check.dry_run import DryRun
from forecaster.core.language import N_, _
from forecaster.errors import SpecError
from forecaster.onboarding import DATA_FILES, draft

UPLOAD = "/start/files"
STEPS = {
    "": N_("File"),
    "columns": N_("Columns"),
    "check": N_("Check"),
    "forecast": N_("Forecast"),
    "nightly": N_("Every night"),
}
DRAWN = 120  # days in the picture
DATABASE = """\
name: my-fleet
timezone: Europe/Berlin
demand:
  source: {kind: sql, url: "${DATABASE_URL}", table: daily_counts}
  columns: {depot_id: depot, date: day, demand: orders}
calendar: {country: DE}
training: {start: prior}
"""
Admin = Annotated[Person, Depends(require("admin"))]


def _sender(request: Request) -> Person:
    """Return the person of an upload; the token is a part of the form itself, checked later."""
    return require("admin").holder(request)


@dataclass(frozen=True)
class GuideSteps:
    """The steps of the guide for a project's folder."""

    folder: ProjectFolder
    page: RenderPage
    night: FirstNight
    clock: Callable[[], datetime]

    def router(self) -> APIRouter:
        """Return the routes under /start."""
        routes = APIRouter(include_in_schema=False, route_class=RoleFirst)
        routes.add_api_route("/start", self.file)
        routes.add_api_route(UPLOAD, self.upload, methods=["POST"])
        routes.add_api_route("/start/columns", self.columns)
        routes.add_api_route("/start/columns", self.decide, methods=["POST"])
        routes.add_api_route("/start/pipeline", self.write_own, methods=["POST"])
        routes.add_api_route("/start/pipeline.yaml", self.download)
        routes.add_api_route("/start/check", self.check)
        routes.add_api_route("/start/check/report", self.report)
        routes.add_api_route("/start/forecast", self.run, methods=["POST"])
        routes.add_api_route("/start/forecast", self.forecast)
        routes.add_api_route("/start/nightly", self.nightly)
        return routes

    def file(self, request: Request, admin: Admin) -> Response:
        """Show the first step: files, or a database."""
        return self._first(request)

    async def upload(self, request: Request, sender: Annotated[Person, Depends(_sender)]) -> Response:
        """Store the files of the form after checking its token; large ones wait on disk until then."""
        self._audited(request)
        try:
            async with request.form() as form:
                await csrf.check(request, str(form.get(csrf.FIELD, "")))
                files = [file for file in form.getlist("file") if isinstance(file, UploadFile) and file.filename]
                names = [(await self.folder.store(str(file.filename), file)).name for file in files]
            if not names:
                raise SpecError(_("found no file, wanted one of yours"))
            return _see("/start/columns", Choices(tuple(names)).query)
        except SpecError as error:
            return self._first(request, str(error), 422)
        except HTTPException as error:
            if error.status_code != 413:
                raise
            return self._first(request, too_large(), 413)

    def columns(self, request: Request, admin: Admin) -> Response:
        """Show the second step: columns as interpreted, and the possible changes."""
        try:
            content = columns.page(self.folder, Choices.of(parse_qsl(request.url.query)), self.clock())
        except SpecError as error:
            return self._first(request, str(error), 422)
        return self._shown(request, "columns", 422 if content.fault else 200, content=content)

    async def decide(self, request: Request, admin: Admin) -> Response:
        """Show the columns again with the changed choices, or write the resulting pipeline file."""
        self._audited(request)
        fields = await _fields(request)
        choices = Choices.of(fields)
        text = await run_in_threadpool(self._following, choices) if ("do", "write") in fields else None
        if text is not None:
            self.folder.write(text, self.clock())
            return _see("/start/check")
        return _see("/start/columns", choices.query)

    def _following(self, choices: Choices) -> str | None:
        """Return the resulting pipeline file; None if a question is open, or for an error that the
        page reports."""
        try:
            understanding, content = columns.understand(self.folder, choices, self.clock())
        except SpecError:
            return None
        return None if understanding.readings.questions else draft.text(content)

    async def write_own(self, request: Request, admin: Admin) -> Response:
        """Write a pipeline file that the user wrote, as for a database."""
        self._audited(request)
        text = dict(await _fields(request)).get("text", "").replace("\r\n", "\n")
        try:
            self.folder.write(text, self.clock())
        except SpecError as error:
            return self._first(request, str(error), 422, text)
        return _see("/start/check")

    def download(self, admin: Admin) -> Response:
        """Download the pipeline file."""
        self.folder.require_spec()
        headers = {"Content-Disposition": 'attachment; filename="pipeline.yaml"'}
        return Response(self.folder.pipeline.read_bytes(), media_type="application/yaml", headers=headers)

    def check(self, request: Request, admin: Admin) -> Response:
        """Show the third step: the dry run, with a picture."""
        spec, now = self.folder.require_spec(), self.clock()
        outcome = nights.checked(spec, now)
        html_report.write_page(outcome, None, now=now)
        return self._shown(
            request,
            "check",
            outcome=outcome,
            verdict=text_report.verdict(outcome),
            lines=[part for part in text_report.render(outcome, tables=False) if isinstance(part, str)],
            picture=_picture(outcome),
            text=self.folder.pipeline.read_text("utf-8"),
        )

    def report(self, admin: Admin) -> Response:
        """Show the report of the last check, with a picture of each kind of finding."""
        file = self.folder.require_spec().paths.check_report
        if not file.is_file():
            raise HTTPException(404, _("there is no report of a check yet"))
        return Response(file.read_bytes(), media_type=HTML, headers=runs.HEADERS)

    async def run(self, request: Request, admin: Admin) -> Response:
        """Start the first run."""
        self._audited(request)
        spec, cutoff = self.folder.require_spec(), dict(await _fields(request)).get("cutoff", "")
        try:
            day = nights.as_of(spec, date.fromisoformat(cutoff), self.clock()) if cutoff else None
        except ValueError:
            raise SpecError(f"cutoff: found {cutoff[:40]!r}, wanted a day such as 2026-11-01") from None
        self.night.start(self.folder.pipeline, spec, day)
        return _see("/start/forecast")

    def forecast(self, request: Request, admin: Admin) -> Response:
        """Show the fourth step: progress of the first run, and its known value."""
        return self._shown(request, "forecast", night=self.night.state(self.folder.require_spec()))

    def nightly(self, request: Request, admin: Admin) -> Response:
        """Show the last step: commands that run it nightly."""
        spec = self.folder.require_spec()
        lines = every_night.commands(self.folder.pipeline, spec)
        source = getattr(spec.demand.source, "path", None)
        return self._shown(request, "nightly", commands=lines, source=source)

    def _first(self, request: Request, fault: str = "", status: int = 200, text: str = DATABASE) -> Response:
        names = [file.name for file in self.folder.files()]
        limits = {"most": LARGEST_FILE, "too_large": too_large(), "kinds": ",".join(sorted(DATA_FILES))}
        return self._shown(request, "", status, files=names, fault=fault, text=text, **limits)

    def _shown(self, request: Request, step: str, status: int = 200, **values: Any) -> Response:
        reached, token = self.folder.pipeline.is_file(), csrf_token(request)
        common = {"step": step, "steps": STEPS, "reached": reached, "folder": self.folder.path, "csrf": token}
        return Response(self.page(f"start/{step or 'file'}.html", **common, **values), status, media_type=HTML)

    def _audited(self, request: Request) -> None:
        """Omit the audit row if nobody signs in, since there may be no ledger yet."""
        request.state.audited = access_context(request).access.sign_in == "none"


async def _fields(request: Request) -> list[tuple[str, str]]:
    return parse_qsl((await request.body()).decode("utf-8", "replace"))


def _see(path: str, query: str = "") -> RedirectResponse:
    return RedirectResponse(path + (f"?{query}" if query else ""), 303)


def _picture(outcome: DryRun) -> tuple[LineChart, date, date] | None:
    """Chart the sum of all depots' counts on recent days; returns it with the first and last of
    these days."""
    if outcome.evidence is None:
        return None
    panel = outcome.evidence.panel
    window = slice(max(panel.history - DRAWN, 0), panel.history)
    days, served = panel.days[window].tolist(), panel.served[:, window]
    has_counts: list[bool] = np.any(~np.isnan(served), axis=0).tolist()
    totals = [
        float(total) if is_known else None
        for total, is_known in zip(np.nansum(served, axis=0).tolist(), has_counts, strict=True)
    ]
    names = list(map(display.short_day, days))
    return line_chart(names, [totals], display.number, width=720), days[0], days[-1]
