"""Checkpoints: they are restored bit by bit, or not at all, or there is an error with the damaged
file's name."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.errors import CheckpointError
from forecaster.model.fitting.checkpoints import Checkpoints

ROOT = Path(__file__).parents[3]
HISTORY = [{"number": 1, "loss": 0.1 + 0.2, "seconds": 1e-9}, {"number": 2, "loss": float("inf"), "seconds": 2.0}]


class State(NamedTuple):
    parameters: Any
    optimizer: Any
    key: Any
    best_loss: Any


def state(seed: int = 0) -> State:
    """State of a trainer: nested containers, including empty ones, keys, non-finite numbers, empty
    arrays."""
    random = jax.random.normal(jax.random.key(seed), (3, 4))
    return State(
        parameters={"gru": {"w": random, "half": random.astype(jnp.bfloat16)}, "none": jnp.zeros((0, 4))},
        optimizer=((), (jnp.int32(seed), {"mu": -random})),
        key=jax.random.split(jax.random.key(seed), 3),
        best_loss=jnp.array([jnp.nan, jnp.inf, -0.0]),
    )


def bits(tree: Any) -> list[tuple[str, str, bytes]]:
    """Path, dtype and bytes of each leaf."""
    described = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        plain = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        described.append((jax.tree_util.keystr(path), str(leaf.dtype), np.asarray(plain).tobytes()))
    return described


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder with the checkpoints of epochs 1 and 2, for tests to copy."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for number in (1, 2):
        Checkpoints(folder, "p").save(number, state(number), HISTORY[:number])
    return folder


@pytest.fixture
def checkpoints(written: Path, tmp_path: Path) -> Checkpoints:
    return Checkpoints(Path(shutil.copytree(written, tmp_path / "own")), "p")


def test_a_checkpoint_is_restored_bit_by_bit(checkpoints: Checkpoints) -> None:
    saved = checkpoints.latest(state())
    assert saved is not None
    assert (saved.number, saved.history) == (2, HISTORY)
    assert isinstance(saved.state, State)
    assert bits(saved.state) == bits(state(2))
    random = [jax.random.normal(carried.key[0], (2,)) for carried in (saved.state, state(2))]
    assert jnp.array_equal(*random)
    # As uncommitted as a fresh state, so that both use the same compiled epoch.
    assert not any(leaf.committed for leaf in jax.tree.leaves(saved.state))
    assert jax.eval_shape(lambda: saved.state) == jax.eval_shape(state)


def test_without_a_checkpoint_there_is_none(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "absent", "p").latest(state()) is None


def test_the_last_two_are_kept_and_saving_an_epoch_again_replaces_it(checkpoints: Checkpoints) -> None:
    checkpoints.save(5, state(5), HISTORY)
    assert sorted(os.listdir(checkpoints.folder)) == ["2", "5"]
    checkpoints.save(5, state(6), [])
    assert sorted(os.listdir(checkpoints.folder)) == ["2", "5"]
    assert (saved := checkpoints.latest(state())) is not None
    assert (bits(saved.state), saved.history) == (bits(state(6)), [])


def test_a_training_that_started_over_is_not_mistaken_for_the_one_before(checkpoints: Checkpoints) -> None:
    checkpoints.save(1, state(7), [])
    assert (saved := checkpoints.latest(state())) is not None
    assert (saved.number, bits(saved.state)) == (1, bits(state(7)))


def test_a_checkpoint_for_another_purpose_is_ignored(checkpoints: Checkpoints) -> None:
    other_purpose = Checkpoints(checkpoints.folder, "other")
    assert other_purpose.latest(state()) is None
    other_purpose.save(3, state(3), [])
    assert checkpoints.latest(state()) is not None, "the one before, which is still there"
    assert (saved := other_purpose.latest(state())) is not None
    assert saved.number == 3


def test_clear_removes_only_checkpoints(checkpoints: Checkpoints) -> None:
    (checkpoints.folder / "notes.txt").write_text("mine")
    (checkpoints.folder / "3").mkdir()
    checkpoints.clear()
    assert os.listdir(checkpoints.folder) == ["notes.txt"]


def test_a_flipped_byte_in_any_file_is_rejected_by_name(checkpoints: Checkpoints) -> None:
    files = sorted(path for path in (checkpoints.folder / "2").rglob("*") if path.is_file())
    assert {"manifest.json", "about.json", "_METADATA", "manifest.ocdbt"} <= {path.name for path in files}
    for file in files:
        whole = file.read_bytes()
        for place in {0, len(whole) // 2, len(whole) - 1}:
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x20]) + whole[place + 1 :])
            with pytest.raises(CheckpointError, match=r"damaged: found .+, wanted .+; start over") as refused:
                checkpoints.latest(state())
            assert str(file) in str(refused.value)
        file.write_bytes(whole)
    assert checkpoints.latest(state()) is not None


def test_a_truncated_missing_or_additional_file_is_rejected_by_name(checkpoints: Checkpoints) -> None:
    arrays = checkpoints.folder / "2" / "arrays"
    largest = max((path for path in arrays.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    whole = largest.read_bytes()
    largest.write_bytes(whole[:-1])
    with pytest.raises(CheckpointError, match=f"{largest.name} is damaged: found sha256 .+, wanted sha256"):
        checkpoints.latest(state())
    largest.unlink()
    with pytest.raises(CheckpointError, match=f"{largest.name} is damaged: found no such file, wanted sha256"):
        checkpoints.latest(state())
    largest.write_bytes(whole)
    (arrays / "more").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"more is damaged: found sha256 .+, wanted no such file"):
        checkpoints.latest(state())


def test_a_rewritten_or_moved_manifest_is_rejected(checkpoints: Checkpoints) -> None:
    manifest = checkpoints.folder / "2" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["content"]["files"].popitem()
    manifest.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"manifest\.json is damaged"):
        checkpoints.latest(state())
    shutil.rmtree(checkpoints.folder / "2")
    (checkpoints.folder / "1").rename(checkpoints.folder / "4")
    with pytest.raises(CheckpointError, match="4 holds epoch 1, wanted 4"):
        checkpoints.latest(state())


def test_another_tree_dtype_shape_or_kind_of_key_is_rejected_naming_both(checkpoints: Checkpoints) -> None:
    like = state()
    for changed, complaint in [
        (like._replace(best_loss=jnp.zeros(4)), r"holds \.best_loss float32\[3\], wanted \.best_loss float32\[4\]"),
        (like._replace(best_loss=jnp.zeros(3, jnp.int32)), r"wanted \.best_loss int32\[3\]"),
        (like._replace(parameters={"gru": like.parameters["gru"]}), r"holds \.parameters\['none'\] .+ architecture"),
        (like._replace(key=jax.random.split(jax.random.key(0, impl="rbg"), 3)), r"holds \.key key<fry>.+key<rbg>"),
        ((like, jnp.zeros(1)), "holds .+, wanted .+; start over"),
    ]:
        with pytest.raises(CheckpointError, match=complaint):
            checkpoints.latest(changed)


def test_a_save_without_a_manifest_is_ignored_and_removed_by_the_next(checkpoints: Checkpoints) -> None:
    shutil.copytree(checkpoints.folder / "2", checkpoints.folder / "3")
    (checkpoints.folder / "3" / "manifest.json").rename(checkpoints.folder / "3" / "manifest.json.new")
    assert (saved := checkpoints.latest(state())) is not None
    assert saved.number == 2
    checkpoints.save(4, state(4), [])
    assert sorted(os.listdir(checkpoints.folder)) == ["2", "4"]


def test_an_unwritable_folder_raises_checkpoint_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="epoch 1 could not be saved in"):
        Checkpoints(tmp_path / "file", "p").save(1, state(), [])


def test_nothing_is_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pickled")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    checkpoints = Checkpoints(tmp_path, "p")
    checkpoints.save(1, state(1), HISTORY)
    assert checkpoints.latest(state()) is not None


LOOP = """
import sys
import jax, jax.numpy as jnp
from pathlib import Path
from forecaster.model.fitting.checkpoints import Checkpoints
from tests import forked

