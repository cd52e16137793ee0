"""Champions by hand, with a real registry: current and past champions, and the registry's view."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from forecaster.config import Spec, load
from forecaster.ledger.store import Ledger
from forecaster.registry import outbox
from forecaster.registry.run_record import Record
from forecaster.serving import bundle, keys
from forecaster.serving.encryption import Cipher
from tests import graphs
from tests.calls import Call
from tests.graphs import small as tiny

if TYPE_CHECKING:
    from forecaster.registry.mlflow_registry import Registry


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "name: t\ntimezone: America/New_York\ndemand: {source: {kind: csv, path: demand.csv}}\nstate: state\n", "utf-8"
    )
    return path


@pytest.fixture
def spec(file: Path) -> Spec:
    return load(file)


def bundles(spec: Spec, count: int) -> list[str]:
    """Write `count` bundles with different metadata."""
    folder, signer, weights = spec.paths.bundles, keys.signer(spec.paths.folder), {"one": np.ones(1)}
    return [
        bundle.write(folder, graphs.small(), weights, {"cutoff": f"2026-11-0{n}"}, signer).name
        for n in range(1, count + 1)
    ]


def record(run_id: str, digest: str | None = None) -> Record:
    return Record(
        run_id=run_id,
        parameters={"training.seed": 0},
        metrics={"candidate/wape": 0.1, "candidate/mase": float("nan")},
        epochs=({"train_loss": 0.5}, {"train_loss": 0.4}),
        tags={"verdict": "admitted"},
        inputs={"demand": 3},
        bundle=digest,
    )


def reign(spec: Spec, digests: list[str], *, versions: bool = False) -> None:
    """Add one run per bundle that promotes it, at eight in the morning of the days from 1 November
    on."""
    with Ledger.open(spec.ledger_url) as ledger:
        for day, digest in enumerate(digests, 1):
            at = datetime(2026, 11, day, 13, tzinfo=UTC)
            ledger.start_run(f"night-{day}", pipeline="t", as_of=at, spec_digest="d", at=at)
            version = None
            if versions:
                outbox.enqueue(record(f"night-{day}", digest), {"a.png": b"a picture"}, spec)
                version = outbox.send(spec)[f"night-{day}"]
            ledger.promote(
                "t",
                run_id=f"night-{day}",
                bundle_digest=digest,
                by="gate",
                reason="admitted",
                model_version=version,
                at=at,
            )


def reigning(spec: Spec) -> str:
    with Ledger.open_reader(spec.ledger_url) as ledger:
        champion = ledger.champion("t")
    assert champion is not None
    return champion.bundle_digest


def registry(spec: Spec) -> Registry:
    from forecaster.registry.mlflow_registry import Registry

    return Registry(spec.registry_url, "t", spec.paths.mlflow_artifacts)


def alias(registry: Registry, name: str) -> str | None:
    """Version named by an alias of the pipeline's model; None if there is none."""
    versions = registry._client.get_registered_model("t").aliases
    return str(versions[name]) if name in versions else None


def test_rollback_restores_the_previous_champion_and_updates_the_registry(spec: Spec, file: Path, call: Call) -> None:
    first, second = bundles(spec, 2)
    reign(spec, [first, second, second], versions=True)  # the third run confirms the second one's
    models = registry(spec)
    assert alias(models, "challenger") == models.version_of(second) == "2"
    code, out, err = call("rollback", file, "--reason", "too low on Fridays", "--by", "ada")
    assert (code, err) == (0, "")
    assert f"{first} (v1) in place of {second}, by ada: too low on Fridays" in out
    assert reigning(spec) == first
    assert (alias(models, "champion"), alias(models, "previous")) == ("1", None)
    code, out, _ = call("promote", file, second[:6], "--reason", "it was the holiday", "--by", "ada")
    assert (code, reigning(spec)) == (0, second)
    assert (alias(models, "champion"), alias(models, "previous")) == ("2", "1")


def test_two_rollbacks_go_back_two_champions_and_a_third_fails(spec: Spec, file: Path, call: Call) -> None:
    first, second, third = bundles(spec, 3)
    reign(spec, [first, second, third])
    for expected in (second, first):
        code, _, err = call("rollback", file, "--reason", "x", "--by", "ada")
        assert (code, reigning(spec)) == (0, expected)
        assert "The registry's aliases are as they were: it has no model of bundle" in err
    code, _, err = call("rollback", file, "--reason", "x", "--by", "ada")
    assert code == 2
    assert "nothing to roll back to: t has had no earlier champion" in err


