"""HTTP routes of the settings, for admins: the pipeline file with its check, its changes and its
plan; a run, test notifications, links, sessions and the audit.

State is stored only in the pipeline file and in the ledger. Each form works without a script.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from dashboards.ops.access import Person, audit, csrf_token, links, require
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.roles import CHECK, RoleFirst
from dashboards.ops.formatting import display
from dashboards.ops.formatting.retelling import told
from dashboards.ops.http.render import HTML, RenderPage
from dashboards.ops.routes.admin import LinkRequest, check_link, made_link, revoked_link
from dashboards.ops.routes.planning_requests import mistake
from dashboards.ops.views.schedule import scheduled_runs
from forecaster.config import Spec, load
from forecaster.core import artifact
from forecaster.core.language import _
from forecaster.core.terminal import count
from forecaster.errors import DEGRADED, PUBLISHED, LedgerError, SpecError
from forecaster.ledger import access as ledger_access
from forecaster.ledger import lease
from forecaster.operations import commands
from forecaster.operations.commands import NightProcess

SETTINGS = "/settings"
PLAN_SECONDS, TEST_SECONDS = 180.0, 90.0  # for which the commands may run
ENTRIES = 50  # of the audit
LOG_LINES = 8  # of a run that ended without forecasts


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a form, with CRLF converted to LF."""
    pairs = parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


Admin = Annotated[Person, Depends(require("admin"))]
Form = Annotated[dict[str, str], Depends(_fields)]


@dataclass(frozen=True)
class FileOnDisk:
    """The pipeline file as stored on disk, and operations on it."""

    path: Path
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace").replace("\r\n", "\n")

    @property
    def digest(self) -> str:
        return _digest(self.content)

    @property
    def writable(self) -> bool:
        return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)

    def bytes_of(self, text: str) -> bytes:
        """Encode a text with the file's line ends."""
        return (text.replace("\n", "\r\n") if b"\r\n" in self.content else text).encode()

    def replace(self, content: bytes) -> None:
        """Write the file atomically. Raises HTTPException 409 if it cannot be written."""
        try:
            mode = self.path.stat().st_mode & 0o7777
            artifact.write(self.path, content, durable=True)
            self.path.chmod(mode)
        except OSError as error:
            sentence = _("{file} cannot be written: {why}", file=self.path, why=error.strerror or "")
            raise HTTPException(409, sentence) from error

    def mistakes(self, text: str) -> list[tuple[str, str, str]]:
        """Return line number, line and message of each error, as the commands report them."""
        try:
            load(self.path, text)
        except SpecError as error:
            lines = ["", *text.split("\n"), ""]  # an error may be at the end of the file
            place = rf"(?:{re.escape(str(self.path))}(?::(\d+))?: )?"
            matches = re.findall(rf"^{place}(.+)$", str(error), re.MULTILINE)
            return [(number, lines[int(number or 0)].strip(), message) for number, message in matches]
        return []

    def changes(self, text: str) -> list[str]:
        """Return the unified diff from the file to a text."""
        names = (self.path.name, f"{self.path.name} (new)")
        return list(difflib.unified_diff(self.text.split("\n"), text.split("\n"), *names, lineterm=""))

    def plan(self, text: str) -> str:
        """Return the output of `forecaster plan` for a text, which for that is stored temporarily
        next to the file."""
        try:
            with NamedTemporaryFile(dir=self.path.parent, prefix=f".{self.path.name}-", suffix=".yaml") as draft_file:
                draft_file.write(text.encode())
                draft_file.flush()
                name = Path(draft_file.name).name
                printed = commands.output("plan", name, folder=self.path.parent, seconds=PLAN_SECONDS)[1]
        except OSError as error:
            return _("no plan: {folder} cannot be written ({why})", folder=self.path.parent, why=error.strerror or "")
        return printed.replace(name, self.path.name)


def router(spec: Spec, context: AccessContext, page: RenderPage) -> APIRouter:
    """Return the routes of a pipeline that was loaded from a file."""
    assert spec.file is not None
    settings = SettingsRoutes(spec, spec.file, context, page)
    routes = APIRouter(include_in_schema=False, route_class=RoleFirst)
    routes.add_api_route(SETTINGS, settings.show)
    posts: Mapping[str, Callable[..., Response]] = {
        CHECK: settings.check,
        f"{SETTINGS}/changes": settings.changes,
        SETTINGS: settings.apply,
        f"{SETTINGS}/run": settings.run,
        f"{SETTINGS}/notification": settings.notify,
        f"{SETTINGS}/links": settings.make_link,
        f"{SETTINGS}/revoked": settings.revoke,
        f"{SETTINGS}/signed-out": settings.end_session,
        f"{SETTINGS}/all-signed-out": settings.end_sessions,
    }
    for path, endpoint in posts.items():
        routes.add_api_route(path, endpoint, methods=["POST"])
    return routes


