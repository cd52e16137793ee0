"""Training: repeatable to the last bit, compiled once, and honest when it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from forecaster.errors import NoUsableData, TrainingError
from forecaster.model import export, train
from forecaster.model.compiling import counted
from forecaster.model.train import Epoch
from forecaster.values import Candidate
from tests import panels
from tests.panels import NAN, bare, panel, spec


def leaves(candidate: Candidate) -> list[Any]:
    return jax.tree.leaves(dict(candidate.parameters["members"]))


def test_the_same_panel_and_spec_give_the_same_parameters_to_the_last_bit() -> None:
    first, second, other = panels.candidate(), train.fit(panel(), spec()), train.fit(panel(), spec(seed=1))
    for one, two in zip(leaves(first), leaves(second), strict=True):
        assert one.tobytes() == two.tobytes()
    assert any(not np.array_equal(one, two) for one, two in zip(leaves(first), leaves(other), strict=True))
    # Members start from different keys; a program that was compiled once comes from the cache.
    assert all(not np.array_equal(leaf[0], leaf[1]) for leaf in leaves(first) if leaf.ndim > 2)
    assert second.summary["compile_misses"] == 0
    assert second.summary["compile_hits"] > 0


def test_the_loss_falls_and_the_second_epoch_compiles_nothing() -> None:
    said: list[Epoch] = []
    compiled: list[float] = []
    with counted() as found:

        def on_epoch(epoch: Epoch) -> None:
            said.append(epoch)
            compiled.append(found.seconds)

        candidate = train.fit(panel(), spec(), on_epoch=on_epoch)
    assert compiled[0] > 0
    assert set(compiled) == {compiled[0]}
    assert [(epoch.number, epoch.of) for epoch in said] == [(number, 20) for number in range(1, 21)]
    losses = [epoch.loss for epoch in said]
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    assert said[-1].validation < 0.8 * said[0].validation
    assert all(np.isfinite(epoch.gradient_norm) and epoch.seconds > 0 for epoch in said)
    assert max(epoch.learning_rate for epoch in said) <= 0.01
    assert np.mean(candidate.summary["validation"]) <= min(epoch.validation for epoch in said) * 1.000001
    assert candidate.summary["trained_until"] == "2024-04-01"
    assert candidate.summary["validated_until"] == "2024-04-29"
    assert [row[1] for row in candidate.summary["history"]] == [epoch.loss for epoch in said]


def test_a_loss_that_is_no_number_stops_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts below −1 have no logarithm; nothing of the kind passes the contract, so it is planted behind it."""
    constants = train._constants(panel(), 92)
    monkeypatch.setattr(train, "_constants", lambda *_: constants)
    with pytest.raises(TrainingError, match="epoch 1 of 20: the loss is nan, validation nan"):
        train.fit(replace(panel(), demand=np.full_like(panel().demand, -2.0)), spec())


def test_a_history_too_short_is_refused_with_its_numbers() -> None:
    with pytest.raises(NoUsableData, match="58 days of history before the backtest, wanted at least 59: shorten"):
        train.fit(panel(history=58), spec())


def test_a_history_that_is_all_unknown_is_refused() -> None:
    empty = panel()
    demand = np.array(empty.demand)
    demand[:, :92] = NAN  # all but the validation days
    with pytest.raises(NoUsableData, match="no observed demand up to 2024-04-01"):
        train.fit(replace(empty, demand=demand), spec())


def test_a_depot_without_history_poisons_nobody() -> None:
    """Nor does one that is always closed, nor one without orders; one epoch of the shortest history allowed."""
    known = panel(5, 59)
    demand, open_ = np.array(known.demand), np.array(known.open)
    demand[1], demand[2], open_[3] = NAN, 0.0, False
    odd = replace(known, demand=demand, open=open_)
    candidate = train.fit(odd, spec(members=1, epochs=1))
    assert all(np.isfinite(leaf).all() for leaf in leaves(candidate))
    said = export.forecaster(candidate)(odd)
    assert np.isfinite(said.quantiles).all()
    assert not said.quantiles[3].any()
    assert (said.quantiles[1] > 0).all()


def test_constants_are_measured_on_open_days_of_training_alone() -> None:
    given = bare(np.full((2, 10), np.expm1(2.0)), closed=[(1, day) for day in range(10)])
    demand = np.array(given.demand)
    demand[0, :2], demand[0, 4:], demand[1] = np.expm1(4.0), 1e6, 1e6
    found = train._constants(replace(given, demand=demand), 4)
    np.testing.assert_allclose([found["mean"], found["spread"]], [3.0, 1.0], rtol=1e-6)
