"""Training: reproducible to the last bit, compiled once, and explicit about failures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.core.forecast import Candidate
from forecaster.core.language import use_language
from forecaster.core.language.sentences import retold, stored
from forecaster.core.panel import Panel
from forecaster.errors import NoUsableData, TrainingError
from forecaster.model.export import serialization, to_onnx
from forecaster.model.fitting import compiled_steps, train, training_loop
from forecaster.model.fitting.compiled_steps import ProgramSizes, State
from forecaster.model.fitting.jax_setup import Compilations, count_compilations
from forecaster.model.fitting.training_loop import Epoch
from forecaster.model.network.encoder_decoder import Architecture
from tests import panels
from tests.panels import NAN, bare, panel, spec


def leaves(candidate: Candidate) -> list[Any]:
    return jax.tree.leaves(dict(candidate.parameters["members"]))


@dataclass
class Repeated:
    """A repeated training, and the reports of its epochs."""

    candidate: Candidate
    epochs: list[Epoch]


@pytest.fixture(scope="module")
def repeated() -> Repeated:
    epochs = list[Epoch]()
    panels.candidate()  # so that this one is not the first
    return Repeated(train.fit(panel(), spec(), on_epoch=epochs.append), epochs)


def test_the_same_panel_and_spec_give_the_same_parameters_to_the_last_bit(repeated: Repeated) -> None:
    first, second = panels.candidate(), repeated.candidate
    for left, right in zip(leaves(first), leaves(second), strict=True):
        assert left.tobytes() == right.tobytes()
    one_seed, other_seed = (train.fit(panel(), spec(epochs=1, seed=seed)) for seed in (0, 1))
    assert all(
        not np.array_equal(left, right) for left, right in zip(leaves(one_seed), leaves(other_seed), strict=True)
    )
    # Members start from different keys; a program is compiled only once.
    assert all(not np.array_equal(leaf[0], leaf[1]) for leaf in leaves(first) if leaf.ndim > 2)
    assert second.summary["compile_misses"] == 0
    travelled = serialization.from_bytes(serialization.to_bytes(second))
    assert (travelled.summary, travelled.encoding, travelled.levels, travelled.calendar_names) == (
        second.summary,
        second.encoding,
        second.levels,
        second.calendar_names,
    )
    assert serialization.to_bytes(travelled) == serialization.to_bytes(second)


def test_a_blank_candidate_uses_the_programs_of_a_trained_one() -> None:
    trained, blank = panels.candidate(), train.blank(panel(), spec())
    shapes = [
        [(str(path), leaf.shape, leaf.dtype) for path, leaf in jax.tree.leaves_with_path(dict(candidate.parameters))]
        for candidate in (trained, blank)
    ]
    assert shapes[0] == shapes[1]
    assert to_onnx.architecture(trained) == to_onnx.architecture(blank)


def test_kernels_of_members_are_made_orthogonal_one_after_the_other() -> None:
    """A batch of QR factorizations may deadlock on two cores, so none may be batched."""
    shape = Architecture(2, 64, (0.1, 0.5, 0.9), 7, 3, 20, (3,))
    program = jax.jit(compiled_steps._initial, static_argnums=(0, 1)).lower(shape, 5, jax.random.key(0)).as_text()
    factorised = re.findall(r"geqrf.*: \((tensor<\w+>)\)", program)
    assert factorised
    assert set(factorised) == {"tensor<192x64xf32>"}


def test_the_loss_falls(repeated: Repeated) -> None:
    epochs, candidate = repeated.epochs, repeated.candidate
    assert [(epoch.number, epoch.of) for epoch in epochs] == [(number, 20) for number in range(1, 21)]
    losses = [epoch.loss for epoch in epochs]
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    assert epochs[-1].validation < 0.8 * epochs[0].validation
    assert all(np.isfinite(epoch.gradient_norm) and epoch.seconds > 0 for epoch in epochs)
    assert max(epoch.learning_rate for epoch in epochs) <= 0.01
    assert np.mean(candidate.summary["validation"]) <= epochs[-1].validation * 1.000001
    assert candidate.summary["trained_until"] == "2024-04-01"
    assert candidate.summary["validated_until"] == "2024-04-29"
    assert [row["loss"] for row in candidate.summary["history"]] == [epoch.loss for epoch in epochs]


def test_an_earlier_epoch_is_kept_only_if_it_was_clearly_better() -> None:
    last, best = {"w": jnp.ones((3, 2))}, {"w": jnp.zeros((3, 2))}
    losses = jnp.asarray([0.94, 0.96, 1.0]), jnp.ones(3)
    parameters: Any = train._best_parameters(State(last, None, jax.random.key(0), best, *losses))
    np.testing.assert_array_equal(parameters["w"], [[0, 0], [1, 1], [1, 1]])


def test_a_loss_that_is_not_a_number_stops_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts below −1 have no logarithm; the contract rejects them, so they are inserted behind it."""
    constants = train.constants(panel(), 92)
    monkeypatch.setattr(train, "constants", lambda *_: constants)
    with pytest.raises(TrainingError, match="epoch 1 of 20: the loss is nan at step 1, on crops of D0, D1, D2"):
        train.fit(replace(panel(), demand=np.full_like(panel().demand, -2.0)), spec())


