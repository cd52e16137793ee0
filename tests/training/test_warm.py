"""Warming covers what nights need: their panels and their folder; an unsuitable folder is rejected."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.model.fitting.training_plan import choose_recipe
from forecaster.training import warm
from tests.calls import Call
from tests.panels import panel, spec
from tests.small_fleet import write


def test_a_panel_some_days_later_repeats_its_last_week() -> None:
    now = panel(history=120)
    later = warm.days_later(now, 9)
    assert later.history == 129
    np.testing.assert_array_equal(np.diff(later.days).astype(int), 1)
    np.testing.assert_array_equal(later.demand[:, :120], now.demand)
    np.testing.assert_array_equal(later.demand[:, 120:127], now.demand[:, 113:])
    np.testing.assert_array_equal(later.demand[:, 127:], now.demand[:, 113:115])
    np.testing.assert_array_equal(later.calendar[:, 129:], now.calendar[:, 120:])  # the horizon stays at the end


def test_only_nights_with_different_programs_are_warmed() -> None:
    now, nights = panel(depots=90, history=500), 14
    by_rule = Spec.model_validate(
        {"name": "small", "demand": {"source": {"kind": "csv", "path": "demand.csv"}}}
    )  # its steps grow with the days
    steps = [choose_recipe(by_rule, 90, 500 + later - warm.VALIDATION).steps for later in range(nights)]
    assert 1 < len(set(steps)) < nights
    shapes = list(warm._shapes(now, by_rule, nights))
    # The days on the device are a multiple of 56, one of which lies between 500 and 513.
    assert len(shapes) == len(set(zip(steps, [-(-(500 + later) // 56) for later in range(nights)], strict=True)))
    assert len(list(warm._shapes(now, spec(epochs=2), 1))) == 1


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    file = write(tmp_path / "fleet")
    file.write_text(file.read_text("utf-8") + "execution: {compile_cache: ../shared}\n", "utf-8")
    return file


def test_an_unwritable_folder_is_named_with_its_key(pipeline: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "shared").write_text("a file")
    code, _, err = call("warm", pipeline)
    assert code == 2
    assert "execution.compile_cache: compiled programs cannot be written to" in err
    assert "shared" in err


def test_a_world_writable_folder_is_rejected(
    pipeline: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(shared))
    shared.mkdir()
    shared.chmod(0o777)
    code, _, err = call("warm", pipeline)
    assert code == 2
    assert f"JAX_COMPILATION_CACHE_DIR: found {shared}, which everybody may write" in err


def test_unreadable_sources_before_the_first_night_exit_with_no_data(pipeline: Path, call: Call) -> None:
    (pipeline.parent / "demand.csv").unlink()
    code, _, err = call("warm", pipeline)
    assert code == 4
    assert "demand.csv" in err
    assert not (pipeline.parent / "var").exists()


def test_several_hosts_are_rejected_with_the_reason(pipeline: Path, call: Call) -> None:
    text = pipeline.read_text("utf-8")
    hosts = "training: {hosts: {coordinator: '10.0.0.1:1234', count: 2}, "
    pipeline.write_text(text.replace("training: {", hosts), "utf-8")
    code, _, err = call("warm", pipeline)
    assert code == 2
    assert "training.hosts: found several hosts, wanted one" in err


def test_the_folder_is_specific_to_the_processor(pipeline: Path) -> None:
    from forecaster.config import load
    from forecaster.model.fitting import jax_setup

    folder = jax_setup.cache_folder(load(pipeline))
    assert folder.parent == pipeline.parent.parent / "shared"
    assert folder.name.startswith(os.uname().machine)
