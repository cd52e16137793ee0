"""Server of the inference service: listens on one address, and finishes pending requests at
SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from dashboards.inference.app import InferenceService, create_app
from dashboards.inference.metrics import InferenceMetrics
from dashboards.inference.nights import Nights
from dashboards.inference.served_models import ModelStore
from dashboards.ops.access.context import AccessContext, signing_keys
from dashboards.ops.access.links import INFER
from dashboards.ops.http.listening import address_of, config, listen_for_prometheus, open_listener, run
from dashboards.ops.reading.store import PublicationStore
from forecaster.core.parallel import available_cores
from forecaster.errors import NoLedger
from forecaster.serving.batching import BatchLimits

if TYPE_CHECKING:
    from forecaster.config import Spec

DRAIN_SECONDS = 10.0  # from SIGTERM to the end, at most
NOTICE_SECONDS = 3.0  # part of them, for load balancers to notice that this server is not ready


class DrainingServer(uvicorn.Server):
    """Server that drains at SIGTERM: it reports not ready, keeps answering for a moment, then
    accepts nothing new and ends when all is answered. A second signal, or Ctrl-C, ends it at once.

    From SIGTERM on, each answer closes its connection, so that clients with persistent connections
    move to another server.
    """

    def __init__(self, config: uvicorn.Config, models: ModelStore) -> None:
        super().__init__(config)
        config.timeout_graceful_shutdown = int(DRAIN_SECONDS - NOTICE_SECONDS)
        self._models = models

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig != signal.SIGTERM or self._models.draining:
            super().handle_exit(sig, frame)
            return
        self._models.draining = True
        # A signal arrives between two bytecodes of the loop, which must be woken.
        asyncio.get_running_loop().call_soon_threadsafe(self._drain, frame)

    def _drain(self, frame: FrameType | None) -> None:
        for headers in (
            self.server_state.default_headers,
            self.config.encoded_headers,
        ):  # of this second, and of later ones
            headers.append((b"connection", b"close"))
        asyncio.get_running_loop().call_later(NOTICE_SECONDS, super().handle_exit, signal.SIGTERM, frame)


def serve(
    spec: Spec,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    metrics: str | None = None,
    limits: BatchLimits | None = None,
) -> None:
    """Serve the champion of a pipeline until interrupted; port 0 takes a free one.

    `metrics` is HOST:PORT of a listener for Prometheus only; /metrics answers every authorized
    client. Raises SpecError if the address is unavailable, or if others could reach it but no
    sign-in is declared.
    """
    with open_listener(spec.page.access, host, port) as listener:
        service = create_service(spec, limits or BatchLimits(workers=available_cores()))
        server = DrainingServer(config(create_app(service)), service.models)
        if metrics is not None:
            listen_for_prometheus(service.metrics.collectors, metrics)
        run(server, listener, f"{spec.name}: {address_of(listener, host)}/v2/models/{spec.name}")


def create_service(spec: Spec, limits: BatchLimits) -> InferenceService:
    """Return the service of a pipeline. Raises SpecError if a declared secret is missing."""

    def now() -> datetime:
        return datetime.now(UTC)

    metrics = InferenceMetrics(spec.name)
    store = PublicationStore(spec.ledger_url, spec.name, now, "", spec=spec)
    access = spec.page.access
    context = AccessContext(
        access, spec.ledger_url, spec.name, store, now, {INFER: (INFER,)}, keys=signing_keys(access)
    )

    def champion() -> str | None:
        try:
            promotion = store.reader().champion(spec.name)
        except NoLedger:
            return None  # the first run creates the ledger
        return None if promotion is None else promotion.bundle_digest

    def folder_of(name: str) -> Path:
        return spec.paths.bundle(name)

    models = ModelStore(champion, folder_of, spec.paths.folder, limits, metrics, context.troubles)
    nights = Nights(store, models, spec.paths.folder, spec.name, context.troubles)
    return InferenceService(spec.name, models, nights, context, metrics)
