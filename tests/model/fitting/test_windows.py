"""Crops: cut from the right days of the right depots, and changed only as intended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from forecaster.model.fitting import windows
from forecaster.model.fitting.windows import (
    DAYS_MULTIPLE,
    HIDDEN_START_SHARE,
    LEVEL_SHIFT_SHARE,
    LEVEL_SHIFT_WITHIN,
    MOST_GAPS,
    CropSizes,
)
from forecaster.model.network.features import LOOKBACK
from tests import panels

PANEL = panels.panel(5, 120)
SIZES = CropSizes(horizon=3, origins=5, stride=3, scan=20)
OFF = jnp.asarray([0.0, 0.5, 0.0, 0.0, 0.0, 0.0])


_crop = jax.jit(windows.crop, static_argnums=2)
_cut = jax.jit(windows.cut, static_argnums=(3, 4))
draw = jax.jit(windows.draw, static_argnums=1, static_argnames="batch")


def crop(*arguments: Any) -> Any:
    return jax.device_get(_crop(*arguments))


def cut(*arguments: Any) -> Any:
    return jax.device_get(_cut(*arguments))


def places(batch: int = 400, seed: int = 0) -> windows.CropPlaces:
    return draw(jax.random.key(seed), SIZES, batch=batch, depots=jnp.int32(5), days=jnp.int32(100), blur=OFF)


def test_the_panel_on_the_device_is_padded_with_unknown_days_and_depots() -> None:
    data = windows.on_device(PANEL, 64)
    days = LOOKBACK + 120 + -120 % DAYS_MULTIPLE
    assert data.demand.shape == (64, days)
    assert data.open.shape == (64, days + 3)
    assert data.calendar.shape == (2, days + 3, 6)
    np.testing.assert_array_equal(data.demand[:5, LOOKBACK : LOOKBACK + 120], PANEL.demand)
    assert np.isnan(data.demand[5:]).all()
    assert np.isnan(data.demand[:, :LOOKBACK]).all()
    assert np.isnan(data.demand[:, LOOKBACK + 120 :]).all()


def test_with_a_long_horizon_the_panel_is_padded_for_complete_windows() -> None:
    panel = panels.panel(5, 112, 28)
    data = windows.on_device(panel, 5)
    last = panel.history - 7 - 1  # the last origin whose first week is known
    window, demand = cut(data, jnp.arange(5), jnp.full(5, last), LOOKBACK, 28)
    np.testing.assert_array_equal(demand[:, -28 - last - 1 : -21], panel.demand)
    assert np.isnan(demand[:, -21:]).all()
    np.testing.assert_array_equal(
        window.calendar[:, -28 - last - 1 :, 0], panel.calendar[panel.calendar_group, :133, 0]
    )


def test_with_a_long_horizon_crops_end_a_week_before_training_and_learn_nothing_later() -> None:
    sizes = CropSizes(horizon=28, origins=3, stride=7, scan=20)
    data = windows.on_device(panels.panel(5, 120, 28), 5)
    crops = draw(jax.random.key(0), sizes, batch=300, depots=jnp.int32(5), days=jnp.int32(100), blur=jnp.zeros(6))
    assert (int(crops.last.min()), int(crops.last.max())) == (14, 92)  # the last one sees days 93 to 99
    _, demand = crop(data, crops, sizes)
    learned = np.asarray(windows.learnable(jnp.asarray(demand), crops.last, jnp.int32(100), sizes))
    days = np.asarray(crops.last)[:, None] + 29 - learned.shape[1] + np.arange(learned.shape[1])
    assert np.isnan(learned[days >= 100]).all()
    np.testing.assert_array_equal(learned[days < 100], np.asarray(demand)[days < 100])
    week = replace(sizes, horizon=7)
    as_it_is = jnp.asarray(demand)
    assert windows.learnable(as_it_is, crops.last, jnp.int32(0), week) is as_it_is


def test_a_cut_has_the_days_up_to_its_last_and_the_horizon() -> None:
    data = windows.on_device(PANEL, 64)
    window, demand = cut(data, jnp.asarray([4, 0]), jnp.asarray([99, 30]), LOOKBACK + 2, 3)
    np.testing.assert_array_equal(window.demand[0, -100:], PANEL.demand[4, :100])
    np.testing.assert_array_equal(demand[0, -103:], PANEL.demand[4, :103])
    np.testing.assert_array_equal(window.demand[1, -31:], PANEL.demand[0, :31])
    assert np.isnan(window.demand[1, :-31]).all()
    for row, (depot, last) in enumerate([(4, 99), (0, 30)]):
        ahead = slice(last + 1, last + 4)
        np.testing.assert_array_equal(window.covariates[row, -3:], PANEL.covariates[depot, ahead])
        np.testing.assert_array_equal(window.calendar[row, -3:], PANEL.calendar[PANEL.calendar_group[depot], ahead])
        np.testing.assert_array_equal(window.statics[row], PANEL.statics[depot])


def test_places_lie_within_depots_and_days_and_reach_their_ends() -> None:
    crops = places()
    assert set(np.unique(crops.depots)) == set(range(5))
    # The first origin is a day of the panel, and the last one's horizon ends before the first day
    # that is not learned from.
    assert np.min(crops.last) == SIZES.span
    assert np.max(crops.last) == 100 - 3 - 1
    hidden = np.asarray(crops.opened) > 0
    assert abs(hidden.mean() - HIDDEN_START_SHARE) < 0.06
    assert np.asarray(crops.opened)[hidden].min() >= SIZES.length - SIZES.scan
    assert np.asarray(crops.opened).max() < SIZES.length


def test_a_crop_hides_a_beginning_and_blurs_what_may_be_blurred() -> None:
    data, crops = windows.on_device(PANEL, 64), places(64)
    crops = crops._replace(shift=jnp.zeros(64))
    window, demand = crop(data, crops, SIZES)
    plain, expected = cut(data, crops.depots, crops.last, SIZES.length, 3)
    np.testing.assert_array_equal(demand, expected)  # targets are not hidden
    shares = []
    for row, opened in enumerate(np.asarray(crops.opened)):
        begun, before = np.asarray(window.demand[row, opened:]), np.asarray(plain.demand[row, opened:])
        assert np.isnan(window.demand[row, :opened]).all()
        visible = np.isfinite(begun)
        np.testing.assert_array_equal(begun[visible], before[visible])
        shares.append((np.isfinite(before) & ~visible).sum() / max(np.isfinite(before).sum(), 1))
    assert np.corrcoef(shares, crops.gaps)[0, 1] > 0.7
    assert np.asarray(crops.gaps).max() <= MOST_GAPS
    off = np.asarray(window.calendar - plain.calendar)
    np.testing.assert_allclose(off - off[:, :1], 0, atol=1e-6)  # the same on all days of a crop
    assert not off[..., [0, 2, 3, 4, 5]].any()
    assert 0.3 < off[:, 0, 1].std() < 0.7


def test_in_a_few_crops_demand_moves_to_another_level_before_the_first_origin() -> None:
    crops = places(4000)
    first = SIZES.length - 1 - SIZES.span
    assert (np.min(crops.moved), np.max(crops.moved)) == (first + 1 - LEVEL_SHIFT_WITHIN, first)
    moves = np.asarray(crops.shift) != 0
    assert abs(moves.mean() - LEVEL_SHIFT_SHARE) < 0.01
    assert 0.8 < np.asarray(crops.shift)[moves].std() < 1.2


def test_a_moved_level_lasts_until_the_last_forecast_day() -> None:
    data, crops = windows.on_device(PANEL, 64), places(3)
    crops = crops._replace(
        shift=jnp.log(jnp.asarray([0.5, 3.0, 1.0])), moved=jnp.asarray([410, 400, 400]), gaps=jnp.zeros(3)
    )
    _, before = cut(data, crops.depots, crops.last, SIZES.length, 3)
    window, demand = crop(data, crops._replace(opened=jnp.zeros(3, jnp.int32)), SIZES)
    for row, (day, factor) in enumerate([(410, 0.5), (400, 3.0), (400, 1.0)]):
        np.testing.assert_array_equal(demand[row, :day], before[row, :day])
        np.testing.assert_allclose(demand[row, day:], factor * np.asarray(before[row, day:]), rtol=1e-6)
        np.testing.assert_array_equal(window.demand[row], demand[row, : SIZES.length])


def test_the_same_key_draws_the_same_places() -> None:
    for first, again, other_seed in zip(*(places(seed=seed)._replace(key=None) for seed in (0, 0, 1)), strict=True):
        np.testing.assert_array_equal(first, again)
        assert first is None or not np.array_equal(first, other_seed)


def test_whole_histories_are_unmodified_and_cover_each_depot_in_turn() -> None:
    sizes = CropSizes(horizon=3, origins=25, stride=3, scan=80, whole=True)
    crops = draw(jax.random.key(0), sizes, batch=5, depots=jnp.int32(5), days=jnp.int32(100), blur=OFF)
    assert sorted(np.asarray(crops.depots)) == [0, 1, 2, 3, 4]
    assert set(np.asarray(crops.last)) == {96}
    data = windows.on_device(PANEL, 64)
    for expected, actual in zip(
        crop(data, crops, sizes)[0],
        cut(data, crops.depots, crops.last, sizes.length, 3)[0],
        strict=True,
    ):
        np.testing.assert_array_equal(expected, actual)
