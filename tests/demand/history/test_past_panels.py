"""A past nightly run is replayed with exactly the knowledge of that time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import Spec, load
from forecaster.core.panel import Panel
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.errors import NoUsableData
from forecaster.evaluation import backtest
from forecaster.serving.fallback import seasonal_naive

FIRST = date(2024, 1, 1)  # a Monday
LAST = date(2024, 3, 10)
TONIGHT = datetime(2024, 3, 11, 6, tzinfo=UTC)
CUTOFF = date(2024, 2, 25)
THEN = datetime(2024, 2, 26, 6, tzinfo=UTC)  # start of a run with that cutoff
DAY = timedelta(days=1)
ARCHIVE = "{source: {kind: csv, path: demand.csv}, recorded: next_day}"
TOLD = "{source: {kind: csv, path: demand.csv}, columns: {recorded_at: at}}"
MORE = """
depots: {source: {kind: csv, path: depots.csv}, columns: {opened: opened}, static: [city]}
calendar: {holidays: false, events: {source: {kind: csv, path: events.csv}}, known_future: [promo]}
"""


def days(first: date = FIRST, last: date = LAST) -> list[date]:
    return [first + timedelta(days=i) for i in range((last - first).days + 1)]


def spec_of(folder: Path, demand: str, more: str = "calendar: {holidays: false}") -> Spec:
    (folder / "pipeline.yaml").write_text(f"name: t\ndemand: {demand}\n{more}\n", "utf-8")
    return load(folder / "pipeline.yaml")


def write(folder: Path, name: str, *lines: str) -> None:
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")


def tonight(spec: Spec, as_of: datetime = TONIGHT) -> tuple[Panel, Past]:
    knowledge = read_as_of(spec, as_of=as_of)
    built = panels.build(knowledge, spec)
    return built, Past(knowledge, built, spec)


def same(first: Panel, second: Panel) -> bool:
    names = ("days", "demand", "open", "covariates", "statics")
    alike = all(np.array_equal(getattr(first, n), getattr(second, n), equal_nan=n == "demand") for n in names)
    return alike and np.array_equal(first.calendar[first.calendar_group], second.calendar[second.calendar_group])


def test_archive_without_restatements_equals_tonights_panel_cut_off(tmp_path: Path) -> None:
    rows = [
        f"{d},{day},{10 * (i % 9) + d.encode()[0]},{day.day % 9 == 0:d}" for d in "AB" for i, day in enumerate(days())
    ]
    write(tmp_path, "demand", "depot_id,date,demand,promo", *rows)
    spec = spec_of(tmp_path, ARCHIVE, "calendar: {holidays: true, country: DE, known_future: [promo]}")
    ingest(spec, now=datetime(2030, 1, 1, tzinfo=UTC))
    built, then_at = tonight(spec, datetime(2030, 1, 1, 6, tzinfo=UTC))
    assert built.cutoff == LAST
    for cutoff in backtest.cutoffs(built, 28):
        assert same(then_at(cutoff), built.at(cutoff))


def test_later_records_are_hidden_and_replaced_values_are_visible(tmp_path: Path) -> None:
    rows = [f"A,{day},{i},{day + DAY}T03:00Z" for i, day in enumerate(days())]
    late, restated = CUTOFF - DAY, CUTOFF - 3 * DAY
    rows = [row.replace(f"{CUTOFF}T03", "2024-02-28T03") if f"A,{late}," in row else row for row in rows]
    write(tmp_path, "demand", "depot_id,date,demand,at", *rows, f"A,{restated},60,2024-02-27T03:00Z")
    spec = spec_of(tmp_path, TOLD)
    ingest(spec, now=TONIGHT)
    built, then_at = tonight(spec)
    then = then_at(CUTOFF)
    assert then.cutoff == CUTOFF
    number = {day: i for i, day in enumerate(then.days.astype(object))}
    assert np.isnan(then.demand[0, number[late]])
    assert then.demand[0, number[restated]] == number[restated]
    assert built.demand[0, number[restated]] == 60
    assert built.demand[0, number[late]] == number[late]


def test_late_feed_leaves_the_last_days_unknown(tmp_path: Path) -> None:
    rows = [f"A,{day},{i},{day + DAY}T0{9 if day == CUTOFF else 3}:00Z" for i, day in enumerate(days())]
    write(tmp_path, "demand", "depot_id,date,demand,at", *rows)
    spec = spec_of(tmp_path, TOLD)
    ingest(spec, now=TONIGHT)
    _, then_at = tonight(spec)  # at six, before nine
    then = then_at(CUTOFF)
    assert then.cutoff == CUTOFF
    assert np.isnan(then.demand[0, -1])
    assert np.isfinite(then.demand[0, :-1]).all()


def test_history_loaded_later_counts_as_known_the_next_morning(tmp_path: Path) -> None:
    """Loaded on 20 February: a whole year unknown before. From then on each day arrived the next
    morning, except one late day."""
    spec = spec_of(tmp_path, "{source: {kind: csv, path: demand.csv}}")
    loaded = date(2024, 2, 20)
    late = date(2024, 2, 22)
    for night in days(loaded, LAST + DAY):
        rows = [f"A,{d},{i}" for i, d in enumerate(days()) if d < night and (d != late or night > late + 4 * DAY)]
        write(tmp_path, "demand", "depot_id,date,demand", *rows)
        ingest(spec, now=datetime(night.year, night.month, night.day, 5, tzinfo=UTC))
    built, then_at = tonight(spec)
    assert then_at(date(2024, 2, 4)).demand.tolist() == [[float(i) for i in range(35)]]
    then = then_at(date(2024, 2, 25))
    assert np.flatnonzero(np.isnan(then.demand[0])).tolist() == [(late - FIRST).days]
    assert np.isfinite(then_at(date(2024, 2, 27)).demand).all()
    assert np.isfinite(built.demand).all()


def test_covariate_declared_later_counts_as_known_in_advance(tmp_path: Path) -> None:
    """The feed got its column `promo` on 5 March, for all days at once; later changes of it are
    news."""
    declared_on, changed = date(2024, 3, 5), CUTOFF + 2 * DAY
    write(
        tmp_path, "demand", "depot_id,date,demand", *[f"A,{d},{i}" for i, d in enumerate(days(last=declared_on - DAY))]
    )
    before = spec_of(tmp_path, "{source: {kind: csv, path: demand.csv}}")
    ingest(before, now=datetime(2024, 3, 4, 5, tzinfo=UTC))
    for at, promoted in ((declared_on, {CUTOFF + DAY}), (LAST + DAY, {CUTOFF + DAY, changed})):
        rows = [f"A,{d},{i},{d in promoted:d}" for i, d in enumerate(days(last=at + 7 * DAY))]
        rows = [row if i < (at - FIRST).days else row.replace(f",{i},", ",,") for i, row in enumerate(rows)]
        write(tmp_path, "demand", "depot_id,date,demand,promo", *rows)
        ingest(
            spec_of(tmp_path, "{source: {kind: csv, path: demand.csv}}", "calendar: {known_future: [promo]}"),
            now=datetime(at.year, at.month, at.day, 5, tzinfo=UTC),
        )
    spec = spec_of(tmp_path, "{source: {kind: csv, path: demand.csv}}", "calendar: {known_future: [promo]}")
    built, then_at = tonight(spec)
    then = then_at(CUTOFF)
    assert then.covariates[0, -7:, 0].tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert built.at(CUTOFF).covariates[0, -7:, 0].tolist() == [1, 1, 0, 0, 0, 0, 0]


def test_unannounced_closed_day_is_forecast_as_open(tmp_path: Path) -> None:
    surprise = CUTOFF + 2 * DAY
    rows = [
        f"A,{d},{10 if d != surprise and d.weekday() != 6 else 0},{d != surprise and d.weekday() != 6:d}"
        for d in days()
    ]
    write(tmp_path, "demand", "depot_id,date,demand,open", *rows)
    spec = spec_of(tmp_path, "{source: {kind: csv, path: demand.csv}, columns: {open: open}, recorded: next_day}")
    ingest(spec, now=TONIGHT)
    built, then_at = tonight(spec)
    then = then_at(CUTOFF)
    assert then.open[0, -7:].tolist() == [True] * 6 + [False]  # Sundays were always closed
    assert built.at(CUTOFF).open[0, -7:].tolist() == [True, False, True, True, True, True, False]
    (fold,) = backtest.folds(lambda p: seasonal_naive(p, (0.1, 0.5, 0.9)), built, [CUTOFF], then_at)
    assert fold.forecast.open[0].tolist() == [True] * 6 + [False]
    assert np.flatnonzero(np.isnan(fold.actuals[0])).tolist() == [1, 6]  # a closed day is not scored


def test_orders_on_a_day_believed_closed_are_scored(tmp_path: Path) -> None:
    opened = CUTOFF + 7 * DAY  # a Sunday
    rows = [
        f"A,{d},{10 if d.weekday() != 6 or d == opened else ''},{d.weekday() != 6 or d == opened:d}" for d in days()
    ]
    write(tmp_path, "demand", "depot_id,date,demand,open", *rows)
    spec = spec_of(tmp_path, "{source: {kind: csv, path: demand.csv}, columns: {open: open}, recorded: next_day}")
    ingest(spec, now=TONIGHT)
    built, then_at = tonight(spec)
    (fold,) = backtest.folds(lambda p: seasonal_naive(p, (0.1, 0.5, 0.9)), built, [CUTOFF], then_at)
    assert not fold.forecast.open[0, 6]
    assert fold.forecast.median[0, 6] == 0
    assert fold.actuals[0, 6] == 10


def test_unknown_depot_is_never_open_and_not_scored(tmp_path: Path) -> None:
    write(
        tmp_path,
        "demand",
        "depot_id,date,demand",
        *[f"{d},{day},5" for d, first in (("A", FIRST), ("B", CUTOFF + DAY)) for day in days(first)],
    )
    spec = spec_of(tmp_path, ARCHIVE)
    ingest(spec, now=TONIGHT)
    built, then_at = tonight(spec)
    assert built.depot_ids == ("A", "B")
    then = then_at(CUTOFF)
    assert then.depot_ids == ("A", "B")
    assert not then.open[1].any()
    assert np.isnan(then.demand[1]).all()
    (fold,) = backtest.folds(lambda p: seasonal_naive(p, (0.1, 0.5, 0.9)), built, [CUTOFF], then_at)
    assert np.isfinite(fold.actuals).tolist() == [[True] * 7, [False] * 7]


def test_events_and_depots_announced_later_are_hidden(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, ARCHIVE, MORE)
    write(tmp_path, "demand", "depot_id,date,demand,promo", *[f"A,{day},5,0" for day in days()])
    write(tmp_path, "depots", "depot_id,opened,city", "A,,Ulm")
    strike, feast = CUTOFF + 3 * DAY, CUTOFF + 4 * DAY
    write(tmp_path, "events", "date,kind,name", f"{strike},closure,strike")
    ingest(spec, now=THEN - 5 * DAY)
    write(tmp_path, "events", "date,kind,name", f"{strike},closure,strike", f"{feast},closure,feast")
    write(tmp_path, "depots", "depot_id,opened,city", "A,,Ulm", "B,,Bonn")
    ingest(spec, now=THEN + DAY)
    built, then_at = tonight(spec)
    then = then_at(CUTOFF)
    assert np.flatnonzero(~then.open[0, -7:]).tolist() == [2]
    assert np.flatnonzero(~built.at(CUTOFF).open[0, -7:]).tolist() == [2, 3]
    assert not then.open[1].any()
    assert built.depot_ids == ("A", "B")


def test_nothing_after_a_cutoff_changes_its_panel(tmp_path: Path) -> None:
    """Leak detector: everything recorded, announced or counted later is replaced."""
    pairs = []
    for salt in (0, 1000):
        folder = tmp_path / str(salt)
        folder.mkdir()
        spec = spec_of(folder, TOLD, MORE)
        rows = []
        for i, day in enumerate(days()):
            later = salt if day > CUTOFF else 0
            rows += [f"{d},{day},{i % 7 + 5 + later},{(i % 5 == 0) ^ (later > 0):d},{day + DAY}T03:00Z" for d in "AB"]
        restated = [f"A,{CUTOFF - 4 * DAY},{70 + salt},0,2024-03-01T03:00Z"]
        ahead = [f"{d},{day},,1,2024-02-20T03:00Z" for d in "AB" for day in days(CUTOFF + DAY, CUTOFF + 7 * DAY)]
        write(folder, "demand", "depot_id,date,demand,promo,at", *rows, *restated, *ahead)
        write(folder, "depots", "depot_id,opened,city", "A,,Ulm", "B,,Ulm")
        write(folder, "events", "date,kind,name", f"{FIRST},fair,fair")
        ingest(spec, now=THEN)
        if salt:
            events = [f"{FIRST},fair,fair", f"{CUTOFF + 2 * DAY},closure,flood", f"{CUTOFF},fair,fair"]
            write(folder, "events", "date,kind,name", *events)
            ingest(spec, now=THEN + DAY)
        built, then_at = tonight(spec)
        pairs.append((built, then_at(CUTOFF)))
    (built, then), (other_built, other_then) = pairs
    assert not same(built, other_built)
    assert then.covariates[:, -7:, then.encoding.covariates.index("promo")].all()  # as it was announced
    assert same(then, other_then)


def test_cutoff_without_known_demand_raises_an_error(tmp_path: Path) -> None:
    write(tmp_path, "demand", "depot_id,date,demand", *[f"A,{day},5" for day in days()])
    spec = spec_of(tmp_path, ARCHIVE)
    ingest(spec, now=TONIGHT)
    _, then_at = tonight(spec)
    with pytest.raises(NoUsableData):
        then_at(FIRST - DAY)
