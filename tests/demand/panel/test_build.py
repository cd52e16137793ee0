from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.config import Spec, load
from forecaster.core.knowledge import Knowledge
from forecaster.core.marks import Mark
from forecaster.core.panel import Encoding
from forecaster.demand.panel.build import build
from forecaster.demand.panel.calendar import NAMES
from forecaster.errors import NoUsableData

NAN = float("nan")
AS_OF = datetime(2024, 3, 5, 3, 15, tzinfo=UTC)
DEPOTS = "{source: {kind: csv, path: depots.csv}, static: [city, country]}"
EVENTS = "events: {source: {kind: csv, path: events.csv}}"


def spec_of(folder: Path, depots: str | None = None, calendar: str = "holidays: false", columns: str = "") -> Spec:
    text = f"name: t\nhorizon: 2\ndemand: {{source: {{kind: csv, path: demand.csv}}, columns: {{{columns}}}}}\n"
    text += f"calendar: {{{calendar}}}\n" + (f"depots: {depots}\n" if depots else "")
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


def knowledge(
    demand: list[tuple[Any, ...]],
    columns: tuple[str, ...] = (),
    depots: list[dict[str, Any]] | None = None,
    events: list[tuple[Any, ...]] | None = None,
) -> Knowledge:
    readings = pd.DataFrame(demand, columns=["depot_id", "date", "demand", *columns])
    readings["date"] = pd.to_datetime(readings["date"])
    if "open" in columns:
        readings["open"] = readings["open"].astype("boolean")
    depot_table = pd.DataFrame(
        depots or [], columns=list(dict.fromkeys(["depot_id", "opened", "closed", *(depots or [{}])[0]]))
    )
    for name in ("opened", "closed"):
        depot_table[name] = pd.to_datetime(depot_table[name])
    happened = pd.DataFrame(events or [], columns=["date", "kind", "name", "depot_id", "city"])
    happened["date"] = pd.to_datetime(happened["date"])
    return Knowledge(AS_OF, readings, depot_table, happened, {})


def test_two_depots_by_hand(tmp_path: Path) -> None:
    snapshot = knowledge(
        [
            ("B", "2024-03-04", 4.0),
            ("A", "2024-03-01", 1.0),
            ("A", "2024-03-03", 0.0),
            ("B", "2024-03-02", 2.0),
            ("B", "2024-03-05", 99.0),  # as_of's own day is not over
        ]
    )
    panel = build(snapshot, spec_of(tmp_path))
    assert panel.depot_ids == ("A", "B")
    assert panel.cutoff == date(2024, 3, 4)
    assert panel.target_dates == (date(2024, 3, 5), date(2024, 3, 6))
    np.testing.assert_array_equal(panel.days, np.arange("2024-03-01", "2024-03-07", dtype="datetime64[D]"))
    np.testing.assert_array_equal(panel.demand, [[1, NAN, 0, NAN], [NAN, 2, NAN, 4]])
    np.testing.assert_array_equal(panel.open, [[1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]])
    assert panel.demand.dtype == panel.covariates.dtype == panel.calendar.dtype == np.float32
    assert panel.covariates.shape == (2, 6, 0)
    assert panel.calendar.shape == (1, 6, len(NAMES))
    assert panel.calendar_group.tolist() == [0, 0]
    assert panel.statics.shape == (2, 0)
    assert panel.encoding == Encoding((), {})


