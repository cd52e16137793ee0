"""Columns of a depots file with the first day of business and the first day out of business."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.onboarding import start, tables
from forecaster.onboarding.days import lifespans
from tests.onboarding import made_up_files

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
OPENED = "the first day of business, by its name"
CLOSED = "the first day out of business, by its name; empty for depots in business"


def spans_of(folder: Path, header: str, rows: list[str], demand_form: str | None = None) -> lifespans.Lifespans:
    file = folder / "depots.csv"
    file.write_text("\n".join([f"depot,name,{header}", *rows]) + "\n", "utf-8")
    return lifespans.of(tables.read(file), demand_form)


@pytest.mark.parametrize(
    ("opened", "closed"),
    [
        ("opened", "closed"),
        ("opening_date", "closing_date"),
        ("OpenSince", "Closed on"),
        ("Eröffnet am", "geschlossen_am"),
        ("date_ouverture", "date_fermeture"),
        ("Fecha apertura", "Fecha cierre"),
    ],
)
def test_opening_and_closing_days_are_recognized_by_column_name(tmp_path: Path, opened: str, closed: str) -> None:
    rows = ["A,Graz,1974-05-01,", "B,Linz,2020-01-01,2025-09-27", "C,Wels,2021-01-01,9999-12-31"]
    assert spans_of(tmp_path, f"{opened},{closed}", rows) == lifespans.Lifespans(
        (("opened", opened, OPENED), ("closed", closed, CLOSED))
    )


def test_days_use_the_form_of_the_counts_if_it_reads_them(tmp_path: Path) -> None:
    rows = ["A,Graz,01/02/2020", "B,Linz,03/04/2021"]
    assert spans_of(tmp_path, "opened", rows, "%m/%d/%Y").form == "%m/%d/%Y"
    assert spans_of(tmp_path, "opened", ["A,Graz,24.12.2020", "B,Linz,03.04.2021"], "%m/%d/%Y").form == "%d.%m.%Y"


def test_closing_column_without_any_day_is_still_read(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, "closed", ["A,Graz,", "B,Linz,"])
    assert spans == lifespans.Lifespans((("closed", "closed", f"{CLOSED}; so far, all values are empty"),))


def test_column_without_days_is_omitted_with_a_note(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, "opened,closed", ["A,Graz,2020-01-01,no", "B,Linz,2021-01-01,yes"])
    assert spans.names == ("opened",)
    assert spans.notes == (
        "column 'closed' of depots.csv is not used as `depots.columns.closed`: its values, such as 'no', are not "
        "dates in one format such as 2024-03-05",
    )


def test_pipeline_file_names_the_columns_and_their_form(tmp_path: Path) -> None:
    file = tmp_path / "depots.csv"
    rows = [f"{name};{name};01.03.2019;" for name in made_up_files.DEPOTS]
    file.write_text("\n".join(["Filiale;city;eroeffnet;geschlossen", *rows]) + "\n", "utf-8")
    counts = made_up_files.long_csv(tmp_path, date(2026, 3, 1))
    outcome = start.create([counts, file], tmp_path / "fleet", country="DE", ask=None, now=NOW)
    depots = load(tmp_path / "fleet" / start.PIPELINE).depots
    assert depots is not None
    assert (depots.columns.opened, depots.columns.closed, depots.static) == ("eroeffnet", "geschlossen", ("city",))
    assert depots.source.model_dump()["date_format"] == "%d.%m.%Y"
    assert outcome.fault is None
