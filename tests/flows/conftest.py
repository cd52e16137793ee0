"""A separate, real Prefect server for the tests, and no pauses between retries."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from flows import environment as embedded
from flows import prefect_server
from tests import prefect_home

os.environ["FORECASTER_PAUSE"] = "0"  # read when the tasks are imported


@pytest.fixture
def predicts_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predict in this process, for tests that do not need a separate one."""
    from tests.calls import predict_in_this_process

    predict_in_this_process(monkeypatch)


@pytest.fixture(scope="session")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run Prefect's server for the whole test run; only this process knows it, and the environment
    is restored."""
    before = dict(os.environ)
    state = tmp_path_factory.mktemp("state")
    prefect_home.put_into(state)
    embedded.prepare(state)
    with prefect_server.running() as ready:
        ready(prefect_server.PATIENCE)
        import flows.nightly  # noqa: F401  Prefect keeps what it reads of the environment now

        prepared = dict(os.environ)
        restore(before)
        yield
        restore(prepared)
    restore(before)


def restore(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
