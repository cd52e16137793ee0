"""Reports of a covariate stay in the lake unchanged, and their errors are learned from them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import Spec, load
from forecaster.core.panel import Panel
from forecaster.demand.history import report_errors
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.errors import SpecError
from forecaster.lake import Lake

FIRST = date(2024, 1, 1)
DAY = timedelta(days=1)
NIGHT = timedelta(hours=5)
ARRIVING = "{source: {kind: csv, path: demand.csv}}"
RECORDED = "{source: {kind: csv, path: demand.csv}, columns: {recorded_at: at}}"


def spec_of(folder: Path, demand: str = ARRIVING, names: str = "rain", more: str = "") -> Spec:
    calendar = f"calendar: {{holidays: false, known_future: [{names}]{more}}}"
    (folder / "pipeline.yaml").write_text(f"name: t\nhorizon: 3\ndemand: {demand}\n{calendar}\n", "utf-8")
    return load(folder / "pipeline.yaml")


def write(folder: Path, header: str, rows: list[str]) -> None:
    (folder / "demand.csv").write_text("\n".join([header, *rows]) + "\n", "utf-8")


def instant(day: date) -> datetime:
    """Five in the morning."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + NIGHT


def past(spec: Spec, day: date) -> tuple[Panel, Past]:
    knowledge = read_as_of(spec, as_of=instant(day) + timedelta(hours=1))
    panel = panels.build(knowledge, spec)
    return panel, Past(knowledge, panel, spec)


def final(number: int) -> int:
    """Rain that fell on a day."""
    return 20 + number % 5


def reports(nights: int, *, wrong: tuple[int, int, int] = (1, 2, 4)) -> list[str]:
    """Rows of a depot with the instants of the reports: each day's rain was reported three days
    ahead, too high by 4 on even days and too low on odd ones, then by 2, then by 1."""
    rows = []
    for number in range(nights):
        day, sign = FIRST + number * DAY, 1 if number % 2 else -1
        rows += [
            f"A,{day},,{final(number) + sign * error},{(day - (lead - 1) * DAY)}T03:00Z"
            for lead, error in enumerate(wrong, 1)
        ]
        rows.append(f"A,{day},{10 + number % 7},{final(number)},{day + DAY}T03:00Z")
    return rows


def recorded(folder: Path, nights: int, more: str = "", **changes: tuple[int, int, int]) -> Spec:
    """Pipeline whose lake holds reports with their own instants."""
    write(folder, "depot_id,date,demand,rain,at", reports(nights, **changes))
    spec = spec_of(folder, RECORDED, more=more)
    ingest(spec, now=instant(FIRST + nights * DAY))
    return spec


def learned(spec: Spec, nights: int, cutoff: date | None = None) -> dict[str, object]:
    """Report errors with which a nightly run trains."""
    _, past_panels = past(spec, FIRST + nights * DAY)
    return dict(past_panels.spec_to_train(spec, cutoff or FIRST + (nights - 1) * DAY).calendar.lead_error)


def test_different_reports_of_two_nights_are_both_kept_and_visible_at_their_time(tmp_path: Path) -> None:
    spec, last = spec_of(tmp_path), FIRST + 29 * DAY
    target = last + 3 * DAY
    for later, rain in ((1, 17.0), (2, 19.0)):
        known = [f"A,{FIRST + i * DAY},{10 + i},{final(i)}" for i in range(29 + later)]
        write(tmp_path, "depot_id,date,demand,rain", [*known, f"A,{target},,{rain}"])
        ingest(spec, now=instant(last + later * DAY))
    versions = Lake.of(spec).read("demand").to_pandas()
    ahead = versions[versions["date"] == target].sort_values("recorded_at")
    assert ahead["rain"].tolist() == [17.0, 19.0]
    assert ahead["demand"].isna().all()
    assert [at.to_pydatetime() for at in ahead["recorded_at"]] == [instant(last + DAY), instant(last + 2 * DAY)]
    built, past_panels = past(spec, last + 2 * DAY)
    assert built.cutoff == last + DAY
    assert built.covariates[0, -2, 0] == 19
    assert past_panels(last).covariates[0, -1, 0] == 17


def test_report_errors_are_learned_by_lead(tmp_path: Path) -> None:
    spec = recorded(tmp_path, 40)
    assert learned(spec, 40) == {"rain": (1.0, 2.0, 4.0)}
    least = report_errors.LEAST_DAYS
    # the very first report may be an old load
    assert learned(spec, 40, FIRST + (least - 1) * DAY) == {"rain": (1.0, 2.0)}
    assert learned(spec, 40, FIRST + (least - 2) * DAY) == {}


def test_backtest_reads_the_reports_from_which_errors_are_learned(tmp_path: Path) -> None:
    _, past_panels = past(recorded(tmp_path, 40), FIRST + 40 * DAY)
    cutoff = 30
    then = past_panels(FIRST + cutoff * DAY)
    errors = then.covariates[0, :, 0] - [final(number) for number in range(len(then.days))]
    assert not errors[:-3].any()
    signs = [1 if number % 2 else -1 for number in range(cutoff + 1, cutoff + 4)]
    assert errors[-3:].tolist() == [sign * error for sign, error in zip(signs, (1, 2, 4), strict=True)]


