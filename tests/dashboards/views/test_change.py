"""The reasons for a changed forecast, as a sentence and a bar."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from dashboards.ops.views.change import why
from forecaster.ledger.publication import PublishedChange
from tests.dashboards.seed import depot

DAY = depot(0).days[1]  # Wednesday, 18 June
CHANGE = PublishedChange(
    date(2025, 6, 16),
    round(DAY.quantiles[2]) - 12,
    (("calendar", 0), ("restated", -3), ("actuals", 9), ("model", 6), ("calibration", 0), ("override", 0)),
)
WHOLE = round(DAY.quantiles[2])


def test_a_change_is_one_sentence_and_a_bar_around_zero() -> None:
    [change] = why([replace(DAY, change=CHANGE)])
    assert (change.moved, change.day) == ("+12", "Wed 18 Jun")
    moved = "corrected counts −3, actual orders since +9, another model +6."
    assert change.sentence == f"{WHOLE - 12:,} on Mon 16 Jun, {WHOLE:,} now: {moved}"
    assert change.middle == 14
    assert [(piece.name, piece.x, piece.width) for piece in change.pieces] == [
        ("restated", 0, 14),
        ("actuals", 14, 42),
        ("model", 56, 28),
    ]


def test_reports_an_unchanged_day_and_a_day_without_a_previous_forecast() -> None:
    still = PublishedChange(date(2025, 6, 16), WHOLE, tuple((name, 0) for name, _ in CHANGE.parts))
    same, new = why([replace(DAY, change=still), DAY])
    assert same.sentence == f"{WHOLE:,} on Mon 16 Jun, and the same now."
    assert same.pieces == ()
    assert new.sentence == "No forecast of this day was published the day before."


def test_the_bars_of_a_depot_share_one_scale() -> None:
    half = PublishedChange(date(2025, 6, 16), WHOLE, (("actuals", -3), ("model", 15)))
    first, second = why([replace(DAY, change=CHANGE), replace(DAY, change=half)])
    assert first.middle == second.middle == 14
    assert [piece.width for piece in second.pieces] == [14, 70]
