"""Tables and headline of a run: few headline numbers, every metric in a table, and empty cells for
NaN."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

from forecaster.core.forecast import Verdict
from forecaster.evaluation import drift, segments
from forecaster.reports import run_notes, run_tables
from forecaster.reports.run_notes import MeasuredDrift, ReigningBefore
from tests.evaluation.test_segments import four_depots, judged

PANEL = four_depots()
SCORES = {name: replace(judged(PANEL), model=name) for name in ("candidate", "seasonal_naive", "champion", "theta")}


def test_the_headline_has_eight_numbers_at_most() -> None:
    headline = run_tables.headline(SCORES, "candidate")
    assert len(headline) == 8
    assert headline["champion/wape"] == SCORES["champion"].metrics["wape"]


def test_parts_and_depots_are_tables_with_every_metric() -> None:
    totals = {"network week": {"bias": 0.25}, "region": {"bias": float("nan")}}
    table = json.loads(run_tables.parts(SCORES, "candidate", PANEL, totals))
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["model"] for row in rows[:4]] == list(SCORES)
    assert {row["part"] for row in rows} == {"all", "city", "days ahead", "weekday", "kind of day", "sums of depots"}
    assert [(row["label"], row["bias"]) for row in rows[-2:]] == [("network week", 0.25), ("region", None)]
    depots = json.loads(run_tables.depots(SCORES["candidate"], PANEL))
    assert depots["columns"][:2] == ["depot", "wape"]
    assert [row[0] for row in depots["data"]] == sorted(row[0] for row in depots["data"])


def test_a_description_lists_changes_since_the_previous_champion() -> None:
    manifest = {"cutoff": str(PANEL.cutoff), "depots": [*PANEL.depot_ids[1:], "Z"]}
    before = ReigningBefore("aa11", manifest, [("training.epochs", 3, 6)])
    refused = Verdict(False, ("wape is 0.2000, wanted at most 0.1000 to beat champion",), {})
    text = run_notes.description(refused, SCORES, PANEL, "fresh", before, candidate="candidate")
    assert text.startswith("**Not admitted: wape is 0.2000, wanted at most 0.1000 to beat champion.**\n\n| model |")
    assert f"- depots: 1 new ({PANEL.depot_ids[0]}), 1 gone (Z)\n- pipeline file, `training.epochs`: 3 → 6" in text
    first = run_notes.description(refused, SCORES, PANEL, None, None, candidate="candidate")
    assert "there was no champion before it" in first
    assert "tier" not in first


def test_a_description_has_a_model_card_with_data_slices_and_limits() -> None:
    admitted = Verdict(True, (), {})
    text = run_notes.description(admitted, SCORES, PANEL, "fresh", None, candidate="candidate")
    card = text.partition("## Model card")[2]
    headings = re.findall(r"^\*\*([^*]+?)\.?\*\*", card, re.M)
    assert headings == ["Intended use", "Training data", "Limits", "Drift", "Metrics"]
    assert f"Daily counts from {PANEL.days[0]} to {PANEL.cutoff}" in card
    of_city = segments.parts(SCORES["candidate"], PANEL)["city"]
    for city, metrics in of_city.items():
        assert f"| city: {city} | " in card
        assert f"{metrics['wape']:.1%}" in card
    assert "promoted_by" in card


def test_a_card_quotes_measured_drift_with_limits_and_date() -> None:
    directions = {"above": 2, "below": 0, "too_narrow": 1, "too_wide": 0}
    measures = {
        "depots_drift_tested": 64,
        "depots_drifted": directions,
        "cities_drifted": dict.fromkeys(directions, 0),
        "days_lacking": {"unknown": 0.071, "closed": 0.2},
        "days_lacking_usual": {"unknown": 0.013},
    }
    card = run_notes.card(SCORES["candidate"], PANEL, MeasuredDrift(date(2024, 3, 5), measures))
    assert "**Drift** before this model, measured on 2024-03-05: " in card
    rows = dict(
        re.findall(r"^\| ([^|]+) \| (.*) \|$", card.partition("| drift of |")[2].partition("**Metrics")[0], re.M)
    )
    assert rows == {
        "---": "--- | ---",
        "depots": "3 (2 above, 1 too narrow) | 5% of 64 tested",
        "cities": "0 | 0 above or below",
        "network": "not measured | 0 above or below",
        "covariates": "not measured | 0",
        "unknown days": "7.1% | 5 points from 1.3% of the year before",
        "closed days": "20.0% | 5 points from the share of the year before",
    }
    bare = run_notes.card(None, PANEL, None)
    assert "**Drift** before this model: not measured.\n\n**Metrics**: not measured." in bare


def test_the_limit_of_drifting_depots_is_that_of_its_alert() -> None:
    rules = Path(__file__).parents[2] / "dashboards" / "prometheus" / "forecaster.rules.yml"
    alert = f"> {drift.ALERTED_SHARE:g} * max by (pipeline) (forecaster_depots_drift_tested)"
    assert alert in rules.read_text("utf-8")


def test_the_card_of_a_model_scored_on_a_sample_has_its_cities() -> None:
    some = PANEL.among(PANEL.depot_ids[1:3])  # Bonn and Ulm
    scores = judged(some)
    card = run_notes.card(scores, PANEL, None)
    of_city = segments.parts(scores, some)["city"]
    assert list(of_city) == ["Bonn", "Ulm"]
    for city, metrics in of_city.items():
        assert re.search(rf"^\| city: {city} \| .*\| {metrics['wape']:.1%} \|", card, re.M)
    assert re.search(rf"^\| all \| .*\| {scores.metrics['wape']:.1%} \|", card, re.M)
