from __future__ import annotations

import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.demand.ingest import ingest
from forecaster.ledger import lease
from forecaster.ledger.publication import Publication, PublishedDay, PublishedDepot
from forecaster.ledger.store import Ledger
from forecaster.operations import doctor
from forecaster.registry import outbox
from forecaster.registry.run_record import Record
from forecaster.serving import bundle, keys

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
CUTOFF = date(2024, 3, 5)
SECTION = "docs/operations.md, New secrets and keys"


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spec:
    monkeypatch.setattr(doctor, "_devices", lambda: iter(()))
    (tmp_path / "pipeline.yaml").write_text("name: t\ndemand: {source: {kind: csv, path: demand.csv}}\n", "utf-8")
    (tmp_path / "demand.csv").write_text("depot_id,date,demand\nA,2024-03-04,1\nA,2024-03-05,2\nA,x,2\n", "utf-8")
    return load(tmp_path / "pipeline.yaml")


@pytest.fixture
def ledger(spec: Spec) -> Iterator[Ledger]:
    with Ledger.open(spec.ledger_url) as opened:
        opened.start_run("n1", pipeline="t", as_of=NOW, spec_digest="d", at=NOW)
        yield opened


def publication() -> Publication:
    days = tuple(PublishedDay(CUTOFF + timedelta(days=k), k, True, (1.0, 2.0, 3.0)) for k in range(1, 8))
    return Publication(
        pipeline="t",
        run_id="n1",
        published_at=NOW,
        as_of=NOW,
        cutoff=CUTOFF,
        horizon=7,
        tier="champion",
        model="t v1",
        timezone="UTC",
        levels=(0.1, 0.5, 0.9),
        depots=(PublishedDepot("A", days),),
    )


def signs(spec: Spec | None, now: datetime = NOW) -> dict[str, doctor.Sign]:
    """Last sign of each topic."""
    return {sign.topic: sign for sign in doctor.examine(spec, now=now)}


def sign_text(spec: Spec, topic: str, now: datetime = NOW) -> tuple[str, str]:
    sign = signs(spec, now)[topic]
    return sign.state, sign.text


def test_a_publication_with_changed_rows_is_named(spec: Spec, ledger: Ledger) -> None:
    ledger.publish(publication())
    with closing(sqlite3.connect(spec.paths.folder / "ledger.db", isolation_level=None)) as past_the_ledger:
        past_the_ledger.execute("update published set quantiles = '[1.0, 2.0, 9.0]' where horizon = 2")
    damaged = [sign.text for sign in doctor.examine(spec, now=NOW) if sign.state == "broken"]
    [sentence] = damaged
    assert sentence.startswith("the ledger is damaged: rows of publication 1 are not those that were published; ")


def test_without_a_file_only_installation_and_machine_are_checked(spec: Spec) -> None:
    sign_of = signs(None)
    extras = {"[train]", "[flows]", "[dashboard]", "[postgres]", "[excel]", "[object-store]"}
    assert set(sign_of) == {"python", "packages", *extras, "machine", "disk", "port"}
    assert "broken" not in {sign.state for sign in sign_of.values()}
    assert sign_of["packages"].text.startswith("harbor-forecaster 0.1.0; numpy ")


def test_new_pipeline_gets_its_first_steps(spec: Spec) -> None:
    assert sign_text(spec, "lake") == (
        "warn",
        f"nothing at {spec.folder}/var/lake yet: the first `forecaster run FILE` fills it",
    )
    assert sign_text(spec, "ledger") == (
        "warn",
        f"there is no ledger at {spec.folder}/var/ledger.db yet; the first `forecaster run` makes it",
    )
    assert not spec.paths.folder.exists()


def test_lake_tables_are_listed_with_rows_and_versions(spec: Spec) -> None:
    ingest(spec, now=NOW)
    lake = [sign.text for sign in doctor.examine(spec, now=NOW) if sign.topic == "lake"]
    assert lake == [
        "demand: 2 rows, version 0",
        "quarantine: 1 row, version 0",
        "batches: 1 row, version 0",
        "owners: 1 row, version 0",
    ]


