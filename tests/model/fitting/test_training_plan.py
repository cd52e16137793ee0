"""The recipe: values of the pipeline file are used, and others follow from the size of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecaster.model.fitting.training_plan import (
    LARGE_BATCH,
    LARGE_BATCH_FROM,
    LEAST_BATCH,
    LEAST_STEPS,
    MOST_FACTOR,
    PRESETS,
    REFERENCE_DEPOT_DAYS,
    SMALL_BATCH,
    WARM_RATE,
    Recipe,
    choose_recipe,
)
from tests.panels import spec


def recipe_of(depots: int = 64, days: int = 490, devices: int = 1, **training: Any) -> Recipe:
    settings = {"epochs": None, "members": None, "batch_depots": None, **training}
    return choose_recipe(spec(**settings), depots, days, devices)


def test_a_start_from_the_prior_only_lowers_the_learning_rate() -> None:
    declared = spec()
    warm = declared.model_copy(update={"training": declared.training.model_copy(update={"start": "prior"})})
    fresh, begun = (choose_recipe(each_spec, 64, 490) for each_spec in (declared, warm))
    assert begun == replace(fresh, learning_rate=fresh.learning_rate * WARM_RATE)
    assert begun.rates().max() == pytest.approx(WARM_RATE * fresh.rates().max())


def test_steps_grow_with_the_data_within_bounds() -> None:
    total = {depots: (recipe := recipe_of(depots)).steps * recipe.epochs for depots in (1, 64, 128, 256, 100_000)}
    assert total[256] == pytest.approx(2 * total[128], rel=0.05)
    assert total[1] == total[64] == pytest.approx(PRESETS["nightly"].steps, rel=0.1)
    assert total[100_000] == pytest.approx(MOST_FACTOR * PRESETS["nightly"].steps, rel=0.01)


def test_large_data_have_larger_batches_unless_the_file_declares_the_size() -> None:
    limit = int(LARGE_BATCH_FROM * REFERENCE_DEPOT_DAYS / 490)
    assert [recipe_of(depots).batch for depots in (3, 12, limit, limit + 1)] == [
        LEAST_BATCH,
        12,
        SMALL_BATCH,
        LARGE_BATCH,
    ]
    assert recipe_of(20, 5_000).batch == LARGE_BATCH
    assert [recipe_of(depots, batch_depots=24).batch for depots in (12, limit, limit + 1)] == [24, 24, 24]


def test_a_batch_of_whole_histories_has_no_depot_twice() -> None:
    assert recipe_of(20, epochs=1, history="whole", batch_depots=64).batch == 20


def test_presets_have_increasing_effort() -> None:
    quick, nightly, best = (recipe_of(preset=name) for name in ("quick", "nightly", "best"))
    assert quick.steps < nightly.steps < best.steps
    assert [len(preset.restraints) for preset in (quick, nightly, best)] == [
        preset.members for preset in PRESETS.values()
    ]
    assert recipe_of() == nightly


def test_declared_values_are_used() -> None:
    recipe = recipe_of(epochs=7, members=4, learning_rate=0.5, batch_depots=16)
    assert (recipe.epochs, len(recipe.restraints), recipe.learning_rate, recipe.batch) == (7, 4, 0.5, 16)
    assert recipe.steps == round(64 * 490 / (16 * recipe.origins * recipe.stride))  # every history once


def test_few_depots_and_short_histories_have_a_recipe() -> None:
    recipe = recipe_of(7, 62)
    assert recipe.batch == 8
    assert recipe.stride * (recipe.origins - 1) + 3 < 62  # origins and their horizon lie within the history
    assert recipe_of(1, 31, epochs=1).steps == LEAST_STEPS


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_a_batch_is_distributed_evenly_over_the_devices(devices: int) -> None:
    assert recipe_of(devices=devices).batch % devices == 0


def test_the_learning_rate_warms_up_and_then_falls_to_a_fiftieth() -> None:
    recipe = recipe_of(learning_rate=0.01)
    rates = recipe.rates()
    assert rates.shape == (recipe.epochs, recipe.steps)
    highest = int(np.argmax(rates))
    assert highest == pytest.approx(rates.size / 20, abs=2)
    assert rates.max() == pytest.approx(0.01)
    assert (np.diff(rates.ravel()[: highest + 1]) > 0).all()
    assert (np.diff(rates.ravel()[highest:]) < 0).all()
    assert rates[-1, -1] == pytest.approx(0.01 / 50, rel=1e-3)


def test_the_worked_example_takes_whole_histories_at_a_constant_rate() -> None:
    recipe = recipe_of(epochs=200, members=1, batch_depots=64, learning_rate=1e-3, history="whole", schedule="constant")
    assert (recipe.epochs, recipe.steps, recipe.batch) == (200, 1, 64)
    assert recipe.stride * (recipe.origins - 1) > 490 - 7 - 14 - recipe.stride - 1
    np.testing.assert_array_equal(recipe.rates(), np.full((200, 1), np.float32(1e-3)))
    assert recipe_of(65, epochs=1, history="whole", batch_depots=64).steps == 2
