"""The decision to train calculated by hand: gains of the last trainings in money, and reasons to
train at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.config import Spec, load
from forecaster.core.forecast import Fold
from forecaster.core.panel import Panel
from forecaster.errors import SpecError
from forecaster.ledger.store import GATE, Ledger
from forecaster.training import worthwhile
from forecaster.training.worthwhile import PastTraining
from tests.panels import bare, fold

COSTS = "staffing: {orders_per_driver: 10, cost_short: 30, cost_idle: 10}"
MORNING = datetime(2024, 3, 1, 3, 15, tzinfo=UTC)


def spec_of(folder: Path, training: str = "when: worthwhile", more: str = COSTS) -> Spec:
    text = f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\ntraining: {{{training}}}\n{more}\n"
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return spec_of(tmp_path)


@pytest.fixture
def ledger(spec: Spec) -> Iterator[Ledger]:
    with Ledger.open(spec.ledger_url) as ledger:
        yield ledger


def trained(ledger: Ledger, spec: Spec, back: int, bundle: str | None, digest: str | None = None) -> None:
    """Record a night a number of days before the first of March, which promoted a bundle, or
    admitted none."""
    at, run_id = MORNING - timedelta(days=back), f"n{back}"
    ledger.start_run(run_id, pipeline=spec.name, as_of=at, spec_digest=digest or spec.digest, at=at)
    ledger.note(run_id, verdict={"admitted": bundle is not None}, timings={"train": 1000.0, "backtest": 800.0})
    if bundle is not None:
        later = at + timedelta(minutes=5)
        ledger.promote(spec.name, run_id=run_id, bundle_digest=bundle, by=GATE, reason="admitted", at=later)
    ledger.finish_run(run_id, "published", 0, at=at + timedelta(minutes=6))


def reason(ledger: Ledger, spec: Spec) -> str:
    """Return the reason to train, if no gain needs to be measured."""
    nothing: Any = None
    decision = worthwhile.weigh(spec, ledger, nothing, nothing, MORNING)
    assert decision.trains
    return decision.reason


def test_worthwhile_requires_staffing(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"training\.when: worthwhile compares roster savings with training costs"):
        spec_of(tmp_path, more="")


def test_it_trains_until_three_trainings_have_followed_another(ledger: Ledger, spec: Spec) -> None:
    assert reason(ledger, spec) == "no model reigns yet"
    for back, bundle in ((4, "a"), (3, "b"), (2, None)):
        trained(ledger, spec, back, bundle)
    assert reason(ledger, spec).startswith("fewer than 3 trainings have followed another")
    trainings = worthwhile.past_trainings(spec, ledger, MORNING)
    assert trainings == [PastTraining(date(2024, 2, 28), "b", "b"), PastTraining(date(2024, 2, 27), "a", "b")]


def test_it_trains_at_the_latest_after_the_declared_number_of_nights(ledger: Ledger, spec: Spec) -> None:
    for back, bundle in ((10, "a"), (9, "b"), (8, "c"), (7, "d")):
        trained(ledger, spec, back, bundle)
    assert reason(ledger, spec) == "the last training is 7 nights old, and training.at_least_every is reached"
    assert worthwhile.latest(spec, ledger, MORNING) == date(2024, 3, 1)


def test_another_pipeline_file_trains_at_once(ledger: Ledger, spec: Spec) -> None:
    trained(ledger, spec, 1, "a", digest="another")
    assert reason(ledger, spec) == "the pipeline file has changed since the training of 2024-02-29"


def test_the_cost_of_a_training_is_that_of_its_machine_time(ledger: Ledger, spec: Spec) -> None:
    """Half an hour of training and backtest each night, at 4 per hour."""
    for back in (2, 1):
        trained(ledger, spec, back, "a")
    dear = spec.model_copy(update={"execution": spec.execution.model_copy(update={"cost_per_hour": 4.0})})
    nights = ledger.runs(spec.name)
    assert worthwhile.training_cost(dear, nights) == 2
    assert worthwhile.training_cost(spec, nights) == 0


def history(days: int) -> Panel:
    """A depot with 100 orders a day."""
    return bare(np.full((1, days), 100.0))


def said(panel: Panel, orders: Mapping[str, Sequence[float]]) -> dict[str, dict[date, Fold]]:
    """Return the forecasts of each champion for the last days, without spread, one number for each;
    the actuals are 100."""
    folds: dict[str, dict[date, Fold]] = {}
    for digest, counts in orders.items():
        for back, count in zip(range(len(counts), 0, -1), counts, strict=True):
            cutoff = panel.cutoff - timedelta(days=back)
            folds.setdefault(digest, {})[cutoff] = fold([[[count] * 3]], [[100.0]], cutoff=cutoff)
    return folds


def gain(spec: Spec, days: int, orders: Mapping[str, Sequence[float]], cost: float = 0.0) -> worthwhile.Gain:
    """Return the gain of one training, in the morning before the last `days` days."""
    panel = history(60)
    training = PastTraining(panel.cutoff - timedelta(days=days - 1), "old", "new")
    return worthwhile.gain_of(spec, panel, [training], said(panel, orders), cost)


def test_a_gain_is_the_extra_cost_of_the_old_champions_rosters(spec: Spec) -> None:
    """Ten drivers are needed. The old one rosters 12 and 8, which costs 20 and 60; the new one 11
    and 10: 10 and 0."""
    found = gain(spec, 2, {"old": [120, 80], "new": [110, 100]})
    assert (found.pairs.theirs.tolist(), found.pairs.ours.tolist()) == ([20, 60], [10, 0])
    assert found.a_day == 35
    assert found.compared == 2


def test_a_steady_gain_is_noticed_unless_a_training_costs_more(spec: Spec) -> None:
    orders = {"old": [120.0] * 6, "new": [110.0] * 6}
    assert gain(spec, 6, orders).is_noticed
    assert gain(spec, 6, orders).sentence() == (
        "the last 1 improved rosters by +10.00 per day over 6 days, +50.0% to +50.0% of their cost"
    )
    assert not gain(spec, 6, orders, cost=11).is_noticed
    assert "a training costs 11.00" in gain(spec, 6, orders, cost=11).sentence()


def test_a_gain_by_chance_a_loss_and_a_single_day_are_not_noticed(spec: Spec) -> None:
    assert not gain(spec, 4, {"old": [120, 100, 120, 100], "new": [100, 120, 100, 110]}).is_noticed
    assert not gain(spec, 4, {"old": [110.0] * 4, "new": [120.0] * 4}).is_noticed
    single = gain(spec, 1, {"old": [120.0], "new": [100.0]})
    assert not single.is_noticed
    assert "too few days to judge" in single.sentence()


def test_a_candidate_that_was_not_admitted_gained_nothing(spec: Spec) -> None:
    panel = history(60)
    trainings = [PastTraining(panel.cutoff - timedelta(days=2), "old", "old")]
    found = worthwhile.gain_of(spec, panel, trainings, said(panel, {"old": [120.0] * 3}), 0.0)
    assert (found.a_day, found.is_noticed) == (0, False)
    assert found.sentence().endswith("improve rosters (their crews cost the same as before)")


def test_accuracy_slips_if_the_gate_would_object(spec: Spec) -> None:
    """Forecasts of twice the actuals every day, by a champion that the seasonal naive beats, too."""
    panel = history(60)
    at: Any = panel.at
    good, bad = (said(panel, {"c": [orders] * 7})["c"] for orders in (100.0, 200.0))
    assert list(worthwhile._slips(replaced_gate(spec), panel, at, good)) == []
    slips = list(worthwhile._slips(replaced_gate(spec), panel, at, bad))
    [bias] = [slip for slip in slips if slip.startswith("bias (forecast minus actual) is +1.0000 of demand, wanted ")]
    assert bias.endswith(", which is more than chance over 7 days")


def replaced_gate(spec: Spec) -> Spec:
    """Return a spec whose range may cover any share of days: these forecasts have no spread."""
    model = spec.model.model_copy(update={"quantiles": (0.1, 0.5, 0.9)})
    gate = spec.gate.model_copy(update={"coverage": (0.0, 1.0)})
    return spec.model_copy(update={"gate": gate, "model": model})


def test_the_days_since_a_training_begin_with_its_own(spec: Spec) -> None:
    panel = history(60)  # up to 2024-02-29
    training = PastTraining(date(2024, 2, 28), "old", "new")
    assert worthwhile._cutoffs_since(training, panel) == [date(2024, 2, 27), date(2024, 2, 28)]
    assert worthwhile._cutoffs_since(replace(training, night=date(2024, 3, 1)), panel) == []
    assert len(worthwhile._cutoffs_since(replace(training, night=date(2024, 1, 2)), panel)) == worthwhile.MOST_DAYS
