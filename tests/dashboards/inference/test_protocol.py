"""Whatever is sent, the service answers as the Open Inference Protocol says, and never with a fault of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from forecaster.serving.batching import BatchLimits
from tests.dashboards.inference.conftest import as_json, window

PROTOCOL = Path(__file__).with_name("open_inference.yaml")
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = 8


@pytest.fixture(scope="module")
def address(published: Path) -> Iterator[str]:
    """Where the service of a fleet answers, in a thread of this process."""
    service = create_service(load(published), BatchLimits())
    server = DrainingServer(config(create_app(service)), service.models)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_whatever_is_asked_is_answered_as_the_protocol_says(address: str, published: Path) -> None:
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
