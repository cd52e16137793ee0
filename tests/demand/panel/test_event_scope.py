"""Scope of events, compared with a simple loop over depots and events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forecaster.core.marks import Mark
from forecaster.demand.panel.build import build
from forecaster.demand.panel.event_scope import ADDRESS
from tests.demand.literal_knowledge import EVENTS, days, knowledge, spec_of

WHERE = {
    "A": ("Ulm", "BW", "DE"),
    "B": ("Ulm", "BY", "DE"),  # a name may belong to several places
    "C": ("Bonn", "", "DE"),
    "D": ("Paris", "", "FR"),
    "E": ("", "", ""),  # in the pipeline's own country and subdivision
}
DAYS = days("2024-03-01", "2024-03-06")
STATIC = "{source: {kind: csv, path: depots.csv}, static: [city, subdivision, country]}"


def home(name: str) -> tuple[str, str, str, str]:
    city, subdivision, country = WHERE[name]
    return name, city, subdivision or ("BE" if country in ("", "DE") else ""), country or "DE"


def panel_of(folder: Path, events: list[dict[str, Any]], kinds: str = "promo, closure") -> Any:
    demand = [(name, day, 0.0) for name in WHERE for day in DAYS[:4]]
    depots = [
        {"depot_id": name, "opened": None, "closed": None, **dict(zip(ADDRESS[1:], where, strict=True))}
        for name, where in WHERE.items()
    ]
    calendar = f"holidays: false, country: DE, subdivision: BE, {EVENTS}, known_future: [{kinds}]"
    return build(knowledge(demand, depots=depots, events=events), spec_of(folder, STATIC, calendar))


EVENT = st.fixed_dictionaries(
    {
        "date": st.sampled_from([*DAYS, "2024-01-01", "2024-12-24"]),
        "kind": st.sampled_from(["promo", "closure"]),
        "name": st.just("x"),
        "depot_id": st.sampled_from([None, None, None, "A", "E", "nobody"]),
        "city": st.sampled_from([None, None, "", "Ulm", "Bonn", "Rome"]),
        "subdivision": st.sampled_from([None, None, "BW", "BE"]),
        "country": st.sampled_from([None, None, "DE", "FR"]),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(EVENT, max_size=6))
def test_event_applies_to_depots_that_match_its_whole_address(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    panel = panel_of(tmp_path, events)
    promo, closed = np.zeros((5, 6)), np.zeros((5, 6), bool)
    marks: list[list[Mark]] = [[] for _ in WHERE]
    for row, name in enumerate(WHERE):
        for event in events:
            fits = all(not event[part] or event[part] == word for part, word in zip(ADDRESS, home(name), strict=True))
            if fits and event["date"] in DAYS:
                cells = promo if event["kind"] == "promo" else closed
                cells[row, DAYS.index(event["date"])] = 1
                marks[row].append(Mark(np.datetime64(event["date"]).astype(object), event["kind"], "x"))
    np.testing.assert_array_equal(panel.covariates[..., 0], promo)
    np.testing.assert_array_equal(panel.open, ~closed)
    for row in range(5):
        assert sorted(panel.marks.of(row), key=str) == sorted(marks[row], key=str)
    depot_marks = [mark for mark in panel.marks if mark.depot_id is not None]
    everyone = [mark for mark in panel.marks if mark.depot_id is None]
    for row, name in enumerate(WHERE):
        marks_of_depot = [Mark(mark.date, mark.kind, mark.name) for mark in depot_marks if mark.depot_id == name]
        assert sorted([*marks_of_depot, *everyone], key=str) == sorted(marks[row], key=str)


def test_school_holidays_are_events_of_a_subdivision(tmp_path: Path) -> None:
    events = [{"date": "2024-03-05", "kind": "school_holiday", "name": "Easter break", "subdivision": "BE"}]
    panel = panel_of(tmp_path, events, "school_holiday")
    assert panel.covariates[:, 4, 0].tolist() == [0, 0, 1, 0, 1]


def test_mark_is_stored_once_for_all_depots(tmp_path: Path) -> None:
    events = [{"date": "2024-03-05", "kind": "promo", "name": "sale", "city": "Ulm"} for _ in range(2)]
    events += [{"date": "2024-03-06", "kind": "promo", "name": "fair"}]
    panel = panel_of(tmp_path, events)
    assert len(panel.marks.entries) == 3
    assert [mark.name for mark in panel.marks.of(1)] == ["sale", "sale", "fair"]
    assert [mark.name for mark in panel.marks.of(3)] == ["fair"]
