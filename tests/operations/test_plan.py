"""A plan shows the differences from the last published night, and only a planned file can be
applied."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import load
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.errors import ForecasterError, LakeError, SpecError, UnusableLedger
from forecaster.model.fitting.distributed import panel_to_bytes
from forecaster.operations import plan as plans
from forecaster.publishing.predict import predict
from forecaster.training import fit_candidate, train
from tests.flows.tiny import NIGHT, pipeline

NOW = datetime(2026, 5, 11, 9, 0, tzinfo=UTC)
EVENTS = "calendar: {holidays: false, events: {source: {kind: csv, path: events.csv}}}"


def plan_lines(file: Path) -> list[str]:
    return list(plans.plan(load(file), file, NOW))


def publish(file: Path) -> None:
    spec = load(file)
    ingest(spec, now=NIGHT)
    plans.save_spec(spec)
    predict(spec, as_of=NIGHT, bundle=None, run_id=None, note=None)


def test_plan_before_the_first_run_lists_everything_as_new_and_changes_nothing(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    lines = plan_lines(file)
    assert "last published night: none, so everything is new" in lines
    assert "missing now: 2026-05-11" in lines
    assert "readings: 520 new, 0 to quarantine" in lines
    assert not (load(file).paths.lake).exists()


def test_changes_since_the_last_run_are_listed_by_key(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    publish(file)
    assert "pipeline file: unchanged" in plan_lines(file)
    text = file.read_text("utf-8").replace("hidden: 4", "hidden: 8").replace("calendar: {holidays: false}", EVENTS)
    file.write_text(text + "horizon: 6\n", "utf-8")
    (tmp_path / "events.csv").write_text("date,kind,name\n2026-05-12,promo,May sale\n", "utf-8")
    more = "".join(f"D9,2026-05-{day:02d},40\n" for day in range(1, 11))
    with (tmp_path / "demand.csv").open("a", encoding="utf-8") as out:
        out.write(more)
    lines = plan_lines(file)
    assert "pipeline file: 3 keys differ" in lines
    assert "  horizon: 7 → 6" in lines
    assert "  model.hidden: 4 → 8" in lines
    assert any(line.startswith("  calendar.events: null → ") for line in lines)
    assert "depots: 1 new: D9" in lines
    assert "calendar: 1 new: 2026-05-12 May sale" in lines
    assert "training: again, because data or file differ" in lines
    assert any(line.startswith("expected duration: ") for line in lines)


def test_training_is_reused_even_if_one_of_its_days_was_corrected(tmp_path: Path) -> None:
    """The input of the training is the panel as known at its cutoff, not the current panel
    truncated there."""
    file = pipeline(tmp_path)
    spec = load(file)
    ingest(spec, now=NIGHT)
    rows = (tmp_path / "demand.csv").read_text("utf-8").splitlines()
    (tmp_path / "demand.csv").write_text("\n".join([*rows[:-40], "D0,2026-05-01,47", *rows[-39:]]) + "\n", "utf-8")
    night = NOW - timedelta(minutes=1)
    ingest(spec, now=night)
    assert "training: again, because data or file differ" in plan_lines(file)
    knowledge = read_as_of(spec, as_of=night)
    panel = panels.build(knowledge, spec)
    panel_at = Past(knowledge, panel, spec)
    training_panel = panel_at(fit_candidate.first_cutoff(panel, spec))
    assert not np.array_equal(training_panel.demand, panel.at(training_panel.cutoff).demand)  # the corrected day
    cached = train.cached_model_path(panel_to_bytes(training_panel), spec)
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert "training: remembered from an earlier run" in plan_lines(file)


def test_unreadable_source_is_a_line_of_the_plan(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    (tmp_path / "demand.csv").unlink()
    assert any(line.startswith("sources: ") and "demand.csv" in line for line in plan_lines(file))


def test_plan_states_that_nothing_can_be_forecast(tmp_path: Path) -> None:
    file = pipeline(tmp_path, days=0)
    nothing = "nothing can be forecast tonight: no row was accepted"
    assert [line for line in plan_lines(file) if "tonight" in line] == [nothing]
    (tmp_path / "demand.csv").unlink()
    nothing = "nothing can be forecast tonight: 1 of 1 sources cannot be read"
    assert [line for line in plan_lines(file) if "tonight" in line] == [nothing]


def test_damaged_ledger_is_an_error_and_not_a_first_night(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    publish(file)
    load(file).paths.ledger.write_text("garbage", "utf-8")
    with pytest.raises(UnusableLedger, match=r"ledger\.db is damaged: file is not a database"):
        plan_lines(file)
    assert not load(file).paths.plan.exists()


def test_damaged_lake_is_reported_with_its_location(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    publish(file)
    spec = load(file)
    for part in spec.paths.lake.glob("demand/**/*.parquet"):
        part.write_bytes(b"garbage")
    with pytest.raises(LakeError, match=rf"lake table 'demand' at {spec.lake_url}/?.*damaged"):
        plan_lines(file)
    assert not spec.paths.plan.exists()


def test_unwritable_plan_is_an_error(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    load(file).paths.plan.mkdir(parents=True)
    with pytest.raises(ForecasterError, match=r"plan\.json cannot be written: Is a directory; wanted a state folder"):
        plan_lines(file)


def test_only_what_was_planned_can_be_applied(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    with pytest.raises(SpecError, match="found no plan; wanted one: `forecaster plan"):
        plans.require_plan(load(file), file)
    plan_lines(file)
    plans.require_plan(load(file), file)
    file.write_text(file.read_text("utf-8") + "horizon: 6\n", "utf-8")
    with pytest.raises(SpecError, match="the file has changed since"):
        plans.require_plan(load(file), file)


def test_differences_are_paths_with_both_values() -> None:
    before = {"a": 1, "b": {"c": [1], "d": None}, "gone": True}
    now = {"a": 1, "b": {"c": [2], "d": None}, "new": {"x": 1}}
    assert list(plans.differences(before, now)) == [
        ("b.c", [1], [2]),
        ("gone", True, None),
        ("new", None, {"x": 1}),
    ]
