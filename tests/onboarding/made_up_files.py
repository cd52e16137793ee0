"""Made-up files of different shapes, as people have them, of three depots."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

DEPOTS = {"Köln": 420, "Wedding": 2380, "München": 150}
DAYS = 180


def readings(last: date) -> pd.DataFrame:
    """Columns depot, day, count."""
    rng = np.random.default_rng(3)
    days = [last - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    rows = [
        (depot, day, rng.poisson(level * (1 + 0.02 * day.weekday()))) for depot, level in DEPOTS.items() for day in days
    ]
    return pd.DataFrame(rows, columns=["depot", "day", "count"])


def _written(day: date) -> str:
    return day.strftime("%d.%m.%Y")


def long_csv(folder: Path, last: date) -> Path:
    """Semicolons, decimal commas, days first."""
    rows = [f"{depot};{_written(day)};{count},0" for depot, day, count in readings(last).itertuples(index=False)]
    file = folder / "bestellungen.csv"
    file.write_text("\n".join(["Filiale;Datum;Anzahl Aufträge", *rows]) + "\n", "cp1252")
    return file


def wide_csv(folder: Path, last: date) -> Path:
    """Titles, then a column a depot and one with their sum."""
    table = (
        readings(last)
        .pivot(index="day", columns="depot", values="count")
        .assign(Summe=lambda counts: counts.sum(axis=1))
    )
    table.insert(0, "Datum", [_written(day) for day in table.index])
    file = folder / "standorte.csv"
    file.write_text(
        "Tageszahlen aller Standorte;;;;\nQuelle: Kasse;;;;\n" + table.to_csv(sep=";", index=False), "utf-8"
    )
    return file


def workbook(folder: Path, last: date) -> Path:
    """A title above the header, on the second sheet."""
    import xlsxwriter

    file = folder / "parcels.xlsx"
    with xlsxwriter.Workbook(str(file)) as book:
        book.add_worksheet("About").write(0, 0, "Counts are on the next sheet")
        sheet, day_form = book.add_worksheet("Data"), book.add_format({"num_format": "yyyy-mm-dd"})
        sheet.write(0, 0, "Parcels by store")
        sheet.write_row(2, 0, ["Store", "Day", "Parcels"])
        for row, (depot, day, count) in enumerate(readings(last).itertuples(index=False), start=3):
            sheet.write(row, 0, depot)
            sheet.write_datetime(row, 1, pd.Timestamp(day).to_pydatetime(), day_form)
            sheet.write(row, 2, int(count))
    return file


def hourly_parquet(folder: Path, last: date) -> Path:
    """A row an hour, which makes a fourth of the day's count."""
    table = readings(last)
    parts = [table.assign(day=pd.to_datetime(table["day"]) + pd.Timedelta(hours=hour)) for hour in (9, 12, 15, 18)]
    whole = pd.concat(parts, ignore_index=True).assign(count=lambda rows: rows["count"] // 4)
    file = folder / "hourly.parquet"
    whole.set_axis(["site", "timestamp", "orders"], axis="columns").to_parquet(file)
    return file


def archive(folder: Path, last: date) -> Path:
    """Counts that ended a year ago."""
    table = readings(last - timedelta(days=365)).set_axis(["tienda", "fecha", "pedidos"], axis="columns")
    file = folder / "historico.csv"
    table.to_csv(file, index=False, sep="\t")
    return file


SHAPES: tuple[Callable[[Path, date], Path], ...] = (long_csv, wide_csv, workbook, hourly_parquet, archive)
