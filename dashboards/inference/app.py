"""ASGI application of the inference service: the Open Inference Protocol (V2) over HTTP, and
forecasts by depot.

It uses the page's stack: the same access control, limits, bodies, headers and answer metrics.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from dashboards.inference import openapi, refusals, tensors
from dashboards.inference.access import TokenAccess
from dashboards.inference.metrics import InferenceMetrics
from dashboards.inference.nights import Nights
from dashboards.inference.questions import read_question
from dashboards.inference.refusals import Refused
from dashboards.inference.served_models import DATATYPES, ModelStore, ServedModel
from dashboards.inference.tensors import Malformed
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.person import person
from dashboards.ops.http.bodies import CLOSE, BodyLimits, whole_number
from dashboards.ops.http.responses import SecurityHeaders
from forecaster import __version__
from forecaster.errors import InputError

DEADLINE_HEADER = "X-Deadline-Ms"
DEADLINES = {"infer": 1.0, "forecast": 10.0}  # seconds, if a request names none
LONGEST_DEADLINE = 60_000  # milliseconds
LARGE = 1 << 20  # bytes above which a thread reads a body, one at a time, so that other requests proceed
LARGEST_BODY = 64 << 20  # bytes
LARGEST_QUESTION = 2 << 20  # bytes of a question by depot: 20,000 IDs of a hundred characters
FORECAST = "/v1/forecast"
Value = TypeVar("Value")
EXTENSIONS = ["binary_tensor_data"]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class InferenceService:
    """Components of the service: models, publications, permissions, and metrics."""

    name: str  # of the pipeline, which is also the model's
    models: ModelStore
    nights: Nights
    context: AccessContext
    metrics: InferenceMetrics


def create_app(service: InferenceService) -> Starlette:
    """Return the application; its models are loaded at startup, before the first request is read."""
    models, metrics, troubles = service.models, service.metrics, service.context.troubles
    metrics.watches(models.queued_rows, models.queue_limit, lambda: models.ready, lambda: models.current)
    routes = InferenceRoutes(service)
    app = Starlette(exception_handlers={404: _not_there, 405: _not_there}, lifespan=partial(_lifespan, service))

    def route(path: str, endpoint: Callable[[Request], Awaitable[Response]], method: str = "GET") -> None:
        async def answering(request: Request) -> Response:
            try:
                return await endpoint(request)
            except Exception as error:
                return refusals.answer(request, error, troubles)

        app.add_route(path, answering, [method])

    route("/v2", routes.server)
    route("/v2/", routes.server)
    route("/v2/health/live", routes.live)
    route("/v2/health/ready", routes.ready)
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        route(model, routes.metadata)
        route(f"{model}/ready", routes.model_ready)
        route(f"{model}/infer", routes.infer, "POST")
    route(FORECAST, routes.forecast, "POST")
    route("/v1/openapi.json", routes.openapi)
    route("/metrics", routes.metrics)
    app.add_middleware(BodyLimits, largest=_largest_body, advice="; ask in several requests")
    app.add_middleware(TokenAccess, context=service.context, refuse=refusals.refuse)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(metrics.middleware, metrics=metrics, pipeline=service.name, routes_of=app)
    return app


@asynccontextmanager
async def _lifespan(service: InferenceService, _: Starlette) -> AsyncIterator[None]:
    async with service.models.serving(), service.nights.reading_ahead():
        yield
    service.nights.close()
    service.context.store.close()


def _not_there(request: Request, error: Exception) -> Response:
    allowed = dict(getattr(error, "headers", None) or {})
    sentence = f"this address takes {allowed['Allow']}" if allowed else "there is nothing at this address"
    response = refusals.refuse(request, 405 if allowed else 404, sentence)
    response.headers.update(allowed)
    return response


def _largest_body(path: str) -> int:
    return LARGEST_QUESTION if path == FORECAST else LARGEST_BODY


class InferenceRoutes:
    """The endpoints of one pipeline."""

    def __init__(self, service: InferenceService) -> None:
        self._service, self._models = service, service.models
        self._large = asyncio.Semaphore(1)

    # --- the Open Inference Protocol ----------------------------------------------------------------------------------

    async def server(self, _: Request) -> Response:
        """Return server metadata with the supported protocol extensions."""
        return _json({"name": "forecaster", "version": __version__, "extensions": EXTENSIONS})

    async def live(self, _: Request) -> Response:
        """Liveness: the process is up."""
        return _json({"live": True})

    async def ready(self, _: Request) -> Response:
        """Readiness: the server accepts requests."""
        ready = self._models.ready
        return _json({"ready": ready}, 200 if ready else 503)

    async def metadata(self, request: Request) -> Response:
        """Return the tensors of a model."""
        model = self._model(request)
        levels = ",".join(f"{level:g}" for level in model.bundle.levels)
        outputs = [{"name": tensors.OUTPUT, "datatype": "FP32", "shape": [-1, *model.output_shape()]}]
        content = {
            "name": self._service.name,
            "versions": self._models.versions(),
            "platform": "onnx_onnxruntime",
            "inputs": tensors.columns(DATATYPES, model.shapes()),
            "outputs": outputs,
            "parameters": {"version": model.version, "levels": levels, "lookback": model.bundle.lookback},
        }
        return _json(content)

    async def model_ready(self, request: Request) -> Response:
        """Readiness of a model."""
        model = self._model(request)
        ready = self._models.ready
        return _json({"name": self._service.name, "version": model.version, "ready": ready}, 200 if ready else 503)

    async def infer(self, request: Request) -> Response:
        """Return the quantiles of raw inputs, (rows, days, levels)."""
        deadline = _deadline(request, "infer")
        self._model(request)
        header_length = request.headers.get(tensors.HEADER_LENGTH)
        body = await _body(request)
        # the champion may have changed while the body arrived, or this model been unloaded
        model = self._model(request)
        infer_request, arrays = await self._read(partial(_read_tensors, model, body, header_length), body)
        quantiles = await model.quantiles(arrays, infer_request.rows, deadline=deadline)
        content, headers = tensors.write(quantiles, infer_request, self._service.name, model.version)
        return Response(content, headers=headers)

    async def _read(self, read: Callable[[], Value], body: bytes) -> Value:
        """Parse a body, a large one in a thread."""
        if len(body) <= LARGE:
            return read()
        async with self._large:
            outcome = await run_in_threadpool(_outcome, read)
        if isinstance(outcome, Malformed | InputError):
            raise outcome
        return outcome

    def _model(self, request: Request) -> ServedModel:
        """Return the model of the address. Raises Refused if there is none."""
        if request.path_params["name"] != self._service.name:
            raise Refused(404, f"there is no model of this name, wanted {self._service.name}")
        version = request.path_params.get("version")
        model = self._models.champion if version is None else self._models.in_memory(version)
        if model is None and version is not None:
            raise Refused(404, "this version is not served; the model's metadata name those that are")
        if model is None:
            raise Refused(503, "no model is served yet", "model", {"Retry-After": "5"})
        return model

    # --- forecasts by depot, and metrics ------------------------------------------------------------------------------

    async def forecast(self, request: Request) -> Response:
        """Return quantiles, crews and tiers of depots by their IDs, as published or under a
        what-if."""
        deadline = _deadline(request, "forecast")
        body = await _body(request)
        question = await self._read(partial(read_question, body), body)
        answer, request.state.cold = await self._service.nights.answer(
            question, person(request).cities, deadline=deadline
        )
        content = await run_in_threadpool(to_json, answer)
        return Response(content, headers={"Content-Type": tensors.JSON})

    async def openapi(self, _: Request) -> Response:
        """Return the OpenAPI document of forecasts by depot."""
        return _json(openapi.document())

    async def metrics(self, _: Request) -> Response:
        """Return the metrics in the exposition format of Prometheus."""
        return Response(self._service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


async def _body(request: Request) -> bytes:
    """Return the body. Raises HTTPException."""
    if (encoding := request.headers.get("content-encoding", "identity")).lower() != "identity":
        sentence = f"Content-Encoding: found {encoding[:40]!r}, wanted a body that is not compressed"
        raise Refused(415, sentence, headers=CLOSE)  # a small compressed body may expand to any size
    return await request.body()


def _outcome(read: Callable[[], Value]) -> Value | Malformed | InputError:
    """Return the result of reading, or the error: if it were raised from a thread, its frames would
    hold all data read until the next garbage collection."""
    try:
        return read()
    except (Malformed, InputError) as error:
        return type(error)(str(error))


def _read_tensors(
    model: ServedModel, body: bytes, header_length: str | None
) -> tuple[tensors.InferRequest, Mapping[str, Any]]:
    infer_request = tensors.read(body, header_length, DATATYPES)
    return infer_request, model.checked(infer_request.arrays, infer_request.rows)


def _deadline(request: Request, route: str) -> float:
    """Return the time by which the answer must have begun, as in `time.monotonic`. Raises Refused."""
    text = request.headers.get(DEADLINE_HEADER)
    if text is None:
        return time.monotonic() + DEADLINES[route]
    if (milliseconds := whole_number(text, 1, LONGEST_DEADLINE)) is None:
        raise Refused(400, f"{DEADLINE_HEADER}: found {text[:40]!r}, wanted milliseconds from 1 to {LONGEST_DEADLINE}")
    return time.monotonic() + milliseconds / 1000


def _json(content: object, status: int = 200) -> Response:
    return Response(to_json(content), status, headers={"Content-Type": tensors.JSON})