def test_last_run_is_shown_with_its_outcome(spec: Spec, ledger: Ledger) -> None:
    with ledger.transaction() as connection:
        lease.take(connection, "t", "n1", NOW)
    assert sign_text(spec, "last run", NOW + timedelta(days=2)) == ("ok", "n1, begun 2024-03-06 12:00: running")
    with ledger.transaction() as connection:
        lease.give_back(connection, "n1")
    state, text = sign_text(spec, "last run")
    assert (state, "it was killed, or its machine went down" in text) == ("warn", True)
    ledger.finish_run("n1", "failed", 1, "the loss stopped being a number", at=NOW)
    assert sign_text(spec, "last run") == (
        "warn",
        "n1, begun 2024-03-06 12:00: failed (exit code 1); the loss stopped being a number",
    )


def test_publication_is_shown_with_tier_and_age(spec: Spec, ledger: Ledger) -> None:
    assert sign_text(spec, "published")[0] == "warn"
    ledger.publish(publication())
    text = "2024-03-06 12:00, tier champion, t v1, cutoff 2024-03-05"
    assert sign_text(spec, "published") == ("ok", text)
    assert sign_text(spec, "published", NOW + timedelta(days=2)) == (
        "warn",
        f"{text}; that is old: does the schedule run?",
    )


def test_missing_model_is_reported_with_where_to_look(spec: Spec, ledger: Ledger) -> None:
    ledger.publish(replace(publication(), tier="fallback"))
    text = "2024-03-06 12:00, tier fallback, t v1, cutoff 2024-03-05; no model of its own forecasts: "
    assert sign_text(spec, "published") == ("warn", f"{text}see why none was admitted yet")
    ledger.promote("t", run_id="n1", bundle_digest="abc", by="gate", reason="admitted", at=NOW)
    assert sign_text(spec, "published") == ("warn", f"{text}see the line on the champion")


def test_missing_champion_bundle_is_a_warning(spec: Spec, ledger: Ledger) -> None:
    assert sign_text(spec, "champion")[0] == "warn"
    ledger.promote("t", run_id="n1", bundle_digest="abc", by="gate", reason="admitted", at=NOW)
    state, text = sign_text(spec, "champion")
    assert state == "warn"
    assert text.startswith(
        "abc, since 2024-03-06 12:00: admitted; its bundle is unusable, so the seasonal naive forecasts"
    )
    keys.signer(spec.paths.folder)
    assert sign_text(spec, "champion")[1].endswith(f"cannot be read: No such file or directory: {bundle.REMEDY}")


def test_expiry_of_the_deciding_key_is_announced_for_thirty_days(spec: Spec) -> None:
    assert "keys" not in signs(spec)  # before the first training
    name = keys.fingerprint(keys.signer(spec.paths.folder).public.public_bytes_raw())
    assert sign_text(spec, "keys") == ("ok", f"public key {name} is valid, without expiry")
    file = spec.paths.keys / "signing.pub.pem"
    public = file.read_text("utf-8")
    file.write_text(f"# for a year\nExpires: 2024-04-05\n{public}", "utf-8")
    assert sign_text(spec, "keys", NOW - timedelta(days=1)) == ("ok", f"public key {name} is valid, until 2024-04-05")
    state, text = sign_text(spec, "keys", NOW + timedelta(days=1))
    assert state == "warn"
    assert text.startswith(f"public key {name} has `Expires: 2024-04-05` in {file}, line 2, after which ")
    assert text.endswith(f"generate a new pair and copy its public key ({SECTION}), or set a later date")
    (spec.paths.keys / "former.pub.pem").write_text(f"Revoked: 2024-03-01 stolen\n{public}", "utf-8")
    state, text = sign_text(spec, "keys")
    assert state == "broken"
    wanted = f"public key {name} is revoked in {file.with_name('former.pub.pem')}, line 1: "
    assert text.startswith(f"{wanted}2024-03-01 stolen; ")
    (spec.paths.keys / "former.pub.pem").unlink()
    state, text = sign_text(spec, "keys", NOW + timedelta(days=31))
    assert (state, f"{name} is expired: `Expires: 2024-04-05` in " in text) == ("broken", True)
    file.write_text(f"Expires: soon\n{public}", "utf-8")
    assert sign_text(spec, "keys")[0] == "broken"
    assert f"{file}, line 1: found 'Expires: soon', wanted `Expires: 2027-06-30`" in sign_text(spec, "keys")[1]


