"""Further inputs of boosted trees, calculated by hand. The tests of `features` check that none is
from after an origin, and that an origin reads the same alone and among others."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from forecaster.model.network import features
from forecaster.model.network.features import LOOKBACK, Window
from tests import panels


def test_means_lags_weeks_a_year_ago_and_the_days_around_by_hand() -> None:
    panel = panels.panel(2, LOOKBACK, horizon=8, covariates=("promo",))
    demand, open_, covariates = np.array(panel.demand), np.array(panel.open, np.float32), np.array(panel.covariates)
    demand[0, -3] = np.nan
    demand[1, :-4] = np.nan
    covariates[:, LOOKBACK:] = 0
    covariates[0, LOOKBACK + 3] = 2
    shape = (2, LOOKBACK + 8)
    window = Window(
        jnp.asarray(demand),
        jnp.asarray(open_),
        jnp.asarray(covariates),
        jnp.zeros((*shape, len(panels.CALENDAR))),  # no holidays, so that nothing is removed from the series
        jnp.asarray(panel.statics),
    )
    constants = {name: jnp.float32(1) for name in ("mean", "spread", "yearly")}
    constants["calendar"] = jnp.ones(len(panels.CALENDAR))
    with panels.quickly():
        make = partial(features.make, scan=1, origins=1, horizon=8, trees=True)
        made = jax.jit(make)(window, constants)
    names = features.tree_inputs(("promo",), panels.CALENDAR, tuple(panels.STATICS))
    first, log = dict(zip(names, np.asarray(made.trees[0, 0]).T, strict=True)), np.log1p(demand[0])
    level = float(made.level[0, 0])
    known = log[-7:][np.isfinite(log[-7:])]
    np.testing.assert_allclose(first["now mean_1w"], known.mean() - level, atol=1e-5)
    np.testing.assert_allclose([first["day -0"][0], first["day -2"][0]], [log[-1] - level, 0], atol=1e-5)
    weeks = log[-7 * np.arange(1, 9)]  # same weekdays as the first day ahead
    anchor = weeks[:4].mean()
    np.testing.assert_allclose(first["weeks_mean"][0], weeks.mean() - anchor, atol=1e-4)
    np.testing.assert_allclose(first["weeks_spread"][0], np.abs(weeks - weeks.mean()).mean(), atol=1e-4)
    np.testing.assert_allclose(first["weeks_least"][0], weeks.min() - anchor, atol=1e-4)
    np.testing.assert_allclose(
        first["weeks_most"][7], weeks.max() - anchor, atol=1e-4
    )  # a week later, of the same ones
    assert first["last_year_known -1"].tolist() == [1] * 8
    # The fourth day ahead has an event, which its neighbors and the day a week after it read.
    for near, day in ((-2, 5), (-1, 4), (1, 2), (2, 1)):
        assert first[f"covariate promo {near:+}"].tolist() == [2 * (step == day) for step in range(8)]
    assert (first["open +2"].tolist(), first["open -1"].tolist()) == ([1] * 6 + [0] * 2, [1] * 8)
    assert first["static size"].tolist() == [panel.statics[0, 0]] * 8
    np.testing.assert_allclose(made.tree_trust[:, 0], [1, 4 / 7])  # four of the required seven days are known
