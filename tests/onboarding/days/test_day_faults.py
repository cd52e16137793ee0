"""The error for a file without a column of days names the likeliest one and its problem."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from forecaster.errors import SpecError
from forecaster.onboarding import parts, tables
from forecaster.onboarding.description.questions import TableAnswers

DAYS = [date(2026, 1, 1) + timedelta(days=day) for day in range(40)]
POLISH = ("stycznia", "lutego")


def failure(folder: Path, text: str, name: str = "counts.csv") -> str:
    file = folder / name
    file.write_text(text, "utf-8")
    with pytest.raises(SpecError) as refused:
        parts.sort([tables.read(file)], TableAnswers())
    return str(refused.value).removeprefix(f"{file}: ")


def long(header: str, days: list[str]) -> str:
    return "\n".join([header, *(f"{day};Bern;{90 + place}" for place, day in enumerate(days))]) + "\n"


@pytest.mark.parametrize(
    ("days", "hint"),
    [
        (
            [f"{day.day} {POLISH[day.month - 1]} 2026" for day in DAYS],
            "'1 stycznia 2026' in line 2: month names in languages other than English cannot be read: write months "
            "as numbers, as in 2024-03-05",
        ),
        (
            [f"{day:%d/%m/%Y}".translate({48 + digit: 0x660 + digit for digit in range(10)}) for day in DAYS],
            "'٠١/٠١/٢٠٢٦' in line 2: they are written in digits of another script, which cannot be read: write them "
            "as in 2024-03-05",
        ),
        (
            [f"{day:%Y-%d-%m}" if day.day <= 12 else f"{day:%d/%m/%Y}" for day in DAYS],
            "'2026-01-01' in line 2: they have two formats, '2026-01-01' (52%) and '13/01/2026' (48%), so a program "
            "may have swapped day and month: write all dates as in 2024-03-05",
        ),
        (
            [f"{day:%m/%d/%Y}" if day.day > 12 else f"{day:%d.%m.%y}" for day in DAYS],
            "'01.01.26' in line 2: they have two formats, '01.01.26' (52%) and '01/13/2026' (48%), so a program may "
            "have swapped day and month: write all dates as in 2024-03-05",
        ),
        (
            [f"{day:%d/%m}/{day.year + 543 * (day.month > 1)}" for day in DAYS],
            "'01/01/2026' in line 2: '01/02/2569' looks like a date of the Buddhist calendar, whose years are 543 "
            "ahead: write all dates as in 2024-03-05",
        ),
        (
            [f"{day:%d.%m.}" for day in DAYS],
            "'01.01.' in line 2: they have no year: write days with one, as in 2024-03-05",
        ),
        (["soon"] * 40, "'soon' in line 2"),
    ],
)
def test_error_names_the_likeliest_day_column_with_its_first_value(tmp_path: Path, days: list[str], hint: str) -> None:
    assert failure(tmp_path, long("Tag;Ort;Sendungen", days)).startswith(
        "found no date column; searched columns 'Tag', 'Ort', 'Sendungen'; wanted one with dates such as 2024-03-05 or "
        f"05.03.2024; column 'Tag' may be the date column, with values such as {hint}"
    )


def test_error_names_day_columns_without_a_year(tmp_path: Path) -> None:
    header = ";".join(["Depot", *(f"{day:%d.%m.}" for day in DAYS[:8])])
    message = failure(tmp_path, f"{header}\nBern;1;2;3;4;5;6;7;8\nChur;1;2;3;4;5;6;7;9\n")
    assert message.endswith(
        "; columns such as '01.01.' may be days: they have no year: write days with one, as in 2024-03-05"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"depot": "A", "date": "2026-01-01", "orders": 3}]', "looks like JSON, which is not supported"),
        ('{"depot": "A", "date": "2026-01-01", "orders": 3}\n', "looks like JSON, which is not supported"),
        ("<!DOCTYPE html>\n<html><body>a, b</body></html>\n", "looks like HTML, which is not supported"),
        ("orders,orders\n2026-01-01,3\n", "found no column with a unique name in line 1, which contains 'orders'"),
        (
            ",Bern,,Chur,\nday,orders,revenue,orders,revenue\n2026-01-01,3,10,4,9\n2026-01-02,3,10,4,9\n",
            "found a header that seems to have two rows: 'Bern', 'Chur' in line 1, and 'orders', 'revenue', each",
        ),
        (
            f"site,{','.join(f'd_{n}' for n in range(1, 31))}\nBern{',7' * 30}\nChur{',9' * 30}\n",
            "found no date column; searched columns 'site', 'd_1', 'd_2', 'd_3', 'd_4', 'd_5', 'd_6', 'd_7', 'd_8', "
            "'d_9', 'd_10', 'd_11' and 19 more; wanted one with dates such as 2024-03-05 or 05.03.2024; columns d_1 "
            "to d_30 seem to be numbered days: rename each to its date, as in 2024-03-05 for the first, and set",
        ),
        ("depot,date,orders\n", "found columns 'depot', 'date', 'orders', but no rows of values below them"),
    ],
)
def test_error_explains_files_that_are_no_table(tmp_path: Path, text: str, message: str) -> None:
    assert failure(tmp_path, text).startswith(message)


def test_price_is_not_a_day_without_a_year(tmp_path: Path) -> None:
    text = "\n".join(["Ort;Preis;Sendungen", *(f"Bern;10.{place + 40};{place}" for place in range(40))])
    assert "Preis" not in failure(tmp_path, text).partition("wanted one with dates")[2]
