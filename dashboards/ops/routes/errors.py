"""Error handlers: a page with a plain sentence; for the API the same sentence as JSON."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from dashboards.ops.access import Person
from dashboards.ops.access.context import access_context
from dashboards.ops.access.links import DeadLink
from dashboards.ops.access.middleware import is_api
from dashboards.ops.http.head import CHANGING
from dashboards.ops.http.render import RenderPage
from dashboards.ops.http.responses import HEADERS
from dashboards.ops.reading.editions import NoSuchDepot, NothingPublished
from dashboards.ops.reading.point_in_time import BadParameter, NotRetained
from forecaster.core.language import N_, _
from forecaster.errors import ForecasterError, LedgerError

HEADINGS = {
    400: N_("Invalid request"),
    401: N_("Nobody has signed in"),
    403: N_("Not allowed"),
    404: N_("No such page"),
    405: N_("Method not allowed"),
    422: N_("Invalid request"),
    429: N_("Too many requests"),
    500: N_("Something went wrong here"),
    503: N_("No forecasts to show"),
}
Refuse = Callable[[Request, int, str], Response]


def refusing(page: RenderPage) -> Refuse:
    """Return a function that makes the answer to any error."""

    def refuse(request: Request, status: int, sentence: str) -> Response:
        headers = {**HEADERS, "Cache-Control": "no-store"} | ({"Retry-After": "60"} if status == 503 else {})
        if is_api(request.url.path):
            return JSONResponse({"detail": sentence}, status, headers)
        heading = _(HEADINGS.get(status, N_("That cannot be done")))
        body = page("trouble.html", title=heading, heading=heading, sentence=whole_sentence(sentence))
        return Response(body, status, headers, "text/html; charset=utf-8")

    return refuse


def handle(app: FastAPI, refuse: Refuse) -> None:
    """Register a handler for each kind of error."""

    @app.exception_handler(LedgerError)
    def no_ledger(request: Request, error: LedgerError) -> Response:
        if not isinstance(error, NothingPublished):
            access_context(request).troubles.warn("%s", error)
        return refuse(request, 503, _told(request, error))

    @app.exception_handler(NoSuchDepot)
    def no_depot(request: Request, error: NoSuchDepot) -> Response:
        return refuse(request, 404, _("there is no depot “{depot}” in the current forecasts", depot=_short(str(error))))

    @app.exception_handler(NotRetained)
    @app.exception_handler(DeadLink)
    def not_there(request: Request, error: LookupError) -> Response:
        return refuse(request, 404, str(error) or _("this link is no longer valid; ask for a new one"))

    @app.exception_handler(BadParameter)
    def bad_ask(request: Request, error: BadParameter) -> Response:
        return refuse(request, 422, str(error))

    @app.exception_handler(RequestValidationError)
    def wrong_parameter(request: Request, error: RequestValidationError) -> Response:
        return refuse(request, 422, "; ".join(_parameter_problem(problem) for problem in error.errors()[:5]))

    @app.exception_handler(HTTPException)
    def no_page(request: Request, error: HTTPException) -> Response:
        sentence, headers = _refusal(request, error)
        answer = refuse(request, error.status_code, sentence)
        answer.headers.update(headers)
        return answer

    @app.exception_handler(ClientDisconnect)
    def gone(request: Request, error: ClientDisconnect) -> Response:  # nobody receives this; it keeps the log clean
        return refuse(request, 400, _("the request body is incomplete"))

    @app.exception_handler(Exception)
    def our_fault(request: Request, error: Exception) -> Response:
        return refuse(
            request,
            500,
            _("the page could not be rendered; the forecasts are unaffected, and the server's log has the details"),
        )


def _refusal(request: Request, error: HTTPException) -> tuple[str, dict[str, str]]:
    """Return the sentence and the headers for an error of the framework."""
    address, headers = _short(access_context(request).prefix + request.url.path), dict(error.headers or {})
    if error.detail == "Not Found":
        return _("there is nothing at {address}", address=address), headers
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
        return _("{address} takes {methods}", address=address, methods=headers["Allow"]), headers
    return _(str(error.detail)), headers


def _methods(request: Request) -> list[str]:
    """Return the methods that an address accepts: those of all its routes, and HEAD if it accepts
    GET."""
    routes = [context.original_route for context in iter_route_contexts(request.app.routes)]
    at = [route for route in routes if route.matches({**request.scope, "method": ""})[0] is not Match.NONE]
    methods = {method for route in at for method in getattr(route, "methods", None) or ()}
    takes_head = "GET" in methods and not request.url.path.startswith(CHANGING)
    return sorted(methods | ({"HEAD"} if takes_head else set()))


def _told(request: Request, error: ForecasterError) -> str:
    """Return the full error for admins and on the health page; for other readers a sentence without
    files, keys and addresses."""
    who = getattr(request.state, "person", None)
    admin = isinstance(who, Person) and who.may("admin")
    return str(error) if admin or request.url.path == "/health" else _(error.for_readers)


def _parameter_problem(error: dict[str, object]) -> str:
    """Describe the invalid value and the expected value of a parameter."""
    place, message = error.get("loc", ()), str(error.get("msg", "")).removeprefix("Input should be ")
    where = ".".join(str(part) for part in place[1:]) if isinstance(place, tuple | list) else ""
    return _(
        "{where}: found {value}, wanted {wanted}",
        where=where or _("the request"),
        value=_short(repr(error.get("input"))),
        wanted=message,
    )


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"


def whole_sentence(text: str) -> str:
    """Return the text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", "؟")) else ".")
