"""A ratio below two thirds of the baseline's fails, by name; nothing here measures time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import baseline, ratios

STEP, PAGE = "step: plain scan over ours", "page: first answer over kept"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Baseline of two ratios and a count."""
    copy = tmp_path / "baseline.json"
    content = {"versions": {}, "counts": {"onnx: nodes": [3, "nodes", 0]}, "ratios": {STEP: 3.0, PAGE: 30.0}}
    copy.write_text(baseline.text({**content, "history": [{"on": "x", "reason": "r", "changes": ["c"]}]}), "utf-8")
    monkeypatch.setattr(baseline, "FILE", copy)
    return copy


def gate(monkeypatch: pytest.MonkeyPatch, *words: str, **measured: float) -> int:
    monkeypatch.setattr(ratios, "ratios", lambda tries: iter({STEP: measured["step"], PAGE: measured["page"]}.items()))
    return ratios.main(words)


def test_passes_above_two_thirds_of_the_baseline(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_text("utf-8")
    assert gate(monkeypatch, step=2.01, page=90.0) == 0
    assert file.read_text("utf-8") == before


@pytest.mark.usefixtures("file")
def test_fails_below_two_thirds_and_names_the_ratio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(monkeypatch, step=1.99, page=30.0) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{STEP}: 1.99 times (baseline 3.00, at least 2.00): BELOW",
        f"{PAGE}: 30.00 times (baseline 30.00, at least 20.00)",
    ]


def test_a_reason_writes_ratios_but_no_counts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gate(monkeypatch, "--reason", "a slower page that says more", step=3.1, page=15.0) == 0
    content = baseline.load()
    assert content["ratios"] == {STEP: 3.1, PAGE: 15.0}
    assert content["counts"] == {"onnx: nodes": [3, "nodes", 0]}
    assert content["history"][-1]["reason"] == "a slower page that says more"
    assert content["history"][-1]["changes"][1] == f"{PAGE}: 30.0 before, now 15.00"
    assert file.read_text("utf-8") == baseline.text(content)


def test_without_a_reason_nothing_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        gate(monkeypatch, "--reason", " ", step=1.0, page=1.0)
    assert ended.value.code == 2


def test_both_sides_run_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    ratio = ratios._best_ratio(lambda: calls.append("ours"), lambda: calls.append("theirs"), 3)
    assert calls == ["ours", "theirs"] * 5  # the first two rounds compile
    assert ratio > 0