@dataclass(frozen=True)
class SettingsRoutes:
    """The endpoints of one pipeline's settings; `spec` is the pipeline that this process serves."""

    spec: Spec
    path: Path
    context: AccessContext
    page: RenderPage
    night: NightProcess = field(default_factory=NightProcess)

    def show(self, request: Request, admin: Admin) -> Response:
        return self._shown(request)

    # --- the pipeline file --------------------------------------------------------------------------------------------

    def check(self, request: Request, admin: Admin, form: Form) -> Response:
        """Check the text of the form, without storing it."""
        return self._shown(request, **self._checked(form))

    def changes(self, request: Request, admin: Admin, form: Form) -> Response:
        """Show the diff to the file on disk, and the plan of the new text."""
        request.state.audited = True  # nothing was changed
        answer = self._checked(form)
        if answer["mistakes"]:
            return self._shown(request, 422, **answer)
        file, text = self._file(), answer["text"]
        changes, conflict = file.changes(text), form.get("digest") != file.digest
        content = {"text": text, "changes": changes, "plan": file.plan(text) if changes else ""}
        return self._shown(request, conflict=conflict, reviewed=_digest(text.encode()), **content)

    def apply(self, request: Request, admin: Admin, form: Form) -> Response:
        """Write the file, unless it has changed meanwhile or the text's changes were not reviewed."""
        answer = self._checked(form)
        if answer["mistakes"]:
            return self._shown(request, 422, **answer)
        text = answer["text"]
        with self.context.writing() as connection:  # serializes concurrent writes: the second waits here
            file = self._file()
            conflict, unseen = form.get("digest") != file.digest, form.get("reviewed") != _digest(text.encode())
            if not conflict and not unseen:
                after = _digest(content := file.bytes_of(text))
                action = f"wrote {file.path.name}: SHA-256 {file.digest[:16]} before, {after[:16]} after"
                audit(request, action, connection)
                file.replace(content)
        if conflict or unseen:
            return self._shown(request, 409, text=text, conflict=conflict, unseen=unseen)
        return self._to("file")

    # --- runs and notifications ---------------------------------------------------------------------------------------

    def run(self, request: Request, admin: Admin) -> Response:
        """Start a run, unless one is in progress."""
        log = self._current().paths.guide_log
        if self._run_at_work() or not self.night.begin(self.path, log, outlives=True):
            raise HTTPException(409, _("a run is active; wait until it ends"))
        audit(request, "started a night")
        return self._to("schedule")

    def notify(self, request: Request, admin: Admin, form: Form) -> Response:
        """Send a test sentence to a notification block, and show the result."""
        block = form.get("block", "")
        if block not in _blocks(self._current()):
            raise HTTPException(404, _("the pipeline file names no block “{block}”", block=block[:80]))
        arguments = ("notify", self.path.name, "--block", block)
        code, sentence = commands.output(*arguments, folder=self.path.parent, seconds=TEST_SECONDS)
        audit(request, f"tested {block}: {'sent' if code == 0 else 'not sent'}")
        return self._shown(request, sent=(block, code == 0, sentence))

    # --- who gets in --------------------------------------------------------------------------------------------------

    def make_link(self, request: Request, admin: Admin, form: Form) -> Response:
        """Make a link, and show its address this once."""
        values = {name: form[name] for name in ("view", "city", "days") if form.get(name)}
        try:
            wish = LinkRequest.model_validate(values)
        except ValidationError as error:
            raise HTTPException(422, mistake(error)) from error
        check_link(wish, self.context)
        return self._shown(request, made=made_link(request, self.context, admin, wish)[1])

    def revoke(self, request: Request, admin: Admin, form: Form) -> Response:
        """Revoke a link permanently."""
        revoked_link(request, self.context, admin, form.get("link", ""))
        return self._to("links")

    def end_session(self, request: Request, admin: Admin, form: Form) -> Response:
        """End a session, for every copy of its cookie."""
        with self.context.writing() as connection:
            name = ledger_access.close_session(connection, self.context.pipeline_shown(), form.get("session", ""))
            if name is None:
                raise HTTPException(404, _("there is no such session: it has ended"))
            audit(request, f"signed out {name}", connection)
        return self._to("links")

    def end_sessions(self, request: Request, admin: Admin) -> Response:
        """Sign everybody out."""
        with self.context.writing() as connection:
            number = ledger_access.end_sessions(connection, self.context.pipeline_shown())
            audit(request, f"signed everybody out: {count(number, 'session')}", connection)
        return self._to("links")

    # --- what they share ----------------------------------------------------------------------------------------------

    def _checked(self, form: Form) -> dict[str, Any]:
        """Return the form's text with its errors; the digest stays that of the file on which the
        form is based."""
        text = form.get("text", "")
        return {"text": text, "mistakes": self._file().mistakes(text), "checked": True, "digest": form.get("digest")}

    def _file(self) -> FileOnDisk:
        path = self.path.resolve()  # a symbolic link may have a new target
        return FileOnDisk(path, path.read_bytes())

    def _to(self, part: str) -> Response:
        return RedirectResponse(f"{self.context.prefix}{SETTINGS}#{part}", 303)

    def _current(self) -> Spec:
        """Return the pipeline as the next run reads it; if the file is invalid, the one that is
        served."""
        try:
            return load(self.path)
        except SpecError:
            return self.spec

    def _run_at_work(self) -> str:
        """Sentence about the run in progress; empty if there is none."""
        try:
            with self.context.reading() as connection:
                run_lease = lease.read_lease(connection, self.spec.name, to_read=True)
                if run_lease and lease.lives(connection, self.spec.name, run_lease.run_id, self.context.clock()):
                    return told(run_lease.sentence(self.spec.zone))
        except LedgerError:  # there is no ledger yet
            pass
        return _("a run is starting") if self.night.runs else ""

    def _failure(self) -> str:
        """Return the last lines of the run started here, if it ended without forecasts."""
        if self.night.exit_code in (None, PUBLISHED, DEGRADED):
            return ""
        lines = self._current().paths.guide_log.read_text("utf-8", "replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])

    def _ledger(self) -> dict[str, Any]:
        """Return links, sessions and the audit, if there is a ledger."""
        pipeline, rows = self.context.pipeline_shown(), dict[str, Any](links=(), sessions=(), entries=())
        try:
            with self.context.reading() as connection:
                rows["links"] = ledger_access.links(connection, pipeline)
                rows["entries"] = ledger_access.entries(connection, pipeline, ENTRIES)
                if self.context.access.sign_in == "oidc" and not self.context.prefix:
                    rows["sessions"] = ledger_access.sessions(connection, pipeline, self.context.clock())
        except LedgerError:
            pass
        return rows

    def _shown(self, request: Request, status: int = 200, **answer: Any) -> Response:
        """Render the page, with the answer to a form."""
        file, spec, now = self._file(), self._current(), self.context.clock()
        defaults = {
            "file": file,
            "text": file.text,
            "digest": file.digest,
            "mistakes": file.mistakes(file.text),
            **dict.fromkeys(("checked", "conflict", "unseen"), False),
            **dict.fromkeys(("changes", "plan", "reviewed", "sent", "made"), None),
        }
        body = self.page(
            "settings.html",
            **(defaults | answer),
            **self._ledger(),
            csrf=csrf_token(request),
            spec=spec,
            outdated=spec.digest != self.spec.digest,
            runs=scheduled_runs(spec, now),
            at_work=self._run_at_work(),
            failure=self._failure(),
            blocks=_blocks(spec),
            access=self.context.access,
            views=(*self.context.views, links.FEED, links.INFER),
            instant=lambda at: display.instant(at, spec.zone),
            now=now,
        )
        return Response(body, status, media_type=HTML, headers={"Cache-Control": "no-store"})


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _blocks(spec: Spec) -> dict[str, str]:
    """Return the notification blocks, each with the events that it reports."""
    blocks = dict.fromkeys(spec.notify.blocks, display.listed(spec.notify.of))
    for receiver in spec.notify.digest:
        digest = _("morning digest of {place}", place=receiver.depot or receiver.city or _("all depots"))
        blocks[receiver.to] = display.listed([*filter(None, [blocks.get(receiver.to)]), digest])
    return blocks