def test_opening_closing_closures_and_open_flag_apply_unless_orders_prove_open(tmp_path: Path) -> None:
    days = ["2024-03-01", "2024-03-02", "2024-03-03", "2024-03-04"]
    demand = [
        ("A", day, count, flag) for day, count, flag in zip(days, [5.0, 0.0, 7.0, 0.0], [1, 0, 0, 1], strict=True)
    ]
    demand += [("B", day, 3.0, None) for day in days[1:2]]
    snapshot = knowledge(
        demand,
        ("open",),
        depots=[
            {"depot_id": "A", "city": "X", "country": "", "opened": None, "closed": "2024-03-06"},
            {"depot_id": "B", "city": "Y", "country": "", "opened": "2024-03-02", "closed": None},
            {"depot_id": "C", "city": "Y", "country": "", "opened": "2024-03-06", "closed": None},  # a cold start
            {"depot_id": "D", "city": "Y", "country": "", "opened": None, "closed": "2024-03-04"},  # gone, never seen
        ],
        events=[
            ("2024-03-04", "closure", "flood", "A", None),
            ("2024-03-02", "closure", "strike", None, "Y"),
            ("2024-03-05", "closure", "inventory", None, "Y"),
        ],
    )
    panel = build(snapshot, spec_of(tmp_path, DEPOTS, f"holidays: false, {EVENTS}", "open: open"))
    assert panel.depot_ids == ("A", "B", "C")
    np.testing.assert_array_equal(panel.open, [[1, 0, 1, 0, 1, 0], [0, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1]])
    assert np.isnan(panel.demand[2]).all()
    assert tuple(panel.marks) == (
        Mark(date(2024, 3, 2), "closure", "strike", "B"),
        Mark(date(2024, 3, 2), "closure", "strike", "C"),
        Mark(date(2024, 3, 4), "closure", "flood", "A"),
        Mark(date(2024, 3, 5), "closure", "inventory", "B"),
        Mark(date(2024, 3, 5), "closure", "inventory", "C"),
    )
    assert panel.attributes["city"] == ("X", "Y", "Y")


def test_day_closed_on_four_same_weekdays_in_a_row_is_expected_to_be_closed(tmp_path: Path) -> None:
    days = pd.date_range("2024-02-05", "2024-03-04")  # five Mondays; the horizon is a Tuesday and a Wednesday
    tuesday, wednesday = days.day_of_week == 1, days.day_of_week == 2
    rows = []
    for depot, shut in {"A": tuesday, "B": tuesday & (days.day != 20), "C": tuesday | wednesday}.items():
        rows += [(depot, day, 0.0 if closed else 9.0, not closed) for day, closed in zip(days, shut, strict=True)]
    rows = [row for row in rows if row[:2] != ("C", pd.Timestamp("2024-02-28"))]  # only three known Wednesdays
    panel = build(knowledge(rows, ("open",)), spec_of(tmp_path, columns="open: open"))
    np.testing.assert_array_equal(panel.open[:, -2:], [[False, True], [True, True], [False, True]])


def test_covariates_are_numbers_words_and_kinds_of_events(tmp_path: Path) -> None:
    snapshot = knowledge(
        [
            ("A", "2024-03-03", 1.0, 0.5, "rain"),
            ("A", "2024-03-04", 1.0, NAN, "0"),
            ("A", "2024-03-05", NAN, 2.0, "sun"),
            ("B", "2024-03-04", 1.0, 1.0, None),
        ],
        ("discount", "weather"),
        events=[("2024-03-06", "game", "final", None, None), ("2024-03-04", "game", "semi", "B", None)],
    )
    spec = spec_of(tmp_path, calendar=f"holidays: false, {EVENTS}, known_future: [discount, weather, game]")
    panel = build(snapshot, spec)
    assert panel.encoding.covariates == ("discount", "weather=rain", "weather=sun", "game")
    np.testing.assert_array_equal(
        panel.covariates,
        [
            [[0.5, 1, 0, 0], [0.5, 0, 0, 0], [2, 0, 1, 0], [0.5, 0, 0, 1]],  # the usual value replaces a missing one
            [[0, 0, 0, 0], [1, 0, 0, 1], [1, 0, 0, 0], [1, 0, 0, 1]],
        ],
    )
    assert [mark.depot_id for mark in panel.marks] == ["B", None]
    again = build(snapshot, spec, Encoding(("game", "weather=snow"), {}))
    assert again.covariates.shape == (2, 4, 2)
    np.testing.assert_array_equal(again.covariates[..., 0], panel.covariates[..., 3])
    assert not again.covariates[..., 1].any()
    with pytest.raises(NoUsableData, match="covariate 'tide' is needed, but the demand table has no column 'tide'"):
        build(snapshot, spec, Encoding(("tide",), {}))
    with pytest.raises(NoUsableData, match="'weather' was numbers in training and is words now"):
        build(snapshot, spec, Encoding(("weather",), {}))


