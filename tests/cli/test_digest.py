"""Command for morning digests: its output, and its error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.calls import Call, caller
from tests.dashboards.seed import fill, publication

HEAD = "name: harbor-fleet\ndemand: {source: {kind: csv, path: d.csv}}\nledger: sqlite:///ledger.db\n"
TO_BOSTON = "notify: {digest: [{to: forecaster-email/boston, city: Boston}]}\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digest") / "pipeline.yaml"
    path.write_text(HEAD + TO_BOSTON, "utf-8")
    fill(f"sqlite:///{path.parent / 'ledger.db'}", publication())
    return path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(monkeypatch, capsys)


def test_digest_is_shown_as_text_html_and_chat_message(call: Call, file: Path) -> None:
    code, text, _ = call("digest", file, "--depot", "BOS-01")
    assert (code, text.partition("\n")[0][:22]) == (0, "Old forecast: BOS-01, ")
    assert "- Tue 17 Jun: 346 orders (271–421), 9 drivers" in text
    assert "- BOS-02: " in call("digest", file, "--city", "Boston")[1]
    assert call("digest", file, "--as", "html")[1].startswith("<!doctype html>")
    german = call("digest", file, "--as", "short", "--language", "de")[1]
    assert german.startswith("Alte Prognose: alle 6 Depots, ")
    assert "•" in german


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--depot", "BOS-01", "--city", "Boston"], "found --depot and --city, wanted only one of them"),
        (["--again"], "found --again without --send, which it needs"),
        (
            ["--depot", "BOS-1"],
            "--depot: found 'BOS-1', wanted one of those that are published; did you mean 'BOS-01'?",
        ),
        (["--city", "Ulm"], "--city: found 'Ulm', wanted one of those that are published"),
        (
            ["--send", "--depot", "BOS-01"],
            "found no digest of BOS-01 in notify.digest, wanted one, as in {to: slack-webhook/depots}",
        ),
    ],
)
def test_impossible_digest_requests_are_reported(call: Call, file: Path, arguments: list[str], message: str) -> None:
    assert call("digest", file, *arguments) == (2, "", f"forecaster: {message}\n")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{to: boston}", "found 'boston', wanted type/name of a block"),
        ("{to: a/b, depot: D1, city: C}", "found depot 'D1' and city 'C', wanted one of them, or an entry for each"),
        ("{to: a/b, language: '1'}", "found '1', wanted the tag of a language, as de or en-GB"),
    ],
)
def test_rejects_invalid_receivers(call: Call, tmp_path: Path, entry: str, message: str) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"{HEAD}notify: {{digest: [{entry}]}}\n", "utf-8")
    code, _, complaint = call("digest", path)
    assert (code, message in complaint) == (2, True), complaint
