"""The service conforms to the Open Inference Protocol for any request, and never fails internally."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dashboards.inference.app import create_app
from dashboards.inference.server import DrainingServer, create_service
from dashboards.ops.http.listening import config
from forecaster.config import load
from forecaster.serving import bundle
from forecaster.serving.batching import BatchLimits
from forecaster.serving.predict import Predictor
from tests.dashboards.inference.conftest import as_json, python_of, window

TRITONCLIENT = """
import json, sys
import numpy, tritonclient.http as http
client = http.InferenceServerClient(sys.argv[1])
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("small")
kinds = {tensor["name"]: tensor["datatype"] for tensor in client.get_model_metadata("small")["inputs"]}
inputs = []
for name, array in numpy.load(sys.argv[2]).items():
    inputs.append(http.InferInput(name, list(array.shape), kinds[name]))
    inputs[-1].set_data_from_numpy(array)
wanted = [None, *([http.InferRequestedOutput("quantiles", binary_data=raw)] for raw in (True, False))]
answers = [client.infer("small", inputs, outputs=outputs).as_numpy("quantiles") for outputs in wanted]
answers.append(client.async_infer("small", inputs).get_result().as_numpy("quantiles"))
print(json.dumps([answer.tolist() for answer in answers]))
"""
PROTOCOL = Path(__file__).with_name("open_inference.yaml")
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = 8


@pytest.fixture(scope="module")
def address(published: Path) -> Iterator[str]:
    """Run the service of a fleet in a thread of this process; yields its address."""
    service = create_service(load(published), BatchLimits())
    server = DrainingServer(config(create_app(service)), service.models)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_a_triton_client_gets_the_numbers_of_the_bundle(address: str, published: Path, tmp_path: Path) -> None:
    """Needs `uv venv /tmp/triton && uv pip install --python /tmp/triton/bin/python
    "tritonclient[http]"`, with its gevent."""
    python = python_of("TRITONCLIENT_PYTHON")
    spec = load(published)
    arrays = window(spec, 0, 1, 2)
    [folder] = spec.paths.bundles.iterdir()
    np.savez(tmp_path / "inputs.npz", **arrays)
    command = [python, "-c", TRITONCLIENT, address.removeprefix("http://"), tmp_path / "inputs.npz"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 0, process.stderr
    expected = Predictor(bundle.load(folder, spec.paths.folder)).of_checked(arrays)
    for answer in json.loads(process.stdout):
        np.testing.assert_array_equal(np.array(answer, np.float32), expected)


def test_any_request_is_answered_as_the_protocol_defines(address: str, published: Path) -> None:
    protocol = schemathesis.openapi.from_dict(yaml.safe_load(PROTOCOL.read_text("utf-8")))
    count = 0
    for result in protocol.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=12 if operation.method == "post" else 3,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def hold(case: Any) -> None:
            case.call_and_validate(base_url=address, checks=CHECKS)

        hold()
        count += 1
    assert count == OPERATIONS
    case = protocol["/v2/models/{name}/infer"]["POST"].Case(
        path_parameters={"name": "small"}, body=as_json(window(load(published), 0)), media_type="application/json"
    )
    assert case.call_and_validate(base_url=address, checks=CHECKS).status_code == 200
