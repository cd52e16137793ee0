"""The performance gate: counts equal the baseline, and a regression is reported with its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import baseline
from tests.benchmarks.baseline import Difference


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs that the training of `now` has compiled."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def now(programs: Path) -> dict[str, list[Any]]:
    """All current counts."""
    return baseline.measure_all(programs)


def comparable(group: str) -> dict[str, Any]:
    """Return the baseline's counts of a group; skip the test if they are of other versions than
    those installed."""
    before = baseline.load()
    if reason := baseline.why_incomparable(group, before):
        pytest.skip(reason)
    return {name: entry for name, entry in before["counts"].items() if baseline.group_of(name) == group}


@pytest.mark.parametrize("group", list(baseline.FOLLOWS_FROM))
def test_counts_equal_the_baseline(group: str, now: dict[str, list[Any]]) -> None:
    before = comparable(group)
    changes = baseline.differences(before, {name: n for name, n in now.items() if baseline.group_of(name) == group})
    assert changes == [], baseline.message(changes)


def test_a_second_training_compiles_nothing(now: dict[str, list[Any]]) -> None:
    assert now["second training: programs compiled"] == [0, "programs"]


# --- planted regressions ----------------------------------------------------------------------------------------------

EXTRA_COMPILE = """
import jax
from forecaster.model.fitting import training_loop
recurrence = training_loop.recurrence
def one_more(spec):
    jax.jit(lambda x: 3 * x + 1)(2.0)  # nobody has compiled this
    return recurrence(spec)
training_loop.recurrence = one_more
"""
ONE_QUERY_A_DEPOT = """
from dashboards.ops.reading import editions
outline = editions.Edition.outline
def with_the_past(edition):
    depots = outline(edition)
    for depot in depots:
        with edition.ledger.transaction() as connection:
            editions.overview.earlier_forecasts(connection, edition.head, depot.depot_id)
    return depots
editions.Edition.outline = with_the_past
"""
RECURRENCE_TWICE = """
from forecaster.model.network import encoder_decoder, gru
def twice(*arguments):
    return (gru.layer(*arguments) + gru.layer(*arguments[:-1], -arguments[-1])) / 2
forward = encoder_decoder.member_forward
def slower(*arguments, **options):
    return forward(*arguments, **{**options, "layer": twice})
