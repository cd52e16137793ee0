"""Made-up files of different shapes, as found in practice, of three depots."""

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
    """Semicolons, decimal commas, day-first dates."""
    rows = [f"{depot};{_written(day)};{count},0" for depot, day, count in readings(last).itertuples(index=False)]
    file = folder / "bestellungen.csv"
    file.write_text("\n".join(["Filiale;Datum;Anzahl Aufträge", *rows]) + "\n", "cp1252")
    return file


def wide_csv(folder: Path, last: date) -> Path:
    """Titles, then one column per depot and one with their sum."""
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
    """One row per hour, each a quarter of the day's count."""
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


FEW = {"Köln": 12, "Wedding": 30, "München": 7}  # orders per day, for files with one row per order


def daily_csv(folder: Path, last: date) -> Path:
    """One row per store and day, as the product itself would write it."""
    file = folder / "counts.csv"
    readings(last).set_axis(["store", "date", "orders"], axis="columns").to_csv(file, index=False)
    return file


def daily_parquet(folder: Path, last: date) -> Path:
    """Same as Parquet."""
    table = readings(last).set_axis(["store", "date", "orders"], axis="columns")
    file = folder / "counts.parquet"
    table.assign(date=pd.to_datetime(table["date"])).to_parquet(file)
    return file


def wide_workbook(folder: Path, last: date) -> Path:
    """Two titles, then one column per depot and one with their sum."""
    import xlsxwriter

    table = readings(last).pivot(index="day", columns="depot", values="count")
    file = folder / "standorte.xlsx"
    with xlsxwriter.Workbook(str(file)) as book:
        sheet, day_form = book.add_worksheet("2026"), book.add_format({"num_format": "dd.mm.yyyy"})
        sheet.write(0, 0, "Tageszahlen aller Standorte")
        sheet.write(1, 0, "Quelle: Kasse")
        sheet.write_row(3, 0, ["Datum", *table.columns, "Summe"])
        for row, (day, counts) in enumerate(table.iterrows(), start=4):
            sheet.write_datetime(row, 0, pd.Timestamp(day).to_pydatetime(), day_form)
            sheet.write_row(row, 1, [*map(int, counts), int(counts.sum())])
    return file


def hourly_csv(folder: Path, last: date) -> Path:
    """One row per hour, each a quarter of the day's count."""
    rows = [
        f"{depot},{day} {hour:02d}:00,{count // 4}"
        for depot, day, count in readings(last).itertuples(index=False)
        for hour in (9, 12, 15, 18)
    ]
    file = folder / "hourly.csv"
    file.write_text("\n".join(["site,timestamp,orders", *rows]) + "\n", "utf-8")
    return file


def orders(folder: Path, last: date, *, amounts: bool = False) -> Path:
    """One row per order, with its number, minute and depot, and with `amounts` its euros."""
    rng = np.random.default_rng(5)
    rows = []
    for back in range(DAYS - 1, -1, -1):
        day = last - timedelta(days=back)
        for depot, level in FEW.items():
            for minute in sorted(rng.integers(8 * 60, 20 * 60, rng.poisson(level))):
                amount = f",{rng.gamma(4, 9):.2f}" if amounts else ""
                rows.append(f"{100_000 + len(rows)},{day} {minute // 60:02d}:{minute % 60:02d},{depot}{amount}")
    file = folder / "orders.csv"
    header = "order_id,ordered_at,depot" + ",amount" * amounts
    file.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return file


def orders_with_amounts(folder: Path, last: date) -> Path:
    """Same with euros, which must not be summed."""
    return orders(folder, last, amounts=True)


OF_NEWCOMERS: tuple[Callable[[Path, date], Path], ...] = (
    daily_csv,
    wide_workbook,
    long_csv,
    hourly_csv,
    orders,
    orders_with_amounts,
    daily_parquet,
)
