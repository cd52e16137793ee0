"""Pretraining: a prior from simulated networks, reproducible from a seed, and no panel without a
license."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forecaster.errors import SpecError
from forecaster.model.prior import store
from forecaster.training import pretrain
from tests.panels import quickly, spec

ROOT = Path(__file__).parents[2]


def test_the_command_writes_a_prior_with_its_provenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"DEPOTS": 4, "EPOCHS": 1, "PIECE": 460, "_spec": lambda seed: spec(seed=seed, epochs=1)}
    for name, value in small.items():
        monkeypatch.setattr(pretrain, name, value)
    monkeypatch.setattr(pretrain.jax_setup, "configure", lambda _: None)  # keeps the session's programs
    with quickly():
        words = ["--out", str(tmp_path), "--steps", "2", "--simulated", "2", "--seed", "3"]
        assert pretrain.main(words) == 0
    prior, about = store.load(tmp_path), json.loads((tmp_path / "prior.json").read_text("utf-8"))
    assert prior.digest in capsys.readouterr().out
    assert about["command"] == "python -m forecaster.training.pretrain --steps 2 --simulated 2 --seed 3"
    assert (about["settings"]["seed"], about["panels"]) == (3, [])
    assert (prior.model.summary["depots"], prior.model.encoding.covariates) == (8, ("promo",))


def test_a_dataset_without_an_open_license_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "data" / "real" / "rossmann.yaml"
    with pytest.raises(SpecError, match=r"rossmann.yaml: no licence is known of 'rossmann', wanted one of: bayarea"):
        pretrain.open_panel(file)
    assert pretrain.main([str(file)]) == 1
    assert "no licence is known" in capsys.readouterr().out
    assert all((ROOT / "data" / "real" / f"{name}.yaml").exists() for name in pretrain.LICENCES)
