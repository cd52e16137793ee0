"""The prior on disk: trusted only if unchanged, small, and with the license of all its training
data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forecaster.config.model import PRIOR_HIDDEN, PRIOR_LAYERS
from forecaster.demand.panel import calendar
from forecaster.errors import TrainingError
from forecaster.model.prior import store
from tests.panels import candidate


def test_the_packages_own_prior_is_complete_and_has_its_provenance() -> None:
    prior, about = store.load(), json.loads((store.FOLDER / "prior.json").read_text("utf-8"))
    assert prior.digest == store.digest()
    assert (prior.model.architecture["layers"], prior.model.architecture["hidden"]) == (PRIOR_LAYERS, PRIOR_HIDDEN)
    assert prior.model.calendar_names == calendar.NAMES
    assert (store.FOLDER / "prior.npz").stat().st_size < store.MOST_BYTES
    assert about["command"].startswith("python -m forecaster.training.pretrain --steps")
    assert all(panel["licence"] and panel["last_day"] for panel in about["panels"])
    closed = {"rossmann", "favorita_transactions", "recruit_restaurants"}  # their terms allow only evaluation
    assert not closed & {panel["name"] for panel in about["panels"]}


def test_a_changed_prior_is_rejected(tmp_path: Path) -> None:
    digest = store.save(candidate(), {"command": "none"}, tmp_path)
    prior = store.load(tmp_path)
    assert (prior.digest, prior.model.summary) == (digest, candidate().summary)
    file = tmp_path / "prior.npz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(TrainingError, match=rf"{file} is damaged: found sha256 \w+, wanted {digest}: reinstall"):
        store.load(tmp_path)
    file.unlink()
    with pytest.raises(TrainingError, match=r"could not be read .* set training.start: fresh"):
        store.load(tmp_path)
    (tmp_path / "prior.json").write_text("{}", "utf-8")
    with pytest.raises(TrainingError, match=r"prior.json says no sha256"):
        store.load(tmp_path)
