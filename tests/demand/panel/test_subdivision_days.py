"""Holidays omitted by a fleet that declares no subdivision."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.demand.panel.subdivision_days import left_out_holidays
from tests import panels

PANEL = panels.panel(3, history=120, statics={})  # from New Year to the end of April 2024


def spec_of(folder: Path, calendar: str) -> Spec:
    (folder / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\ncalendar: {{{calendar}}}\n", "utf-8"
    )
    return load(folder / "pipeline.yaml")


def test_names_the_country_whose_subdivisions_differ_and_the_key_to_set(tmp_path: Path) -> None:
    [sentence] = left_out_holidays(PANEL, spec_of(tmp_path, "country: GB"))
    assert sentence == (
        "GB has holidays by subdivision (ENG, NIR, SCT, WLS), and none is declared for 3 depots: 4 days of these data "
        "are holidays in some of them alone, such as 2024-04-01 (Easter Monday: ENG, NIR, WLS), and count as ordinary "
        "ones. Set calendar.subdivision, or name a column subdivision in depots.static."
    )


def test_covariate_of_school_holidays_is_not_one_of_public_holidays(tmp_path: Path) -> None:
    assert left_out_holidays(PANEL, spec_of(tmp_path, "country: GB, known_future: [school_holiday]"))


@pytest.mark.parametrize(
    "calendar",
    [
        "country: GB, subdivision: ENG",
        "country: GB, holidays: false",
        "holidays: true",
        "country: GB, known_future: [school_holiday, state_holiday]",
        "country: JP",  # which has none
        "country: 'NO'",  # whose subdivisions have no holidays of their own
    ],
)
def test_no_sentence_if_a_subdivision_is_declared_or_makes_no_difference(tmp_path: Path, calendar: str) -> None:
    assert left_out_holidays(PANEL, spec_of(tmp_path, calendar)) == []
