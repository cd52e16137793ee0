"""The recipe: what the pipeline file says is done, and what it leaves out follows from the size of the data."""

from __future__ import annotations

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
    Recipe,
    choose_recipe,
)
from tests.panels import spec


def left_out(depots: int = 64, days: int = 490, devices: int = 1, **training: Any) -> Recipe:
    given = {"epochs": None, "members": None, "batch_depots": None, **training}
    return choose_recipe(spec(**given), depots, days, devices)


def test_steps_grow_with_the_data_within_bounds() -> None:
    total = {depots: (found := left_out(depots)).steps * found.epochs for depots in (1, 64, 128, 256, 100_000)}
    assert total[256] == pytest.approx(2 * total[128], rel=0.05)
    assert total[1] == total[64] == pytest.approx(PRESETS["nightly"].steps, rel=0.1)
    assert total[100_000] == pytest.approx(MOST_FACTOR * PRESETS["nightly"].steps, rel=0.01)


def test_a_batch_of_much_data_is_larger_unless_the_file_says_how_large() -> None:
    limit = int(LARGE_BATCH_FROM * REFERENCE_DEPOT_DAYS / 490)
    assert [left_out(depots).batch for depots in (3, 12, limit, limit + 1)] == [
        LEAST_BATCH,
        12,
        SMALL_BATCH,
        LARGE_BATCH,
    ]
    assert left_out(20, 5_000).batch == LARGE_BATCH
    assert [left_out(depots, batch_depots=24).batch for depots in (12, limit, limit + 1)] == [24, 24, 24]


def test_a_batch_of_whole_histories_has_no_depot_twice() -> None:
    assert left_out(20, epochs=1, history="whole", batch_depots=64).batch == 20


def test_presets_spend_more_from_one_to_the_next() -> None:
    quick, nightly, best = (left_out(preset=name) for name in ("quick", "nightly", "best"))
    assert quick.steps < nightly.steps < best.steps
    assert [len(each.restraints) for each in (quick, nightly, best)] == [each.members for each in PRESETS.values()]
    assert left_out() == nightly


def test_what_the_file_says_is_done() -> None:
    found = left_out(epochs=7, members=4, learning_rate=0.5, batch_depots=16)
    assert (found.epochs, len(found.restraints), found.learning_rate, found.batch) == (7, 4, 0.5, 16)
    assert found.steps == round(64 * 490 / (16 * found.origins * found.stride))  # every history once


def test_few_depots_and_short_histories_have_a_recipe() -> None:
    found = left_out(7, 62)
    assert found.batch == 8
    assert found.stride * (found.origins - 1) + 3 < 62  # origins and their horizon lie within the history
    assert left_out(1, 31, epochs=1).steps == LEAST_STEPS


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_a_batch_is_dealt_evenly_over_the_devices(devices: int) -> None:
    assert left_out(devices=devices).batch % devices == 0


def test_the_learning_rate_warms_up_and_then_falls_to_a_fiftieth() -> None:
    found = left_out(learning_rate=0.01)
    rates = found.rates()
    assert rates.shape == (found.epochs, found.steps)
    highest = int(np.argmax(rates))
    assert highest == pytest.approx(rates.size / 20, abs=2)
    assert rates.max() == pytest.approx(0.01)
    assert (np.diff(rates.ravel()[: highest + 1]) > 0).all()
    assert (np.diff(rates.ravel()[highest:]) < 0).all()
    assert rates[-1, -1] == pytest.approx(0.01 / 50, rel=1e-3)


def test_the_worked_example_takes_whole_histories_at_a_constant_rate() -> None:
    found = left_out(epochs=200, members=1, batch_depots=64, learning_rate=1e-3, history="whole", schedule="constant")
    assert (found.epochs, found.steps, found.batch) == (200, 1, 64)
    assert found.stride * (found.origins - 1) > 490 - 7 - 14 - found.stride - 1
    np.testing.assert_array_equal(found.rates(), np.full((200, 1), np.float32(1e-3)))
    assert left_out(65, epochs=1, history="whole", batch_depots=64).steps == 2