def test_report_error_never_decreases_with_the_lead(tmp_path: Path) -> None:
    assert learned(recorded(tmp_path, 40, wrong=(4, 2, 1)), 40) == {"rain": (4.0, 4.0, 4.0)}


def test_correct_reports_have_no_error(tmp_path: Path) -> None:
    assert learned(recorded(tmp_path, 40, wrong=(0, 0, 0)), 40) == {}


def test_declared_error_takes_precedence(tmp_path: Path) -> None:
    assert learned(recorded(tmp_path, 40, ", lead_error: {rain: 9}"), 40) == {"rain": 9.0}


def test_value_far_outside_all_actuals_is_not_a_report(tmp_path: Path) -> None:
    rows = [row.replace(",,", ",,-999") if row.startswith(f"A,{FIRST + 30 * DAY},,") else row for row in reports(40)]
    write(tmp_path, "depot_id,date,demand,rain,at", rows)
    spec = spec_of(tmp_path, RECORDED)
    ingest(spec, now=instant(FIRST + 40 * DAY))
    assert learned(spec, 40) == {"rain": (1.0, 2.0, 4.0)}


@pytest.mark.parametrize(("values", "kind"), [((0, 1), "flags"), (("dry", "wet"), "words")])
def test_flags_and_words_have_no_error(tmp_path: Path, values: tuple[object, object], kind: str) -> None:
    rows = []
    for number in range(40):
        day = FIRST + number * DAY
        rows.append(f"A,{day},,{values[number % 2]},{day}T03:00Z")
        rows.append(f"A,{day},{10 + number % 7},{values[number % 3 % 2]},{day + DAY}T03:00Z")
    write(tmp_path, "depot_id,date,demand,rain,at", rows)
    spec = spec_of(tmp_path, RECORDED)
    ingest(spec, now=instant(FIRST + 40 * DAY))
    assert learned(spec, 40) == {}, kind


def test_an_archive_without_reports_shows_no_error(tmp_path: Path) -> None:
    write(tmp_path, "depot_id,date,demand,rain", [f"A,{FIRST + i * DAY},{10 + i},{final(i)}" for i in range(40)])
    spec = spec_of(tmp_path)
    ingest(spec, now=instant(FIRST + 40 * DAY))
    _, past_panels = past(spec, FIRST + 40 * DAY)
    assert past_panels.spec_to_train(spec, FIRST + 39 * DAY) is spec


@pytest.mark.parametrize(
    ("readings", "kind"),
    [({"rain": pd.Series(["dry", "wet"], dtype="category")}, "a column of words"), ({}, "a kind of events")],
)
def test_only_numeric_columns_may_have_an_error(tmp_path: Path, readings: dict[str, object], kind: str) -> None:
    spec = spec_of(tmp_path, more=", lead_error: {rain: 1}")
    wanted = f"calendar.lead_error: found 'rain', which is {kind}, wanted a column of numbers"
    with pytest.raises(SpecError, match=wanted):
        report_errors.refuse_other_than_numbers(spec, pd.DataFrame(readings))


def test_backtest_without_reports_adds_the_declared_error_to_final_values(tmp_path: Path) -> None:
    depots, days = [f"D{number}" for number in range(300)], 40
    rows = [f"{depot},{FIRST + i * DAY},{10 + i},{final(i)}" for i in range(days) for depot in depots]
    write(tmp_path, "depot_id,date,demand,rain", rows)
    spec = spec_of(tmp_path, "{source: {kind: csv, path: demand.csv}, recorded: next_day}")
    ingest(spec, now=instant(FIRST + days * DAY))
    declared = spec_of(
        tmp_path, "{source: {kind: csv, path: demand.csv}, recorded: next_day}", more=", lead_error: {rain: 0.5}"
    )
    cutoff = FIRST + 30 * DAY
    true, off, again = (past(of, FIRST + days * DAY)[1](cutoff).covariates[..., 0] for of in (spec, declared, declared))
    np.testing.assert_array_equal(off, again)
    errors = off - true
    assert not errors[:, :-3].any()
    np.testing.assert_allclose(errors[:, -3:].std(axis=0), 0.5 * np.sqrt([1, 2, 3]), rtol=0.15)
    np.testing.assert_allclose(np.corrcoef(errors[:, -3], errors[:, -1])[0, 1], 3**-0.5, atol=0.12)


def test_existing_report_has_only_its_own_error(tmp_path: Path) -> None:
    plain = recorded(tmp_path, 40)
    declared = spec_of(tmp_path, RECORDED, more=", lead_error: {rain: 5}")
    cutoff = FIRST + 30 * DAY
    reads = [past(spec, FIRST + 40 * DAY)[1](cutoff).covariates for spec in (plain, declared)]
    np.testing.assert_array_equal(*reads)