def state(number):
    return {"w": jnp.full((50, 100), float(number)), "key": jax.random.key(number)}

def save_for_ever():
    checkpoints = Checkpoints(Path(sys.argv[1]), "p")
    saved = checkpoints.latest(state(0))
    number = saved.number if saved else 0
    print("goes on after", number, flush=True)
    while True:
        number += 1
        checkpoints.save(number, state(number), [{"number": n} for n in range(1, number + 1)])
        print("saved", number, flush=True)

for _ in sys.stdin:
    print(forked.end(forked.start(save_for_ever, on_fork=lambda pid: print(pid, flush=True))), flush=True)
"""


@pytest.mark.long
def test_a_training_killed_while_saving_resumes_from_the_last_complete_checkpoint(tmp_path: Path) -> None:
    dice, last = random.Random(3), 0
    command = [sys.executable, "-c", LOOP, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        for _ in range(8):
            forks.stdin.write("again\n")
            forks.stdin.flush()
            training = int(forks.stdout.readline())
            assert forks.stdout.readline() == f"goes on after {last}\n"
            assert forks.stdout.readline() == f"saved {last + 1}\n"
            time.sleep(dice.uniform(0, 0.6))
            os.kill(training, signal.SIGKILL)
            announced = last + 1
            while (line := forks.stdout.readline()).startswith("saved"):
                announced = int(line.split()[-1])
            assert line == f"{-signal.SIGKILL}\n"
            like = {"w": jnp.zeros((50, 100)), "key": jax.random.key(0)}
            saved = Checkpoints(tmp_path, "p").latest(like)
            assert saved is not None
            assert saved.number in (announced, announced + 1), "killed after the manifest and before the word"
            assert bits(saved.state) == bits(
                {"w": jnp.full((50, 100), float(saved.number)), "key": jax.random.key(saved.number)}
            )
            assert len(saved.history) == saved.number
            last = saved.number
        forks.stdin.close()


SHARDED = """
import sys
import jax, jax.numpy as jnp, numpy as np
from pathlib import Path
from forecaster.model.fitting import devices
from forecaster.model.fitting.checkpoints import Checkpoints
from tests import forked

