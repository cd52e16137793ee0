"""From rows with times of day to shares: nights, days of 23 and 25 hours, bitemporal knowledge, and
the published page."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import Shift, Spec, load
from forecaster.core.panel import Panel
from forecaster.demand.half_hours.clock import HALF_HOURS, half_hours
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build
from forecaster.ledger.store import Ledger
from forecaster.planning import saved_inputs
from forecaster.publishing.predict import predict
from forecaster.staffing.shifts import shift_learning
from tests.dashboards.visitor import text, visitor
from tests.panels import FIRST, bare

EPOCH = date(1970, 1, 1)
FIRST_DAY = (FIRST.astype(object) - EPOCH).days
BERLIN = ZoneInfo("Europe/Berlin")


def shift(name: str, start: str, end: str) -> Shift:
    return Shift(name=name, start=start, end=end, share="learn")


DAY, NIGHT = shift("day", "06:00", "22:00"), shift("night", "22:00", "06:00")


def by_shift(rows: dict[tuple[str, int], dict[int, float]], panel: Panel, *shifts: Shift) -> Any:
    """Orders by shift from half hours by depot and day, counted from the panel's first day; and the
    mask of known days."""
    orders = np.zeros((len(rows), HALF_HOURS), np.float32)
    for row, halves in enumerate(rows.values()):
        for half, count in halves.items():
            orders[row, half] = count
    ids = pd.Series([depot for depot, _ in rows], dtype="str")
    days = np.array([FIRST_DAY + day for _, day in rows], np.int32)
    return shift_learning.orders_by_shift(ids, days, orders, panel, FIRST_DAY - 1, shifts)


def test_night_shift_belongs_to_the_day_on_which_it_starts() -> None:
    """Two orders at 23:00 on the first day and three at 05:30 of the next belong to its night; five
    at 06:00 belong to the next day. The small hours after the last day are not known yet."""
    counts, known = by_shift(
        {("D0", 0): {46: 2, 11: 7}, ("D0", 1): {11: 3, 12: 5}, ("D0", 2): {30: 1}}, bare([[9, 8, 1]]), DAY, NIGHT
    )
    assert counts[:, 0].tolist() == [[0, 5, 1], [5, 0, 0]]
    assert known.tolist() == [[True, True, False]]


def test_night_before_an_unknown_day_is_not_learned_but_before_a_closed_day_it_is() -> None:
    rows = {("D0", 0): {46: 2}, ("D0", 2): {46: 2}, ("D1", 0): {46: 2}, ("D1", 2): {46: 2}}
    _, known = by_shift(rows, bare([[2, np.nan, 2]] * 2, closed=[(1, 1)]), DAY, NIGHT)
    assert known.tolist() == [[False, False, False], [True, False, False]]


def test_orders_outside_all_shifts_belong_to_the_next_shift() -> None:
    early, late = shift("early", "06:00", "14:00"), shift("late", "15:00", "22:00")
    rows = {("D0", 0): {10: 1, 27: 2, 29: 4, 43: 8, 44: 16}, ("D0", 1): {12: 32}}
    counts, known = by_shift(rows, bare([[31, 32]]), early, late)
    assert counts[:, 0].tolist() == [[3, 48], [12, 0]]
    assert known.tolist() == [[False, True]]  # the day before the first is unknown


@given(st.integers(0, 47), st.integers(0, 47), st.integers(0, 47), st.integers(0, 47), st.booleans())
def test_every_order_belongs_to_exactly_one_shift(first: int, second: int, third: int, at: int, gap: bool) -> None:
    """An order in the middle of the panel counts once, on its own day or an adjacent one."""
    starts = sorted({first, second, third})
    names = [f"{half // 2:02}:{30 * (half % 2):02}" for half in starts]
    ends = [*names[1:], names[0]] if len(names) > 1 else ["12:00" if names[0] != "12:00" else "11:00"]
    if gap and len(starts) > 1:
        ends[0] = f"{(starts[0] + 1) % 48 // 2:02}:{30 * ((starts[0] + 1) % 2):02}"
    shifts = [shift(name, name, end) for name, end in zip(names, ends, strict=True)]
    counts, _ = by_shift({("D0", 2): {at: 3}}, bare([[1, 1, 3, 1, 1]]), *shifts)
    assert counts.sum() == 3
    assert set(np.flatnonzero(counts.sum(axis=(0, 1)))) <= {1, 2, 3}


def test_clock_changes_lengthen_or_shorten_the_night_shift_by_an_hour() -> None:
    """One order per real half hour: the night that begins on 26 October 2024 has nine hours, that
    of 30 March seven."""
    for day, halves in ((date(2024, 10, 26), 18), (date(2024, 3, 30), 14)):
        start = datetime.combine(day, time(0), BERLIN).astimezone(UTC)
        end = datetime.combine(day + timedelta(days=2), time(0), BERLIN).astimezone(UTC)
        stamps = pd.Series(pd.date_range(start, end, freq="30min", inclusive="left"))
        half, local = half_hours(stamps, BERLIN) % 48, stamps.dt.tz_convert(BERLIN).dt.date
        rows = {
            ("D0", place): {each: int((half[local == on] == each).sum()) for each in range(48)}
            for place, on in enumerate((day, day + timedelta(days=1)))
        }
        counts, known = by_shift(rows, bare([[48, 48]]), DAY, NIGHT)
        assert counts[:, 0, 0].tolist() == [32, halves]
        assert known[0, 0]


ORDERS = """
name: t
timezone: Europe/Berlin
demand: {source: {kind: csv, path: orders.csv}, aggregate: count, recorded: next_day}
calendar: {holidays: false}
depots: {source: {kind: csv, path: depots.csv}, columns: {timezone: zone}}
staffing:
  orders_per_driver: 2
  cost_short: 3
  cost_idle: 1
  shifts: [{name: early, start: 06:00, end: 14:00, share: learn}, {name: late, start: 14:00, end: 06:00, share: learn}]
  people: [{name: driver, per_depot: 4}]
