"""The compiled step: its sums over parts of a batch."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.model.fitting import compiled_steps, train, windows
from forecaster.model.fitting.training_plan import choose_recipe
from forecaster.model.network import encoder_decoder
from tests.panels import panel, spec


@pytest.mark.parametrize("crops_at_once", [4, 8])
def test_crops_in_parts_have_the_gradients_of_all_at_once(crops_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before, batch, members = panel(), 16, 2
    days = before.history - train.VALIDATION
    recipe = choose_recipe(spec(batch_depots=batch), len(before.depot_ids), days)
    sizes, inputs = train._sizes(before, spec(), recipe), train._training_inputs(before, days, recipe)
    facts = inputs.facts
    parameters = compiled_steps.initial_state(sizes, members, jax.random.key(0)).parameters
    places = windows.draw(
        jax.random.key(1), sizes.crop, batch=batch, depots=facts.depots, days=facts.days, blur=facts.blur
    )
    keys = jax.random.split(jax.random.key(2), members)
    masks = jax.vmap(partial(encoder_decoder.dropout_masks, sizes.architecture, jnp.float32(0.5), depots=batch))(keys)

    def gradients_of(at_once: int) -> Any:
        monkeypatch.setattr(compiled_steps, "CROPS_AT_ONCE", at_once)
        gradients = jax.jit(lambda *arguments: compiled_steps._gradients(*arguments, sizes))
        return gradients(parameters, inputs.panel, facts, places, masks)

    whole, parts = gradients_of(batch), gradients_of(crops_at_once)
    assert float(whole[2]) > 0
    for expected, actual in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_allclose(expected, actual, rtol=1e-4, atol=1e-4 * float(jnp.abs(expected).max()))
