"""A night that skips its training: the champion forecasts, and the run says why and until when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows import lines, steps
from flows.night import Night
from forecaster.core.forecast import Candidate
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from tests.flows.tiny import DAYS, NIGHT, pipeline

NOBODY: dict[str, object] = {"record": lambda *_: None, "register": lambda *_: None}
WORK = ("ingest", "panel", "preview", "weigh", "train", "backtest", "gate", "export", "promote", "predict")
trained: list[Candidate] = []


def train(night: Night, panel: Panel, knowledge: Knowledge) -> Candidate:
    """What the first night has trained is what each later training ends in; the bundles say which night's they are."""
    if not trained:
        trained.append(steps.train(night, panel, knowledge))
        return trained[0]
    with night.stage("train"):
        return replace(trained[0], summary={**trained[0].summary, "night": night.run_id})


STEPS = SimpleNamespace(**NOBODY, **{name: getattr(steps, name) for name in WORK} | {"train": train})


def without_its_training(night: Night, by: SimpleNamespace) -> None:
    """The line of a night that decides whether to train, and then forecasts."""
    by.ingest(night)
    knowledge, panel = by.panel(night)
    night.trains = by.weigh(night, panel, knowledge)
    by.predict(night)


@pytest.mark.usefixtures("predicts_here")
def test_trainings_that_gained_nothing_are_skipped_until_it_is_time(tmp_path: Path) -> None:
    """The same model comes out every night, as the days repeat: each training replaces the champion by its like."""
    file = pipeline(tmp_path, "execution: {cost_per_hour: 36}\n", days=DAYS + 5)
    text = file.read_text("utf-8").replace("training: {", "training: {when: worthwhile, at_least_every: 2, ")
    file.write_text(text, "utf-8")
    nights = []
    for day in range(6):
        night = Night.begin(str(file), NIGHT + timedelta(days=day))
        nights.append(night.run(partial(lines.nightly if day < 5 else without_its_training, night, STEPS)))
    assert [night.exit_code for night in nights] == [0] * 6
    assert [night.trains for night in nights][:4] == [True] * 4
    skipped = nights[4]
    assert not skipped.trains
    assert skipped.publication["tier"] == "champion"
    assert skipped.message is not None
    assert skipped.message.startswith("training skipped: the last 3 gained nothing that rosters noticed (")
    assert skipped.message.endswith("; next at the latest on Saturday 2026-05-16")
    assert nights[5].trains  # the second after the last
    assert nights[5].message is None
