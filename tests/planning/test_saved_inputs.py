"""The inputs of a publication are stored under the digest of their content, and read back
unchanged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import Staffing
from forecaster.errors import DeskError
from forecaster.planning import saved_inputs
from forecaster.planning.saved_inputs import SavedInputs
from tests.panels import panel

STAFF = Staffing(orders_per_driver=90, cost_short=38, cost_idle=22)


def inputs(lookback: int = 60) -> SavedInputs:
    return SavedInputs(saved_inputs.trim_panel(panel(), lookback), "5f0c", frozenset({"D2"}), STAFF)


def test_inputs_are_read_back_unchanged(tmp_path: Path) -> None:
    written = inputs()
    loaded = saved_inputs.read(tmp_path, saved_inputs.write(tmp_path, written))
    assert (loaded.bundle, loaded.strangers, loaded.staffing) == ("5f0c", {"D2"}, STAFF)
    assert loaded.panel.encoding.to_json() == written.panel.encoding.to_json()
    for name, array in written.panel.window(60).items():
        np.testing.assert_array_equal(loaded.panel.window(60)[name], array)


def test_trimmed_panel_gives_the_model_the_same_window() -> None:
    whole = panel()
    for lookback in (60, 406):
        for name, array in whole.window(lookback).items():
            np.testing.assert_array_equal(saved_inputs.trim_panel(whole, lookback).window(lookback)[name], array)


def test_intervals_of_a_new_depot_keep_their_published_width(tmp_path: Path) -> None:
    whole, levels = panel(), (0.1, 0.5, 0.9)
    demand = whole.demand.copy()
    demand[0, :-20] = np.nan
    young = replace(whole, demand=demand)
    quantiles = np.tile(np.float32([80, 100, 120]), (len(young.depot_ids), young.horizon, 1))
    published = young.widen_by_doubt(quantiles, levels)
    assert published[0, 0, 0] < 79.99
    np.testing.assert_array_equal(published[1:], quantiles[1:])
    trimmed = saved_inputs.trim_panel(young, 60)
    loaded = saved_inputs.read(tmp_path, saved_inputs.write(tmp_path, SavedInputs(trimmed, "5f0c", frozenset(), STAFF)))
    for kept in (trimmed, loaded.panel):
        np.testing.assert_array_equal(kept.widen_by_doubt(quantiles, levels), published)
        np.testing.assert_array_equal(kept.widen_by_doubt(quantiles[:1], levels, np.array([0])), published[:1])
        np.testing.assert_array_equal(kept.window(60)["demand"], young.window(60)["demand"])
        other_order = kept.among([*reversed(kept.depot_ids), "of no row"])
        np.testing.assert_array_equal(other_order.doubt_of_level[:-1], young.doubt_of_level[::-1])
        assert other_order.doubt_of_level[-1] == 0


def test_the_same_inputs_have_the_same_name(tmp_path: Path) -> None:
    assert saved_inputs.write(tmp_path, inputs()) == saved_inputs.write(tmp_path, inputs())
    assert len(list(tmp_path.iterdir())) == 1


def test_damaged_deleted_and_never_saved_inputs_are_reported(tmp_path: Path) -> None:
    name = saved_inputs.write(tmp_path, inputs())
    file = tmp_path / f"{name}.npz"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DeskError, match="is not what the night wrote"):
        saved_inputs.read(tmp_path, name)
    saved_inputs.prune(tmp_path, {"another"})
    with pytest.raises(DeskError, match="cannot be read on this machine"):
        saved_inputs.read(tmp_path, name)
    with pytest.raises(DeskError, match="did not keep what it was made from"):
        saved_inputs.read(tmp_path, None)


def test_inputs_over_the_size_limit_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    assert saved_inputs.too_large(inputs()) is None
    monkeypatch.setattr(saved_inputs, "MAX_BYTES", 1000)
    assert "more than the page's limit (1,000)" in str(saved_inputs.too_large(inputs()))