def test_a_damaged_bundle_is_not_promoted(spec: Spec, file: Path, call: Call) -> None:
    first, second = bundles(spec, 2)
    reign(spec, [first, second])
    with (spec.paths.bundle(first) / "model.onnx").open("ab") as graph:
        graph.write(b"!")
    for words in (["rollback", file], ["promote", file, first]):
        code, _, err = call(*words, "--reason", "x", "--by", "ada")
        assert code == 1
        assert "not promoted: " in err
        assert "model.onnx" in err
    assert reigning(spec) == second


@pytest.mark.parametrize(("name", "message"), [("zzz", "'zzz' names no bundle"), ("", "'' names no bundle")])
def test_missing_bundle_is_reported(name: str, message: str, spec: Spec, file: Path, call: Call) -> None:
    (only_bundle,) = bundles(spec, 1)
    reign(spec, [only_bundle])
    code, _, err = call("promote", file, name, "--reason", "x", "--by", "ada")
    assert code == 2
    assert f"{message}, wanted one of {only_bundle}" in err


def test_champions_command_shows_the_champion_on_a_day(spec: Spec, file: Path, call: Call) -> None:
    first, second = bundles(spec, 2)
    reign(spec, [first, second])
    lines = call("champions", file)[1].splitlines()
    assert [line.split()[3] for line in lines] == [second, first]
    assert lines[0].startswith("2026-11-02 08:00:00 EST")
    assert call("champions", file, "--on", "2026-11-01")[1].split()[3] == first
    assert json.loads(call("champions", file, "--on", "2026-11-02", "--json")[1])[0]["bundle_digest"] == second
    answer = call("champions", file, "--on", "2026-10-31")[1]
    assert answer == "no model has reigned by the end of 2026-10-31: seasonal naive forecasts\n"
    code, _, err = call("champions", file, "--on", "yesterday")
    assert (code, err) == (2, "forecaster: --on: found 'yesterday', wanted a day such as 2026-11-01\n")


# --- a registry that was down -----------------------------------------------------------------------------------------


def test_missed_runs_are_registered_later_exactly_once(spec: Spec, tmp_path: Path) -> None:
    (digest_of_first,) = bundles(spec, 1)
    down = spec.model_copy(update={"registry": "sqlite:////proc/nowhere/mlflow.db"})
    for night, digest in (("night-1", digest_of_first), ("night-2", None)):
        outbox.enqueue(record(night, digest), {"a.png": b"a picture"}, spec)
        with pytest.raises(Exception, match="proc/nowhere"):
            outbox.send(down)
    assert outbox.send(spec) == {"night-1": "1"}
    assert outbox.send(spec) == {}
    runs = registry(spec)._client.search_runs(["1"])
    assert sorted(run.info.run_name for run in runs) == ["night-1", "night-2"]
    (first,) = [run for run in runs if run.info.run_name == "night-1"]
    assert first.data.metrics == {"candidate/wape": 0.1, "train_loss": 0.4}
    assert [(dataset.dataset.name, dataset.dataset.digest) for dataset in first.inputs.dataset_inputs] == [
        ("demand", "3")
    ]


def test_partly_registered_run_is_completed_without_duplicates(spec: Spec) -> None:
    for _ in range(2):
        outbox.enqueue(record("night-1"), {}, spec)
        outbox.send(spec)
    assert len(registry(spec)._client.search_runs(["1"])) == 1


def test_registry_gets_the_model_in_encrypted_form(spec: Spec) -> None:
    small, about = tiny(), {"encoding": {"covariates": [], "statics": []}, "levels": [0.5], "lookback": 3}
    locked = bundle.write(spec.paths.bundles, small, {}, about, keys.signer(spec.paths.folder), Cipher(bytes(32)))
    outbox.enqueue(record("night-1", locked.name), {"a.png": b"a picture"}, spec)
    version = outbox.send(spec)["night-1"]
    models = registry(spec)
    assert models.version_of(locked.name) == version == "1"
    models.promote(version)
    assert alias(models, "champion") == "1"
    artifacts = [path for path in spec.paths.folder.rglob("model.onnx") if path.is_file()]
    assert len(artifacts) == 2  # the bundle's own and the registry's copy
    assert all(small not in path.read_bytes() for path in spec.paths.folder.rglob("*") if path.is_file())


def test_older_bundle_has_no_model_card(spec: Spec, file: Path, call: Call) -> None:
    [name] = bundles(spec, 1)
    code, out, err = call("champions", file, "--card", name[:6])
    assert (code, out) == (2, "")
    assert f"bundle {name} has no model card, wanted one of a later version" in err
    assert call("champions", file, "--card", "zz")[2].startswith(
        f"forecaster: 'zz' names no bundle, wanted one of {name}"
    )
    assert "found --card with --on or --json" in call("champions", file, "--card", name, "--json")[2]
