"""Repeated work is identified by its inputs, and Prefect keeps no second record of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forecaster.config import Spec
from forecaster.model.fitting.distributed import panel_to_bytes
from forecaster.training import train
from tests.panels import panel

GIVEN: dict[str, Any] = {"name": "t", "demand": {"source": {"kind": "csv", "path": "demand.csv"}}}


def place(more: dict[str, Any], demand: float = 40.0) -> Path:
    counts = panel(2, 40).demand.copy()
    counts[0, 0] = demand
    return train.cached_model_path(
        panel_to_bytes(replace(panel(2, 40), demand=counts)), Spec.model_validate({**GIVEN, **more})
    )


def test_a_training_is_identified_by_data_declared_settings_and_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = place({})
    assert place({}) == before
    assert place({}, demand=41.0) != before
    for more in ({"model": {"hidden": 8}}, {"training": {"seed": 1}}, {"backtest": {"days": 14}}, {"horizon": 6}):
        assert place(more) != before
    for more in ({"gate": {"margin": 0.1}}, {"execution": {"runner": "dask"}}, {"schedule": {"deadline": "06:00"}}):
        assert place(more) == before
    monkeypatch.setattr(train, "__version__", "another")
    assert place({}) != before


@pytest.mark.usefixtures("prefect")
def test_prefect_neither_caches_stages_nor_stores_their_results() -> None:
    from prefect import Task
    from prefect.cache_policies import NO_CACHE

    from flows import runners, tasks

    all_tasks = [task for module in (tasks, runners) for task in vars(module).values() if isinstance(task, Task)]
    assert len(all_tasks) >= 12
    assert all(task.cache_policy == NO_CACHE and task.persist_result is False for task in all_tasks)
