"""A real Prefect of the tests' own, and no pauses between tries."""

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
    """For tests that are not about the process that predicts."""
    from tests.calls import predict_in_this_process

    predict_in_this_process(monkeypatch)


@pytest.fixture(scope="session")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prefect's server for the whole test run, which only this process knows: the environment stays as it was."""
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