def come_back(count):
    jax.config.update("jax_num_cpu_devices", count)
    rows = jnp.arange(64.0).reshape(16, 4)
    fresh = {"rows": devices.deal(jnp.zeros((16, 4)), 16), "key": devices.replicate(jax.random.key(1))}
    checkpoints = Checkpoints(Path(sys.argv[1]), "p")
    saved = checkpoints.latest(fresh)
    if saved is None:
        checkpoints.save(1, {"rows": devices.deal(rows, 16), "key": devices.replicate(jax.random.key(9))}, [])
    else:
        assert saved.state["rows"].sharding == fresh["rows"].sharding, saved.state["rows"].sharding
        assert saved.state["key"].sharding == fresh["key"].sharding, saved.state["key"].sharding
        np.testing.assert_array_equal(saved.state["rows"], rows)
        assert jnp.array_equal(jax.random.key_data(saved.state["key"]), jax.random.key_data(jax.random.key(9)))
    print(jax.device_count(), saved is not None, flush=True)

for count in (8, 8, 2):
    assert forked.child(lambda: come_back(count)) == 0
"""


def test_sharded_arrays_are_restored_on_the_current_number_of_devices(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHARDED, str(tmp_path)]
    process = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    assert process.stdout.splitlines() == ["8 False", "8 True", "2 True"]
