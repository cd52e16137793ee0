"""Preview for a fleet without a model: the prior forecasts during the first training, and if that
fails."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pyarrow.compute as pc
import pytest

from dashboards.ops.app import create_app
from flows import lines, steps
from flows.night import Night
from forecaster.config import Spec, load
from forecaster.core.forecast import Candidate
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Panel
from forecaster.errors import TrainingError
from forecaster.lake import Lake
from forecaster.ledger.records import Head
from forecaster.ledger.store import Ledger
from forecaster.publishing.forecast import standby_bundle
from forecaster.publishing.replay import replay
from forecaster.training import preview as previews
from forecaster.training.backtest import CANDIDATE
from tests.flows import tiny

pytestmark = pytest.mark.timeout(300)


def fleet(folder: Path, *, noisy: bool) -> Path:
    """Return a pipeline with the prior's network; with much noise the last same weekday is a poor
    forecast."""
    file = tiny.pipeline(folder)
    small = "{layers: 1, hidden: 4, quantiles: [0.1, 0.5, 0.9], boosted: false}"
    text = file.read_text("utf-8")
    assert small in text
    file.write_text(text.replace(small, "{boosted: false}"), "utf-8")
    if noisy:
        rng, header = np.random.default_rng(1), "depot_id,date,demand"
        rows = [
            f"D{depot},{tiny.FIRST + timedelta(day)},{rng.poisson(30 * tiny.WEEK[day % 7])}"
            for day in range(tiny.DAYS)
            for depot in range(tiny.DEPOTS)
        ]
        (folder / "demand.csv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return file


def diverging(*_: Any) -> Any:
    raise TrainingError("it diverged")


def head_of(spec: Spec) -> Head | None:
    with Ledger.open_reader(spec.ledger_url) as ledger:
        return ledger.current(spec.name)


def front_page(spec: Spec) -> str:
    async def ask() -> str:
        transport = httpx.ASGITransport(create_app(spec.ledger_url))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return (await client.get("/")).text

    return asyncio.run(ask())


@pytest.mark.usefixtures("predicts_here")
def test_the_prior_is_published_during_the_first_training_and_stays_if_it_fails(tmp_path: Path) -> None:
    file = fleet(tmp_path, noisy=True)
    spec, heads = load(file), list[Head | None]()

    def train(*_: Any) -> Any:
        heads.append(head_of(spec))
        diverging()

    night = Night.begin(str(file), tiny.NIGHT)
    by = SimpleNamespace(**{**vars(steps), "train": train, "register": lambda _: None})
    night.run(lambda: lines.nightly(night, by))  # type: ignore[arg-type]
    [before], after = heads, head_of(spec)
    assert before is not None
    assert after is not None
    assert (before.tier, before.run_id, before.publication_id) == ("prior", night.run_id, night.preview)
    assert (after.tier, after.bundle_digest) == ("prior", before.bundle_digest)
    assert after.publication_id > before.publication_id
    assert (night.outcome, night.exit_code) == ("degraded", 3)
    assert str(night.message) == (
        "no model could be made tonight: it diverged; The prior forecasts: no model was ever admitted."
    )
    page = front_page(spec)
    assert "general model" in page
    assert "a general model trained on other networks" in page
    with Ledger.open_reader(spec.ledger_url) as ledger:
        run = ledger.run(night.run_id)
    assert (run.tier, run.bundle_digest, run.measures["depots"]) == ("prior", after.bundle_digest, {"prior": 4})
    assert {"preview", "predict"} <= run.timings.keys()
    scores = Lake.of(spec).read("scores")
    assert pc.unique(scores["model"]).to_pylist() == ["prior"]
    assert not replay(spec, night.run_id).differences

    # A refresh has no training to wait for: the better forecast of last night stays.
    morning = Night.begin(str(file), tiny.NIGHT + timedelta(hours=4), kind="refresh")
    morning.run(lambda: lines.predict_only(morning, steps))
    assert (morning.publication["tier"], morning.exit_code) == ("prior", 3)
    assert morning.message == "The prior forecasts: no model was ever admitted."
    _next_night_has_a_model(file, spec)


def _next_night_has_a_model(file: Path, spec: Spec) -> None:
    """During training the page shows the prior, then the new model; a damaged model is replaced by
    the prior again."""
    pages = list[str]()

    def train(run: Night, panel: Panel, knowledge: Knowledge) -> Candidate:
        pages.append(front_page(spec))
        candidate, scores = previews.judged(panel, spec)
        by.backtest = lambda *_: (candidate, {CANDIDATE: scores[previews.PRIOR]})
        return candidate

    by: Any = SimpleNamespace(**{**vars(steps), "train": train, "record": lambda *_: None, "register": lambda _: None})
    night = Night.begin(str(file), tiny.NIGHT + timedelta(days=1))
    night.run(lambda: lines.nightly(night, by))
    head = head_of(spec)
    assert head is not None
    assert (night.outcome, head.tier, head.run_id) == ("published", "fresh", night.run_id), night.message
    assert night.preview is not None
    assert head.publication_id > night.preview
    assert "general model" in pages[0]
    page = front_page(spec)
    assert "general model" not in page
    assert "Made by the newest model" in page

    (spec.paths.bundle(str(head.bundle_digest)) / "model.onnx").write_bytes(b"")
    by.train = diverging
    damaged = Night.begin(str(file), tiny.NIGHT + timedelta(days=2))
    damaged.run(lambda: lines.nightly(damaged, by))
    assert (damaged.outcome, damaged.publication["tier"]) == ("degraded", "prior"), damaged.message
    assert "model.onnx has sha256" in str(damaged.message)


@pytest.mark.usefixtures("predicts_here")
def test_publishes_no_preview_if_the_seasonal_naive_is_better(tmp_path: Path) -> None:
    file = fleet(tmp_path, noisy=False)
    night = Night.begin(str(file), tiny.NIGHT)
    by = SimpleNamespace(**{**vars(steps), "train": diverging, "register": lambda _: None})
    night.run(lambda: lines.nightly(night, by))  # type: ignore[arg-type]
    head = head_of(load(file))
    assert head is not None
    assert (night.preview, head.tier, head.bundle_digest) == (None, "fallback", None)


def test_the_prior_is_the_standby_for_its_run_and_the_following_refresh() -> None:
    def head(tier: str) -> Any:
        return SimpleNamespace(tier=tier, run_id="tonight", bundle_digest="abc")

    assert standby_bundle(head("prior"), "tonight") == "abc"
    assert standby_bundle(head("prior"), None) == "abc"
    assert standby_bundle(head("prior"), "the next night, which found it worse") is None
    assert standby_bundle(head("fallback"), None) is None
    assert standby_bundle(head("champion"), None) is None
    assert standby_bundle(None, None) is None