def test_a_killed_training_resumes_and_ends_with_the_same_parameters(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(epoch: Epoch) -> None:
        if epoch.number == 3:
            raise Killed

    def fit(**options: Any) -> Candidate:
        return train.fit(panel(), spec(epochs=6), checkpoints=tmp_path, on_trouble=troubles.append, **options)

    troubles: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_loop, "SAVE_INTERVAL", 0.0)  # a checkpoint after every epoch
        with pytest.raises(Killed):
            fit(on_epoch=kill)
        assert troubles == []
        resumed: list[int] = []
        after = fit(on_epoch=lambda epoch: resumed.append(epoch.number))
    assert troubles == ["training continues after epoch 3"]
    assert resumed == [4, 5, 6]
    for left, right in zip(leaves(train.fit(panel(), spec(epochs=6))), leaves(after), strict=True):
        assert left.tobytes() == right.tobytes()
    assert [row["number"] for row in after.summary["history"]] == list(range(1, 7))
    # A finished training is restored completely; other data are another training.
    fit()
    assert troubles[1:] == ["training continues after epoch 6"]
    train.fit(panel(), spec(seed=1, epochs=1), checkpoints=tmp_path, on_trouble=troubles.append)
    assert len(troubles) == 2


def test_a_damaged_checkpoint_is_named_and_training_starts_over(tmp_path: Path) -> None:
    train.fit(panel(), spec(epochs=2), checkpoints=tmp_path)
    victim = max(
        (f for f in tmp_path.rglob("*") if f.is_file() and f.name != "manifest.json"), key=lambda f: f.stat().st_size
    )
    victim.write_bytes(bytes([victim.read_bytes()[0] ^ 1]) + victim.read_bytes()[1:])
    troubles: list[str] = []
    numbers: list[int] = []
    train.fit(
        panel(),
        spec(epochs=2),
        checkpoints=tmp_path,
        on_trouble=troubles.append,
        on_epoch=lambda e: numbers.append(e.number),
    )
    assert len(troubles) == 1
    assert troubles[0].startswith("training starts over: ")
    assert victim.name in troubles[0]
    assert numbers == [1, 2]


def test_without_memory_the_batch_is_halved_and_that_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device here has too much memory to fill in a test, so its error is simulated."""
    program, troubles = train.compiled_steps.training_epoch, []

    def full(sizes: ProgramSizes, members: int) -> Any:
        if sizes.batch > 8:
            raise MemoryError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes")
        return program(sizes, members)

    monkeypatch.setattr(train.compiled_steps, "training_epoch", full)
    # Twice the steps with half the crops have the sizes of other tests, whose programs are
    # compiled.
    candidate = train.fit(panel(), spec(epochs=1, batch_depots=16), steps=3, on_trouble=troubles.append)
    assert troubles == ["no memory left for a batch of 16 crops: starting over with 8"]
    assert (candidate.summary["batch"], candidate.summary["steps_an_epoch"]) == (8, 6)
    with use_language("de"):
        assert (
            retold(stored(troubles[0]), "")
            == "kein Speicher mehr für einen Batch von 16 Ausschnitten: neuer Beginn mit 8"
        )
    monkeypatch.setattr(train, "SMALLEST_BATCH", 16)
    with pytest.raises(TrainingError, match="no memory left for a batch of 16 crops"):
        train.fit(panel(), spec(epochs=1, batch_depots=16))


def test_a_new_depot_and_a_new_day_need_no_recompilation() -> None:
    train.fit(panel(3, 120), spec(epochs=1))
    with count_compilations() as compilations:
        train.fit(panel(4, 121), spec(epochs=1))
    assert compilations.misses == 0


def test_a_history_too_short_is_rejected_with_its_numbers() -> None:
    with pytest.raises(NoUsableData, match="58 days of history before the backtest, wanted at least 59: shorten"):
        train.fit(panel(history=58), spec())


def test_a_history_without_known_days_is_rejected() -> None:
    empty = panel()
    demand = np.array(empty.demand)
    demand[:, :92] = NAN  # all but the validation days
    with pytest.raises(NoUsableData, match="no observed demand up to 2024-04-01"):
        train.fit(replace(empty, demand=demand), spec())


@dataclass
class Compiled:
    """A training whose programs were not compiled before: its panel, its epochs, and the seconds of
    compiling up to each of them."""

    panel: Panel
    candidate: Candidate
    epochs: list[Epoch]
    seconds: list[float]
    compilations: Compilations


@pytest.fixture(scope="module")
def of_odd_depots(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Train a depot without history, one without orders, and one that is always closed, with the
    shortest history allowed."""
    ordinary = panel(5, 59)
    demand, open_ = np.array(ordinary.demand), np.array(ordinary.open)
    demand[1], demand[2], open_[3] = NAN, 0.0, False
    odd, declared = replace(ordinary, demand=demand, open=open_), spec(members=1, epochs=3)
    uncompiled = declared.model_copy(update={"model": declared.model.model_copy(update={"hidden": 9})})
    epochs, seconds = list[Epoch](), list[float]()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAX_COMPILATION_CACHE_DIR")  # it has programs from earlier sessions
        with panels.quickly(tmp_path_factory.mktemp("compiled")), count_compilations() as compilations:

            def on_epoch(epoch: Epoch) -> None:
                epochs.append(epoch)
                seconds.append(compilations.seconds)

            candidate = train.fit(odd, uncompiled, on_epoch=on_epoch)
    return Compiled(odd, candidate, epochs, seconds, compilations)


