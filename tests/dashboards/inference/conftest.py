"""A fleet of four depots, published with a simple model, and its inference service."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from dashboards.inference.app import InferenceService, create_app
from dashboards.inference.server import create_service
from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.ledger.store import Ledger
from forecaster.planning import saved_inputs
from forecaster.publishing.predict import predict
from forecaster.serving import bundle, keys
from forecaster.serving.batching import BatchLimits
from forecaster.serving.encryption import Cipher
from tests import fleets, graphs, shared
from tests.fleets import AS_OF, LEVELS

STAFFING = "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22, vans: {total: 30}}\n"
LOOKBACK = 21
INFER = "/v2/models/small/infer"


def write_bundle(spec: Spec, factor: float, cipher: Cipher | None = None) -> Path:
    """Write a signed bundle whose median is `factor` times the mean of ten days (`graphs.plain`),
    encrypted if a cipher is given."""
    panel = panels.build(read_as_of(spec, as_of=AS_OF), spec)
    about = {
        "calendar": list(panel.calendar_names),
        "depots": list("ABCD"),
        "encoding": panel.encoding.to_json(),
        "horizon": panel.horizon,
        "levels": list(LEVELS),
        "lookback": LOOKBACK,
    }
    graph = graphs.plain(factor, LOOKBACK, panel.horizon)
    return bundle.write(spec.paths.bundles, graph, {"none": np.zeros(1)}, about, keys.signer(spec.paths.folder), cipher)


def promote(spec: Spec, folder: Path) -> None:
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.promote(spec.name, run_id="first", bundle_digest=folder.name, by="test", reason="tried")


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the pipeline file of a fleet with a publication."""
    return _published_in(tmp_path_factory.mktemp("inference"))


def _published_in(folder: Path) -> Path:
    shared.copy("inference", _publish, folder)
    return folder / "pipeline.yaml"


def _publish(folder: Path) -> None:
    file = folder / "pipeline.yaml"
    file.write_text(fleets.PIPELINE + STAFFING, "utf-8")
    spec = load(file)
    fleets.fill(spec, fleets.counts("ABCD"), fleets.CITIES)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
    promote(spec, write_bundle(spec, 1.0))
    predict(spec, as_of=AS_OF, bundle=None, run_id=None, note=None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a copy that a test may change."""
    return _published_in(tmp_path / "fleet")


@dataclass(frozen=True)
class Served:
    """The service of a fleet, and an in-process client of it."""

    service: InferenceService
    client: httpx.AsyncClient


@asynccontextmanager
async def serving(
    spec: Spec, limits: BatchLimits | None = None, *, address: str = "127.0.0.1"
) -> AsyncIterator[Served]:
    """Run a service; `address` is the origin of requests."""
    service = create_service(spec, limits or BatchLimits())
    app = create_app(service)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Served(service, client)


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(body())


def window(spec: Spec, *rows: int) -> dict[str, Any]:
    """Return the raw inputs that the run saved for these depots."""
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
    assert head is not None
    return saved_inputs.read(spec.paths.saved_inputs, head.desk).panel.window(LOOKBACK, np.array(rows))


def _tensor(name: str, array: Any, **more: Any) -> dict[str, Any]:
    datatype = "INT32" if name == "statics" else "FP32"
    return {"name": name, "shape": list(array.shape), "datatype": datatype, **more}


def as_json(arrays: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the body of an inference request; unknown values are null."""
    numbers = {name: [None if value != value else value for value in x.ravel().tolist()] for name, x in arrays.items()}
    return {"inputs": [_tensor(name, x, data=numbers[name]) for name, x in arrays.items()], **more}


def as_binary(arrays: dict[str, Any], **more: Any) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of a request with raw tensors, whose answer is raw as well."""
    inputs = [_tensor(name, x, parameters={"binary_data_size": x.nbytes}) for name, x in arrays.items()]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}, **more}).encode()
    raw = [np.ascontiguousarray(x).tobytes() for x in arrays.values()]
    return b"".join([head, *raw]), {"Inference-Header-Content-Length": str(len(head))}


def read_binary(answer: httpx.Response) -> Any:
    size = int(answer.headers["Inference-Header-Content-Length"])
    [output] = json.loads(answer.content[:size])["outputs"]
    return np.frombuffer(answer.content, "<f4", offset=size).reshape(output["shape"])


def python_of(variable: str) -> Path:
    """Return the Python of a separate environment with conflicting versions; skip the test without
    one."""
    if variable not in os.environ:
        pytest.skip(f"{variable} names no Python that has it")
    return Path(os.environ[variable])
