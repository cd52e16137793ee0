"""A run that skips its training: the champion forecasts, and the run states the reason and the next
date."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows import lines, steps
from flows.night import Night
from forecaster.config import load
from forecaster.ledger.store import Ledger
from tests.flows.tiny import DAYS, NIGHT, after_a_night, pipeline

WORK = ("ingest", "panel", "preview", "weigh", "predict")
STEPS = SimpleNamespace(**{name: getattr(steps, name) for name in WORK}, register=lambda _: None)


def without_its_training(night: Night) -> None:
    """Run the part of a night that decides about training, and then forecasts."""
    STEPS.ingest(night)
    knowledge, panel = STEPS.panel(night)
    night.trains = STEPS.weigh(night, panel, knowledge)
    STEPS.predict(night)


@pytest.mark.usefixtures("predicts_here")
def test_skips_training_without_gains_until_it_is_due(tmp_path: Path) -> None:
    """None of the three runs after the first admitted its trained model."""
    after_a_night(tmp_path)
    file = pipeline(tmp_path, "execution: {cost_per_hour: 36}\n", days=DAYS + 5)
    text = file.read_text("utf-8").replace("training: {", "training: {when: worthwhile, at_least_every: 2, ")
    file.write_text(text, "utf-8")
    spec = load(file)
    with Ledger.open(spec.ledger_url) as ledger:
        for day in (1, 2, 3):
            at, run_id = NIGHT + timedelta(days=day), f"night-{day}"
            ledger.start_run(run_id, pipeline=spec.name, as_of=at, spec_digest=spec.digest)
            ledger.note(run_id, verdict={"admitted": False}, timings={"train": 30.0})
            ledger.finish_run(run_id, "published", 0)
    skipped = Night.begin(str(file), NIGHT + timedelta(days=4))
    skipped.run(partial(lines.nightly, skipped, STEPS))
    assert (skipped.exit_code, skipped.trains) == (0, False), skipped.message
    assert skipped.publication["tier"] == "champion"
    assert skipped.message is not None
    assert skipped.message.startswith("training skipped: the last 3 did not improve rosters (")
    assert skipped.message.endswith("; next at the latest on Saturday 2026-05-16")
    due = Night.begin(str(file), NIGHT + timedelta(days=5))
    due.run(partial(without_its_training, due))
    assert due.trains  # the second night after the last training
    assert (due.exit_code, due.message) == (0, None)
