"""Public holidays are shown in the reader's language if their calendar has it, and as stored
otherwise."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import holidays
import numpy as np
import pytest

from forecaster.core.language import LANGUAGES, use_language
from forecaster.core.language.holiday_names import HolidayRegion, _may_have, region_of, translated_holiday
from forecaster.demand.panel.calendar import holiday_names

ROOT = Path(__file__).parents[3]
GERMANY, BAVARIA = HolidayRegion("DE"), HolidayRegion("DE", "BY")


@pytest.mark.parametrize(
    ("language", "day", "name", "region", "told"),
    [
        ("de", date(2025, 10, 3), "German Unity Day", GERMANY, "Tag der Deutschen Einheit"),
        ("de", date(2025, 1, 6), "Epiphany", BAVARIA, "Heilige Drei Könige"),
        ("de", date(2025, 1, 6), "Epiphany", GERMANY, "Epiphany"),  # no holiday there
        ("de", date(2025, 10, 3), "Free delivery", GERMANY, "Free delivery"),
        ("en", date(2025, 10, 3), "German Unity Day", GERMANY, "German Unity Day"),
        ("es", date(2025, 10, 3), "German Unity Day", GERMANY, "German Unity Day"),  # its calendar has no Spanish
        ("es", date(2025, 12, 25), "Christmas Day", HolidayRegion("ES"), "Natividad del Señor"),
        ("ar", date(2025, 9, 23), "National Day Holiday", HolidayRegion("SA"), "اليوم الوطني"),
        ("de", date(2025, 10, 3), "German Unity Day", HolidayRegion("XX"), "German Unity Day"),
        ("de", date(2025, 10, 3), "German Unity Day", HolidayRegion("DE", "XX"), "German Unity Day"),
        ("de", date(2025, 10, 3), "German Unity Day", HolidayRegion(), "German Unity Day"),
    ],
)
def test_a_holiday_is_translated_if_its_calendar_has_the_language(
    language: str, day: date, name: str, region: HolidayRegion, told: str
) -> None:
    with use_language(language):
        assert translated_holiday(day, name, region) == told


@pytest.mark.parametrize(("country", "language"), [("CH", "de"), ("ES", "es"), ("MX", "es"), ("EG", "ar")])
def test_every_holiday_of_a_panel_is_translated(country: str, language: str) -> None:
    days = np.arange("2025-01-01", "2027-01-01", dtype="datetime64[D]")
    names = holiday_names(days, country, None)
    with use_language(language):
        same = [name for day, name in names.items() if translated_holiday(day, name, HolidayRegion(country)) == name]
    assert (len(names) > 5, same) == (True, [])


@pytest.mark.parametrize(
    ("attributes", "region"),
    [
        ({}, ("DE", "BY")),
        ({"country": "DE"}, ("DE", "BY")),
        ({"country": "DE", "subdivision": "BE"}, ("DE", "BE")),
        ({"subdivision": "BE", "city": "Berlin"}, ("DE", "BE")),
        ({"country": "AT", "subdivision": ""}, ("AT", "")),
    ],
)
def test_a_depot_without_its_own_region_is_in_the_pipelines_region(
    attributes: dict[str, str], region: tuple[str, str]
) -> None:
    assert region_of(attributes, BAVARIA) == region


def test_every_supported_language_of_a_calendar_is_detected() -> None:
    for country in holidays.list_supported_countries():
        spoken = {code.partition("_")[0] for code in holidays.country_holidays(country).supported_languages}
        missing = [code for code in LANGUAGES if code in spoken and not _may_have(country, code)]
        assert missing == [], country


def test_no_calendar_is_loaded_for_a_language_that_it_lacks() -> None:
    code = (
        "import sys; from datetime import date; from forecaster.core.language import use_language\n"
        "from forecaster.core.language.holiday_names import HolidayRegion, translated_holiday\n"
        "with use_language('de'): print(translated_holiday(date(2025, 7, 4), 'Freedom Day', HolidayRegion('US')))\n"
        "print('holidays' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout == "Freedom Day\nFalse\n"