def test_the_second_epoch_compiles_nothing(of_odd_depots: Compiled) -> None:
    epochs, seconds = of_odd_depots.epochs, of_odd_depots.seconds
    assert 0 < epochs[0].compile_seconds <= of_odd_depots.compilations.seconds
    assert [epoch.compile_misses for epoch in epochs[1:]] == [0, 0] != [epochs[0].compile_misses, 0]
    assert seconds[0] > 0
    assert set(seconds) == {seconds[0]}


def test_a_depot_without_history_does_not_affect_others(of_odd_depots: Compiled) -> None:
    """Neither does one that is always closed, nor one without orders."""
    odd, candidate = of_odd_depots.panel, of_odd_depots.candidate
    assert all(np.isfinite(leaf).all() for leaf in leaves(candidate))
    forecast = to_onnx.forecaster(candidate)(odd)
    assert np.isfinite(forecast.quantiles).all()
    assert not forecast.quantiles[3].any()
    assert (forecast.quantiles[1] > 0).all()


def test_constants_are_measured_only_on_open_days_of_training() -> None:
    half_closed = bare(np.full((2, 10), np.expm1(2.0)), closed=[(1, day) for day in range(10)])
    demand = np.array(half_closed.demand)
    demand[0, :2], demand[0, 4:], demand[1] = np.expm1(4.0), 1e6, 1e6
    constants = train.constants(replace(half_closed, demand=demand), 4)
    np.testing.assert_allclose([constants["mean"], constants["spread"]], [3.0, 1.0], rtol=1e-6)


def test_yearly_features_are_used_with_enough_history() -> None:
    names = ("weekend", "year_sin_1", "year_cos_1", "holiday", "before_holiday", "counterpart")
    long_history = replace(panels.panel(1, 800), calendar_names=names)
    trusted = {days: train.constants(long_history, days) for days in (539, 540, 729, 730)}
    assert [float(constants["yearly"]) for constants in trusted.values()] == [0, 1, 1, 1]
    assert [constants["calendar"].tolist() for constants in trusted.values()] == [[1, 0, 0, 1, 1, 1]] * 3 + [[1] * 6]


SHARED = """
import numpy as np
from forecaster.model.fitting import devices, train
from tests.panels import panel, quickly, spec

with quickly():
    assert devices.mesh().size == 8
    candidate = train.fit(panel(5), spec(epochs=2))
print([value for row in candidate.summary["history"] for value in row.values()])
"""


def test_eight_devices_train_the_same_as_one_up_to_rounding() -> None:
    process = subprocess.run(
        [sys.executable, "-c", SHARED],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "8"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    alone = train.fit(panel(5), spec(epochs=2))
    expected = [value for row in alone.summary["history"] for value in row.values()]
    assert jax.device_count() == 1
    np.testing.assert_allclose(json.loads(process.stdout), expected, rtol=1e-4)


def test_a_profile_shows_epochs_after_compilation(tmp_path: Path) -> None:
    train.fit(panel(), spec(epochs=4), profile=tmp_path)
    (trace,) = tmp_path.rglob("*.xplane.pb")
    assert b"dot" in trace.read_bytes()  # the products of the recurrence
