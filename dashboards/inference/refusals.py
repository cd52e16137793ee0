"""What a request gets that is not computed: a status, a sentence without paths and keys, and when to ask again."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from dashboards.inference.tensors import JSON, Malformed
from dashboards.ops.access.authentication import AccessRefused
from dashboards.ops.access.rare_warnings import RareWarnings
from dashboards.ops.reading.editions import NoSuchDepot, NothingPublished
from forecaster.errors import ForecasterError, InputError, OverrideError
from forecaster.serving.batching import NotComputed

RETRY = {"Retry-After": "1"}  # seconds: a queue that is full is empty a moment later
OUR_FAULT = "something went wrong here; the server's log says more"


class Refused(Exception):
    """A request that is turned away, with a sentence for whoever sent it."""

    def __init__(
        self, status: int, sentence: str, *, reason: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.headers = status, reason, headers or {}


def answer(refused: Refused) -> Response:
    """The sentence as the protocol's JSON error object."""
    headers = {"Cache-Control": "no-store", **refused.headers}
    return Response(to_json({"error": str(refused)}), refused.status, headers, JSON)


def of(error: Exception, log: RareWarnings) -> Refused:
    """Response to an error; the log gets the details."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, NotComputed):
        return Refused(503, str(error), reason=error.reason, headers=RETRY)
    if isinstance(error, Malformed | InputError | OverrideError):
        return Refused(400, str(error))
    if isinstance(error, ValidationError):
        return Refused(400, _first_problem(error))
    if isinstance(error, AccessRefused):
        return Refused(error.status, str(error))
    if isinstance(error, HTTPException):
        return Refused(error.status_code, str(error.detail), headers=error.headers)
    if isinstance(error, NoSuchDepot):
        return Refused(404, f"there is no depot {str(error)[:80]!r} in the current forecasts")
    if isinstance(error, ClientDisconnect):
        return Refused(400, "the body broke off")
    return _trouble(error, log)


def _trouble(error: Exception, log: RareWarnings) -> Refused:
    if isinstance(error, ForecasterError):
        if not isinstance(error, NothingPublished):
            log.warn("%s", error)
        return Refused(503, error.for_readers, reason="model", headers={"Retry-After": "30"})
    log.warn("%s: %s", type(error).__name__, error)
    return Refused(500, OUR_FAULT)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    where = ".".join(map(str, problem["loc"])) or "the request"
    wanted = str(problem["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    return f"{where[:80]}: found {repr(problem['input'])[:80]}, wanted {wanted}"
