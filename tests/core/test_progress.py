"""Progress of a night: plain lines without a terminal, and timings that are kept even on errors."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from rich.console import Console

from forecaster.core import progress
from forecaster.core.metric_names import STAGES
from forecaster.core.progress import LOG, NightProgress

EXPECTED = dict.fromkeys(STAGES, 0.0) | {"train": 100.0, "export": 20.0}


class Clock:
    """A clock that tests set."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(progress, "time", fake)
    return fake


def night(*, terminal: bool = False) -> tuple[NightProgress, io.StringIO]:
    out = io.StringIO()
    return NightProgress(EXPECTED, Console(file=out, force_terminal=terminal, width=200, color_system=None)), out


def test_without_a_terminal_there_are_plain_lines(clock: Clock) -> None:
    progress, out = night()
    with progress.live_bar():
        with progress.stage("train"):
            clock.now += 65
            progress.advance(0.5, "epoch 15 of 30 [loss 0.01]")
        with progress.stage("export"):
            pass
        progress.say("published [all]")
    assert out.getvalue().splitlines() == [
        f"00:00 elapsed, about 02:00 left  train     {STAGES['train'].meaning}",
        "01:05 elapsed, about 00:55 left  train     epoch 15 of 30 [loss 0.01]",
        "01:05 elapsed, about 00:20 left  export    ONNX, and its parity with JAX",
        "published [all]",
    ]
    assert "\x1b" not in out.getvalue()


def test_lines_about_one_stage_are_seconds_apart(clock: Clock) -> None:
    progress, out = night()
    with progress.stage("train"):
        for epoch in range(100):
            clock.now += 1
            progress.advance(epoch / 100, f"epoch {epoch}")
    assert 10 < len(out.getvalue().splitlines()) < 25


def test_remaining_time_falls(clock: Clock) -> None:
    progress, _ = night()
    remaining = [progress.remaining]
    with progress.stage("train"):
        for second in range(100):
            clock.now += 1
            if second >= 30:
                progress.advance((second - 30) / 70, "")
            remaining.append(progress.remaining)
    remaining.append(progress.remaining)
    with progress.stage("export"):
        clock.now += 30  # longer than expected
        remaining.append(progress.remaining)
    remaining.append(progress.remaining)
    assert remaining[0] == 120
    assert remaining[-2:] == [0, 0]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(remaining[34:]))
    assert progress.elapsed == 130


def test_time_before_the_first_progress_is_not_expected_again(clock: Clock) -> None:
    progress, _ = night()
    with progress.stage("train"):
        clock.now += 50  # compiling
        progress.advance(0.1, "")
        clock.now += 2
        progress.advance(0.2, "")
        assert progress.remaining == pytest.approx(2 / 0.1 * 0.8 + 20)


def test_slow_stages_lengthen_the_remaining_time(clock: Clock) -> None:
    progress, _ = night()
    with progress.stage("train"):
        clock.now += 360  # of 100
    assert progress.remaining == pytest.approx(20 * (360 + 30) / (100 + 30))


def test_timings_are_kept_when_a_stage_fails(clock: Clock) -> None:
    progress, _ = night()

    def fails() -> None:
        with progress.stage("train"):
            clock.now += 3
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails()
    assert progress.timings == {"train": 3}
    with progress.stage("train"):  # a second try
        clock.now += 4
    assert progress.timings == {"train": 7}
    assert progress.remaining == 20


def test_without_earlier_nights_durations_come_from_the_table_of_stages() -> None:
    progress = NightProgress(console=Console(file=io.StringIO()))
    assert progress.expected == {name: about.seconds for name, about in STAGES.items()}
    assert NightProgress({"train": 9.0}, progress.console).expected["train"] == 9.0
    assert NightProgress({"train": 9.0}, progress.console).expected["export"] == STAGES["export"].seconds


def test_remaining_time_includes_only_planned_stages() -> None:
    progress = NightProgress({"train": 9.0, "predict": 4.0}, stages=("ingest", "predict"))
    assert progress.remaining == STAGES["ingest"].seconds + 4.0
    with progress.stage("ingest"), progress.stage("tidy"):
        assert progress.remaining <= STAGES["ingest"].seconds + 4.0


def redraw(progress: NightProgress) -> None:
    """Redraw the bar, as it does by itself ten times a second."""
    assert progress._bar is not None
    progress._bar.refresh()


def test_on_a_terminal_there_is_a_transient_bar() -> None:
    progress, out = night(terminal=True)
    with progress.live_bar():
        with progress.stage("train"):
            progress.advance(0.5, "epoch 15 of 30")
            redraw(progress)
        progress.say("the model is ready")
    assert "train: epoch 15 of 30" in out.getvalue()
    assert re.search(r" train: 0\.\d s", out.getvalue())  # a busy machine may take a tenth
    assert "the model is ready\n" in out.getvalue()
    assert "\x1b[" in out.getvalue()
    with progress.stage("export"):  # and afterwards lines again
        pass
    assert out.getvalue().splitlines()[-1].endswith("ONNX, and its parity with JAX")


def test_brackets_in_a_text_are_not_markup() -> None:
    progress, out = night(terminal=True)
    with progress.live_bar(), progress.stage("train"):
        progress.advance(0.5, "epoch [/1]")
        redraw(progress)
    assert "epoch [/1]" in out.getvalue()


def test_each_line_of_a_structured_log_is_an_object_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG, "json")
    out = io.StringIO()
    progress = NightProgress(console=Console(file=out), run_id="night-1")
    progress.say("a [bold] word")
    with progress.stage("ingest"):
        progress.say("  read")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["run_id"], line["stage"]) for line in lines] == [("night-1", None), *[("night-1", "ingest")] * 2]
    assert [line["message"] for line in lines][::2] == ["a [bold] word", "read"]
    assert {datetime.fromisoformat(line["time"]).tzinfo for line in lines} == {UTC}
