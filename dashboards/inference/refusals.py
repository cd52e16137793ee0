"""Error answers: a status, a sentence without paths and keys, and when to ask again."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from dashboards.inference.tensors import JSON, Malformed
from dashboards.ops.access.rare_warnings import RareWarnings
from dashboards.ops.reading.editions import NoSuchDepot, NothingPublished
from forecaster.errors import ForecasterError, InputError, OverrideError
from forecaster.serving.batching import NotComputed

OUR_FAULT = "internal error; the server's log has the details"
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "30"}}


class Refused(HTTPException):
    """A rejected request; `reason` is for the metrics if the status does not determine it."""

    def __init__(
        self, status: int, sentence: str, reason: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, sentence, headers)
        self.reason = reason


def refuse(request: Request, status: int, sentence: str) -> Response:
    """Return the sentence as the protocol's JSON error object."""
    headers = {"Cache-Control": "no-store", **HEADERS.get(status, {})}
    return Response(to_json({"error": sentence}), status, headers, JSON)


def answer(request: Request, error: Exception, log: RareWarnings) -> Response:
    """Return the response to an error. Its reason goes into the request's state, its details into
    the log."""
    refused = _of(error, log)
    if refused.reason is not None:
        request.state.reason = refused.reason
    response = refuse(request, refused.status_code, refused.detail)
    response.headers.update(refused.headers or {})
    return response


def _of(error: Exception, log: RareWarnings) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, HTTPException):  # from reading a body
        return Refused(error.status_code, error.detail, "full" if error.status_code == 503 else None, error.headers)
    if isinstance(error, ClientDisconnect):
        return Refused(400, "the request body is incomplete")
    if isinstance(error, NotComputed):  # a full queue is empty a moment later
        return Refused(503, str(error), error.reason, {"Retry-After": "1"})
    if isinstance(error, Malformed | InputError | OverrideError):
        return Refused(400, str(error))
    if isinstance(error, ValidationError):
        return Refused(400, _first_problem(error))
    if isinstance(error, NoSuchDepot):
        return Refused(404, f"there is no depot {str(error)[:80]!r} in the current forecasts")
    return _trouble(error, log)


def _trouble(error: Exception, log: RareWarnings) -> Refused:
    if not isinstance(error, NothingPublished):
        log.warn_of(error)
    return Refused(503, error.for_readers, "model") if isinstance(error, ForecasterError) else Refused(500, OUR_FAULT)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    where = ".".join(map(str, problem["loc"])) or "the request"
    expected = str(problem["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    return f"{where[:80]}: found {repr(problem['input'])[:80]}, wanted {expected}"
