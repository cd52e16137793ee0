"""A command whose arguments name something missing exits with 2, as documented, and creates
nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.ledger.store import Ledger
from tests.calls import Call
from tests.flows.tiny import pipeline

WITHOUT_LEDGER: tuple[tuple[str, ...], ...] = (
    ("champions",),
    ("champions", "--on", "2026-11-01"),
    ("overrides",),
    ("overrides", "--worth"),
    ("links",),
    ("links", "--revoke", "nobody"),
    ("audit",),
    ("replay", "no-run"),
    ("rollback", "--reason", "worse"),
    ("canary",),
    ("backup", "--to", "copy"),
)
WRONG: tuple[tuple[tuple[str, ...], str], ...] = (
    (("champions", "--on", "2026-13-01"), "--on: found '2026-13-01'"),
    (("links", "--revoke", "nobody"), "there is no link 'nobody'"),
    (("replay", "no-run"), "run 'no-run' is not in the ledger"),
    (("rollback", "--reason", "worse"), "nothing to roll back to"),
    (("rollback", "--reason", " "), "--reason: found nothing"),
    (("canary", "--stop"), "--reason: found nothing"),
    (("canary", "--stop", "--reason", "worse"), "nothing to stop"),
    (("canary", "--reason", "worse"), "wanted together with --stop"),
    (("backup", "--to", "{file}"), "exists and is not an empty folder"),
    (("backup", "--to", "{folder}"), "exists and is not an empty folder"),
    (("backup", "--to", "{file}/copy"), "cannot be made there"),
    (("restore", "--from", "{folder}/nowhere"), "found no backup.json"),
    (("restore", "--from", "{folder}"), "found no backup.json"),
    (("restore", "--from", "{file}"), "found no backup.json"),
    (("audit", "--limit", "0"), "--limit"),
    (("withdraw", "7"), "there is no override 7"),
)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spec:
    monkeypatch.chdir(tmp_path)
    return load(pipeline(tmp_path / "fleet", days=20))


@pytest.mark.parametrize("more", [(), ("--due",)], ids=["run", "run --due"])
def test_manual_run_on_an_archive_ends_with_the_command_to_type(call: Call, spec: Spec, more: tuple[str, ...]) -> None:
    code, out, err = call("run", spec.folder / "pipeline.yaml", "--plain", *more)
    assert (code, out) == (4, "")
    assert "the newest reading is of 2026-01-20" in err
    assert not spec.paths.folder.exists()


def at(spec: Spec, words: tuple[str, ...]) -> list[str]:
    file = spec.folder / "pipeline.yaml"
    command, *rest = (word.format(file=file, folder=spec.folder) for word in words)
    return [command, str(file), *rest]


@pytest.mark.parametrize("words", WITHOUT_LEDGER, ids=" ".join)
def test_missing_ledger_is_reported_and_not_created(spec: Spec, call: Call, words: tuple[str, ...]) -> None:
    code, _, err = call(*at(spec, words))
    assert (code, "there is no ledger at " in err) == (2, True), err
    assert "the first `forecaster run` makes it" in err
    assert not spec.paths.folder.exists()


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=lambda value: " ".join(value) if value else "")
def test_wrong_arguments_exit_with_2(spec: Spec, call: Call, words: tuple[str, ...], sentence: str) -> None:
    Ledger.open(spec.ledger_url).close()
    code, _, err = call(*at(spec, words))
    assert (code, sentence in err) == (2, True), err


def test_invalid_day_is_reported_before_the_ledger_is_opened(spec: Spec, call: Call) -> None:
    code, _, err = call(*at(spec, ("champions", "--on", "2026-13-01")))
    assert (code, "--on: found '2026-13-01'" in err) == (2, True)