@pytest.mark.parametrize("kind", ["closure", "Closure", " CLOSURE ", "Ｃｌｏｓｕｒｅ"])
def test_kinds_of_events_are_matched_ignoring_case(tmp_path: Path, kind: str) -> None:
    rows = [("A", "2024-03-04", 1.0)]
    happened = [("2024-03-05", kind, "", None, None), ("2024-03-06", kind, "", "B", None)]
    happened += [("2024-03-06", "GAME", "final", None, None)]
    calendar = f"holidays: false, {EVENTS}, known_future: [Game]"
    panel = build(knowledge(rows, events=happened), spec_of(tmp_path, calendar=calendar))
    assert panel.open.tolist() == [[True, False, True]]
    assert panel.covariates[0, :, 0].tolist() == [0, 0, 1]


def test_static_words_have_codes_and_unknown_words_are_zero(tmp_path: Path) -> None:
    depots = [
        {"depot_id": "A", "city": "Ulm", "country": "DE"},
        {"depot_id": "B", "city": "Bonn", "country": "DE"},
        {"depot_id": "C", "city": "", "country": "FR"},
    ]
    snapshot = knowledge([("A", "2024-03-04", 1.0)], depots=depots)
    panel = build(snapshot, spec_of(tmp_path, DEPOTS))
    assert panel.encoding.statics == {"city": ("Bonn", "Ulm"), "country": ("DE", "FR")}
    assert panel.statics.tolist() == [[2, 1], [1, 1], [0, 2]]
    other = build(snapshot, spec_of(tmp_path, DEPOTS), Encoding((), {"city": ("Ulm",), "country": ("FR",)}))
    assert other.statics.tolist() == [[1, 0], [0, 0], [0, 1]]


def test_depots_of_one_country_share_a_calendar_and_marks_name_depots_if_they_differ(tmp_path: Path) -> None:
    depots = [
        {"depot_id": "A", "city": "", "country": "DE"},
        {"depot_id": "B", "city": "", "country": "US"},
        {"depot_id": "C", "city": "", "country": ""},
    ]
    rows = [(depot, day, 1.0) for depot in "ABC" for day in ("2023-11-22", "2024-01-02", "2024-03-04")]
    panel = build(knowledge(rows, depots=depots), spec_of(tmp_path, DEPOTS, "holidays: true, country: DE"))
    assert panel.calendar.shape[0] == 2
    assert panel.calendar_group.tolist() == [0, 1, 0]
    thanksgiving = int(np.searchsorted(panel.days, np.datetime64("2023-11-23")))
    assert panel.calendar[:, thanksgiving, panel.calendar_names.index("holiday")].tolist() == [0, 1]
    assert {(mark.name, mark.depot_id) for mark in panel.marks} == {
        ("Martin Luther King Jr. Day", "B"),
        ("Washington's Birthday", "B"),
    }
    alone = build(knowledge(rows), spec_of(tmp_path, calendar="holidays: true, country: US"))
    assert next(iter(alone.marks)) == Mark(date(2023, 11, 23), "holiday", "Thanksgiving Day", None)


def test_panel_without_a_day_that_is_over_raises_no_usable_data(tmp_path: Path) -> None:
    with pytest.raises(NoUsableData, match="no demand is known of any day before 2024-03-05"):
        build(knowledge([("A", "2024-03-05", 1.0), ("A", "2024-03-04", NAN)]), spec_of(tmp_path))


def test_cutoff_follows_the_pipelines_zone(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    west = spec.model_copy(update={"timezone": "America/Los_Angeles"})  # still 4 March there at as_of
    west._folder = spec.folder
    snapshot = knowledge([("A", "2024-03-03", 1.0), ("A", "2024-03-04", 2.0)])
    assert build(snapshot, spec).cutoff == date(2024, 3, 4)
    assert build(snapshot, west).cutoff == date(2024, 3, 3)
