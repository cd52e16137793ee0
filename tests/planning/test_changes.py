"""A run explains why its forecast differs from the night's before."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.ledger.store import Ledger
from forecaster.model.export.to_onnx import OF_TREES
from forecaster.model.network.features import tree_inputs
from forecaster.serving import bundle, keys, recalibrate
from forecaster.serving.bundle import npz
from forecaster.serving.numpy_model import ReferenceModel
from tests import fleets
from tests.fleets import AS_OF, Fleet
from tests.panels import random_trees
from tests.planning.nights import DAY, THURSDAY, current, day, parts, publish_as_of, write_bundle


def test_changes_are_explained_for_days_published_the_day_before(published_fleet: Fleet) -> None:
    tonight = current(published_fleet.spec)
    changes = {published_day.target_date: published_day.change for published_day in tonight.depots[0].days}
    assert [day for day, change in changes.items() if change is None] == [date(2024, 4, 12)]
    assert {change.since for change in changes.values() if change} == {(AS_OF - DAY).date()}
    with Ledger.open_reader(published_fleet.spec.ledger_url) as ledger:
        first = ledger.published_before(published_fleet.spec.name, AS_OF - DAY / 2)
    assert first is not None
    assert {published_day.change for depot in first.depots for published_day in depot.days} == {None}
    assert changes[THURSDAY] is not None
    assert changes[THURSDAY].before == round(day(first).quantiles[1])


def test_with_the_same_model_only_new_actuals_change_the_forecast(published_fleet: Fleet) -> None:
    moved = parts(current(published_fleet.spec))
    assert moved.pop("actuals") > 0
    assert set(moved.values()) == {0}


def test_corrected_counts_and_calendar_changes_have_separate_parts(fleet: Fleet) -> None:
    corrected = [f"A,{date(2024, 4, 1) + n * DAY},150,0" for n in range(7)]
    fleets.fill(fleet.spec, [*corrected, f"B,{THURSDAY},,1"], fleets.CITIES, now=AS_OF - timedelta(hours=1))
    publish_as_of(fleet.spec, AS_OF)
    tonight = current(fleet.spec)
    of = {depot: dict(change.parts) for depot in "ABC" if (change := day(tonight, depot).change)}
    assert parts(tonight)["model"] == parts(tonight)["calibration"] == 0
    assert (of["A"]["restated"] != 0, of["A"]["calendar"]) == (True, 0)
    assert (of["B"]["restated"], of["B"]["calendar"] != 0) == (0, True)
    assert (of["C"]["restated"], of["C"]["calendar"]) == (0, 0)


def test_new_model_has_a_separate_part(fleet: Fleet) -> None:
    before = current(fleet.spec)
    publish_as_of(fleet.spec, AS_OF, write_bundle(fleet.spec, 1.2))
    tonight = current(fleet.spec)
    change = day(tonight).change
    assert change is not None
    assert dict(change.parts)["model"] == round(day(tonight).quantiles[1]) - round(day(before).quantiles[1])
    assert parts(tonight)["calibration"] == 0


def test_deleted_model_attributes_the_whole_change_to_the_model(fleet: Fleet) -> None:
    shutil.rmtree(fleet.bundle)
    assert publish_as_of(fleet.spec, AS_OF).tier == "fallback"
    moved = parts(current(fleet.spec))
    assert moved.pop("model") > 0
    assert set(moved.values()) == {0}


@pytest.mark.parametrize("boosted", [False, True])
def test_recalibrated_medians_equal_those_of_a_bundle_with_that_calibration(
    published_fleet: Fleet, boosted: bool
) -> None:
    panel = panels.build(read_as_of(published_fleet.spec, as_of=AS_OF), published_fleet.spec)
    loaded = bundle.read(published_fleet.bundle, keys.trusted_keys(published_fleet.spec.paths.folder))
    weights = ReferenceModel(loaded.weights, loaded.manifest).weights
    if boosted:  # with trees of its own
        names = panel.encoding.covariates, panel.calendar_names, tuple(panel.encoding.statics)
        arrays = random_trees(len(tree_inputs(*names)), panel.horizon)
        weights = {**weights, **{f"trees.{name}": x for name, x in arrays.items()}, "blend.trees": np.float32(0.5)}
        manifest = {**loaded.manifest, "features": {**loaded.manifest["features"], **OF_TREES}}
        loaded = replace(loaded, weights=npz(weights), manifest=manifest)
    other = replace(loaded, weights=npz({**weights, "blend.anchor": np.float32(0.4)}))
    medians = ReferenceModel(loaded.weights, loaded.manifest)(panel.window(loaded.lookback))[..., 1]
    expected = ReferenceModel(other.weights, other.manifest)(panel.window(loaded.lookback))[..., 1]
    assert np.abs(medians - expected).max() > 0.5
    np.testing.assert_allclose(recalibrate.medians(medians, panel, loaded, other), expected, rtol=1e-5)
    np.testing.assert_allclose(recalibrate.medians(expected, panel, other, loaded), medians, rtol=1e-5)
