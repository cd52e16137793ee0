"""What a night needs before it starts."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from flows import server, start
from forecaster.errors import ForecasterError, MissingExtra
from forecaster.spec import Spec


def test_a_missing_part_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "prefect" else real(name))
    spec = Spec.model_validate({"name": "x", "demand": {"source": {"kind": "csv", "path": "x.csv"}}})
    with pytest.raises(MissingExtra, match=r"a night needs prefect, .*forecaster\[train,flows\]"):
        start.nightly(Path("x.yaml"), spec)


def test_a_server_of_ones_own_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(server.URL, "http://127.0.0.1:1/api")
    with server.running() as ready:
        ready()
        assert os.environ[server.URL] == "http://127.0.0.1:1/api"
    assert os.environ[server.URL] == "http://127.0.0.1:1/api"


def test_a_server_that_cannot_start_is_told_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with server.running() as ready, pytest.raises(ForecasterError, match="stopped at once with exit code"):
        ready()
    assert server.URL not in os.environ