def test_documentation_has_the_section_on_keys() -> None:
    page, _, heading = SECTION.partition(", ")
    assert f"\n## {heading}\n" in Path(page).read_text("utf-8")


def test_invalid_ledger_file_is_broken(spec: Spec) -> None:
    spec.paths.folder.mkdir()
    (spec.paths.ledger).write_bytes(b"something else entirely" * 100)
    assert sign_text(spec, "ledger")[0] == "broken"


def test_registry_check_reports_availability_and_pending_runs(spec: Spec) -> None:
    file = spec.paths.mlflow
    assert sign_text(spec, "registry") == (
        "warn",
        f"none at sqlite:///{file} yet: the first `forecaster run FILE` makes it",
    )
    outbox.enqueue(Record("n1", {}, {}, (), {}, {}, None), {}, spec)
    file.write_bytes(b"something else entirely" * 100)
    state, text = sign_text(spec, "registry")
    assert state == "warn"
    assert text.startswith(f"MLflow at sqlite:///{file} cannot be read: ")
    assert "file is not a database" in text
    assert text.endswith("; the next night tells it of 1 earlier run")
    file.unlink()
    outbox.send(spec)
    assert sign_text(spec, "registry") == ("ok", f"MLflow at sqlite:///{file} answers")


def test_uncreatable_state_folder_is_broken(spec: Spec) -> None:
    spec.paths.folder.write_text("a file", "utf-8")
    assert sign_text(spec, "disk")[0] == "broken"


def test_port_in_use_is_reported_with_an_alternative(spec: Spec) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        port_sign = {sign.topic: sign for sign in doctor.examine(None, now=NOW, port=port)}["port"]
    assert port_sign.state == "warn"
    assert f"--port {port + 1}" in port_sign.text


def test_missing_package_is_reported_with_the_install_command(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    version_of = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("prefect", "pyyaml") else version_of(name))
    sign_of = signs(None)
    assert sign_of["[flows]"].text == "missing prefect; for `forecaster run`: pip install 'harbor-forecaster[flows]'"
    assert sign_of["packages"].state == "broken"
    assert "missing pyyaml" in sign_of["packages"].text


@pytest.mark.parametrize(
    ("code", "out", "err", "expected"),
    [
        (0, "gpu NVIDIA H200\n\n", "", "JAX trains on gpu NVIDIA H200"),
        (1, "", "Traceback\nRuntimeError: no plugin\n", "JAX finds no device: RuntimeError: no plugin"),
    ],
)
def test_devices_are_those_reported_by_jax(
    monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str, expected: str
) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: "1")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], code, out, err))
    (sign,) = doctor._devices()
    assert sign.text.startswith(expected)
    assert sign.state == ("warn" if code else "ok")


@pytest.mark.parametrize(
    ("compiler", "state", "expected"),
    [
        ("g++-12", "ok", "g++-12 compiles the recurrence for this processor"),
        ("", "warn", "no C++ compiler: training takes up to 1.5 times as long: install one"),
    ],
)
def test_compiler_is_reported_for_training_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, compiler: str, state: str, expected: str
) -> None:
    answer = subprocess.CompletedProcess([], 0, f"cpu cpu\n{compiler}\n", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    devices, compiler_sign = doctor._devices()
    assert (devices.state, devices.text) == ("ok", "JAX trains on the CPU")
    assert (compiler_sign.topic, compiler_sign.state) == ("compiler", state)
    assert compiler_sign.text.startswith(expected)


def test_reported_compiler_is_the_one_used_for_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/bin/sh -x")
    assert [sign.text for sign in doctor._devices()][1].startswith("/bin/sh -x compiles")
    monkeypatch.setenv("CXX", "")
    assert [sign.text for sign in doctor._devices()][1].startswith("no C++ compiler")