"""
LAST = date(2024, 3, 3)  # a Sunday
NOW = datetime(2024, 3, 4, 12, tzinfo=UTC)


def fleet(folder: Path, days: int = 42) -> Spec:
    """Depot A has nine orders early and three late, on Sundays all late; B, in New York, has two
    early and six late, and began seven days ago."""
    (folder / "pipeline.yaml").write_text(ORDERS, "utf-8")
    (folder / "depots.csv").write_text("depot_id,zone\nA,\nB,America/New_York\n", "utf-8")
    rows = ["depot_id,date"]
    for back in range(days):
        day = LAST - timedelta(days=back)
        early = 0 if day.weekday() == 6 else 9
        rows += [f"A,{day}T{8 + n % 4:02}:15" for n in range(early)] + [f"A,{day}T19:00"] * (12 - early)
        if back < 7:  # in Berlin time these are six hours later
            zone = ZoneInfo("America/New_York")
            early_b = datetime.combine(day, time(9, 30), zone).astimezone(UTC)
            late_b = datetime.combine(day, time(20), zone).astimezone(UTC)
            rows += [f"B,{early_b:%Y-%m-%dT%H:%MZ}"] * 2 + [f"B,{late_b:%Y-%m-%dT%H:%MZ}"] * 6
    (folder / "orders.csv").write_text("\n".join(rows) + "\n", "utf-8")
    return load(folder / "pipeline.yaml")


def learned(spec: Spec, as_of: datetime) -> Any:
    knowledge = read_as_of(spec, as_of=as_of)
    return shift_learning.learn(spec, knowledge, build.build(knowledge, spec))


def test_shares_are_learned_as_of_the_cutoff_in_each_depots_zone(tmp_path: Path) -> None:
    spec = fleet(tmp_path)
    assert ingest(spec, now=NOW).stopped is None
    tonight = learned(spec, NOW)
    assert tonight.days.sum(axis=1).tolist() == [41, 6]  # the small hours after the last day are not known yet
    network = (9 * 36 + 2 * 6) / (12 * 41 + 8 * 6)
    depot = 41 / 48 * (9 * 36 / (12 * 41)) + 7 / 48 * network
    monday = (9 * 6 + 2) / (12 * 6 + 8)
    early, late = depot * monday / network, (1 - depot) * (1 - monday) / (1 - network)
    assert tonight.shares[0, 0, 0] == pytest.approx(6 / 10 * 0.75 + 4 / 10 * early / (early + late))
    assert tonight.shares[0, 0, 6] == 0  # five Sundays of the network, all late
    assert tonight.shares[0, 1, 0] == pytest.approx(monday)
    two_weeks_ago = learned(spec, NOW - timedelta(days=14))
    assert two_weeks_ago.days.sum(axis=1).tolist() == [27, 0][: len(two_weeks_ago.days)]
    # later data do not change what was known
    file = tmp_path / "orders.csv"
    file.write_text(file.read_text("utf-8").replace("T19:00", "T07:00"), "utf-8")
    ingest(spec, now=NOW + timedelta(days=1))
    assert np.array_equal(learned(spec, NOW).shares, tonight.shares)
    assert learned(spec, NOW + timedelta(days=1)).shares[0, 0].tolist() == pytest.approx([1] * 7, abs=0.05)


def test_renamed_depot_keeps_its_learned_shares(tmp_path: Path) -> None:
    spec = fleet(tmp_path)
    ingest(spec, now=NOW)
    before = learned(spec, NOW)
    columns, former = "columns: {timezone: zone}", "aliases: {source: {kind: csv, path: al.csv}}"
    (tmp_path / "pipeline.yaml").write_text(ORDERS.replace(columns, f"{columns}, {former}"), "utf-8")
    (tmp_path / "al.csv").write_text("alias,depot_id\nA,C\n", "utf-8")
    (tmp_path / "depots.csv").write_text("depot_id,zone\nC,\nB,America/New_York\n", "utf-8")
    renamed = load(tmp_path / "pipeline.yaml")
    ingest(renamed, now=NOW + timedelta(hours=1))
    after = learned(renamed, NOW + timedelta(hours=1))
    assert sorted(after.days.sum(axis=1).tolist()) == sorted(before.days.sum(axis=1).tolist())
    assert np.allclose(np.sort(after.shares[0, :, 2]), np.sort(before.shares[0, :, 2]))


def test_run_publishes_and_saves_the_learned_shares(tmp_path: Path) -> None:
    spec = fleet(tmp_path)
    ingest(spec, now=NOW)
    published = predict(spec, as_of=NOW, bundle=None, run_id=None, note=None)
    assert published.trouble is None
    with Ledger.open(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        publication = ledger.whole(head)
    days = {depot.depot_id: depot.days for depot in publication.depots}
    monday = days["A"][0]
    assert monday.roster is not None
    assert monday.roster.shares is not None
    assert (monday.roster.shares.source, monday.roster.shares.days) == ("depot", 41)
    assert dict(monday.roster.shifts)["early"] > dict(monday.roster.shifts)["late"]
    get = visitor(spec.ledger_url, NOW, pipeline=spec.name)
    for page in ("/depot/A",):
        assert "Orders of the day by shift: early 7" in text(get(page))
        assert "learned from 41 days of this depot, 6 of them this weekday." in text(get(page))
    assert "from the whole network, because too few days of this depot are known." in text(get("/depot/B"))
    row = get("/api/v1/rosters").json()["rows"][0]
    assert (row["share_source"], row["share_days"], row["share_weekdays"]) == ("depot", 41, 6)
    assert [name for name, _ in row["shares"]] == ["early", "late"]
    inputs = saved_inputs.read(spec.paths.saved_inputs, publication.desk)
    assert inputs.shares is not None
    assert np.array_equal(inputs.shares.shares, learned(spec, NOW).shares)
    plain = saved_inputs.write(tmp_path / "desks", replace(inputs, shares=None))
    assert saved_inputs.read(tmp_path / "desks", plain).shares is None


def test_publication_reports_that_no_time_of_day_is_known(tmp_path: Path) -> None:
    """The lake was filled before shares were to be learned, and the source has nothing new."""
    spec = fleet(tmp_path)
    declared = ORDERS.replace("share: learn", "share: 0.5")
    (tmp_path / "pipeline.yaml").write_text(declared, "utf-8")
    ingest(load(tmp_path / "pipeline.yaml"), now=NOW)
    published = predict(spec, as_of=NOW, bundle=None, run_id=None, note=None)
    sentence = "No order times are known yet, so shifts share the day by their hours."
    assert sentence in (published.note or "")