encoder_decoder.member_forward = slower
"""


def changes_of_planted(group: str, planted: dict[str, list[Any]]) -> list[Difference]:
    """Return the differences of the counts that were measured again."""
    before = comparable(group)
    return baseline.differences({name: before[name] for name in planted}, planted)


@pytest.mark.long
def test_an_extra_compile_is_caught(now: dict[str, list[Any]], programs: Path) -> None:
    assert now  # measures first, so that the programs are compiled
    changes = changes_of_planted(
        "training", baseline.measure("training", plant=EXTRA_COMPILE, COUNTS_CACHE=str(programs))
    )
    assert [str(difference) for difference in changes] == [
        "second training: programs compiled: 0 programs before, now 1"
    ]
    assert baseline.message(changes).endswith(
        'if this is intended, record the reason: python -m tests.benchmarks.baseline --reason "…"'
    )


@pytest.mark.long
def test_a_query_for_each_row_of_a_page_is_caught() -> None:
    changes = changes_of_planted(
        "pages", baseline.measure("pages", plant=ONE_QUERY_A_DEPOT, COUNTS_ADDRESSES="/ /champion")
    )
    [difference] = changes  # and none of the page that lists no depots
    assert difference.name == "page /: queries"
    assert difference.now is not None
    assert difference.before is not None
    assert difference.now >= difference.before + 6  # depots


@pytest.mark.long
def test_a_slower_step_is_caught() -> None:
    planted = baseline.measure("step", plant=RECURRENCE_TWICE, COUNTS_PROGRAMS="step")
    changes = {difference.name: difference for difference in changes_of_planted("step", planted)}
    slower = changes["step: FLOPs"]
    assert slower.now is not None
    assert slower.before is not None
    assert slower.now > 1.05 * slower.before  # XLA counts one day of the scan over days, which is now there twice
    assert "before, now" in str(slower)
    assert {"step: instructions", "step: bytes"} <= changes.keys()


# --- the file ---------------------------------------------------------------------------------------------------------


def test_every_count_has_its_reason() -> None:
    content = baseline.load()
    assert content["history"]
    assert all(entry["reason"].strip() and entry["changes"] for entry in content["history"])
    assert {entry[2] for entry in content["counts"].values()} <= set(range(len(content["history"])))
    assert baseline.text(content) == baseline.FILE.read_text("utf-8")


def test_a_difference_shows_old_and_new_count() -> None:
    before = {"onnx: nodes": [400, "nodes"], "onnx: gone": [1, "nodes"], "page /: bytes": [1000, "bytes"]}
    changes = baseline.differences(
        before, {"onnx: nodes": [410, "nodes"], "onnx: new": [2, "nodes"], "page /: bytes": [1020, "bytes"]}
    )
    assert [str(difference) for difference in changes] == [
        "onnx: gone: 1 nodes before, now there is none",
        "onnx: new: not in the baseline, now 2 nodes",
        "onnx: nodes: 400 nodes before, now 410 (+2.5 %)",
    ]
    [larger] = baseline.differences({"page /: bytes": [1000, "bytes"]}, {"page /: bytes": [1021, "bytes"]})
    assert str(larger) == "page /: bytes: 1,000 bytes before, now 1,021 (+2.1 %)"
    assert baseline.differences({"page /: bytes": [400, "bytes"]}, {"page /: bytes": [384, "bytes"]}) == []
    assert baseline.differences({"page /: bytes": [400, "bytes"]}, {"page /: bytes": [383, "bytes"]}) != []
    assert baseline.differences({"page /: queries": [50, "SQL"]}, {"page /: queries": [49, "SQL"]}) != []


def test_rewriting_keeps_other_groups_small_differences_and_the_history() -> None:
    first = baseline.rewritten({}, {"page /: bytes": [1000, "bytes"], "onnx: nodes": [4, "nodes"]}, "the first")
    second = baseline.rewritten(first, {"page /: bytes": [1019, "bytes"], "page /: queries": [3, "SQL"]}, " a view ")
    assert second["counts"] == {
        "onnx: nodes": [4, "nodes", 0],
        "page /: bytes": [1000, "bytes", 0],
        "page /: queries": [3, "SQL", 1],
    }
    assert [entry["reason"] for entry in second["history"]] == ["the first", "a view"]
    assert second["history"][1]["changes"] == ["page /: queries: not in the baseline, now 3 SQL"]
    assert json.loads(baseline.text(second)) == second


def test_without_a_reason_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="found no reason, wanted a sentence"):
        baseline.rewritten({}, {}, " ")
    with pytest.raises(SystemExit) as ended:
        list(baseline.main(["--reason", "  "]))
    assert ended.value.code == 2
    assert "--reason: found nothing, wanted a sentence" in capsys.readouterr().err


@pytest.fixture
def other_jax() -> dict[str, Any]:
    """Baseline of another jax than the installed one."""
    return {"versions": {**baseline.versions(), "jax": "0.1.0"}}


def test_counts_of_other_versions_are_skipped_with_a_reason(
    other_jax: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "_locked", lambda: {"jax": "9.9.9"})
    reason = baseline.why_incomparable("step", other_jax)
    assert reason == f"counts of step are of jax 0.1.0, here is {baseline.versions()['jax']}"
    assert baseline.why_incomparable("pages", other_jax) is None


def test_a_baseline_older_than_the_lock_fails(other_jax: dict[str, Any]) -> None:
    with pytest.raises(
        AssertionError, match=r"the baseline of step is of jax 0\.1\.0, here is .*, which the lock pins"
    ):
        baseline.why_incomparable("step", other_jax)
