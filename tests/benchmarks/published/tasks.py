"""Published tasks, each declared in a few lines: data, windows, covariates known ahead, and the
function that makes the frame.

To add one, add a `PublishedTask` here, a function that makes its frame, and its published scores in
`scores.csv`. Windows are those of fev 0.8.0 (autogluon/fev, src/fev/task.py, `Task.initial_cutoff`
and `Task.cutoffs`): `first_cutoff` counts days from the end of each series, or is the last known
day of every series; later cutoffs follow in steps of `step` days. A series without a day up to a
cutoff, or without a whole horizon after it, is not in that window.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pandas as pd

from tests.benchmarks import real

DATASETS, PUBLISHED = "FORECASTER_DATASETS", "FORECASTER_PUBLISHED"
FEWEST_DROPPED = 12  # restaurants that are not in the published set: those with the fewest known days


@dataclass(frozen=True)
class PublishedTask:
    """A published task; `frame` makes, from the columns of the file, one row per series and day of
    its own daily grid."""

    name: str
    source: str  # file name
    at: str  # environment variable that names its folder
    target: str  # column to forecast
    horizon: int
    windows: int
    first_cutoff: int | date  # days from the end of each series, negative; or the last known day of every series
    step: int  # days from one cutoff to the next
    frame: Callable[[pd.DataFrame], pd.DataFrame]
    timezone: str
    country: str  # of our public holidays
    holidays: tuple[bool, ...]  # variants of our model: with and without a calendar of public holidays
    is_open: str | None = None  # column, known ahead, that shows if a series is open
    known_future: tuple[str, ...] = ()  # further columns known ahead
    static: tuple[str, ...] = ()
    season: int = 7

    @property
    def file(self) -> Path:
        return folder(self.at) / self.source

    def read(self) -> pd.DataFrame:
        """Return the task's frame: depot_id, date, demand, and the `is_open` column, covariates and
        statics by their names.

        Raises FileNotFoundError, with the variable to set, if the data are absent.
        """
        if not self.file.exists():
            raise FileNotFoundError(f"{self.name}: no file {self.file}; {self.at} names its folder")
        opened = [] if self.is_open is None else [self.is_open]
        columns = ["depot_id", "date", self.target, *opened, *self.known_future, *self.static]
        rows = pd.read_parquet(self.file, columns=columns).rename(columns={self.target: "demand"})
        rows = rows.assign(date=pd.to_datetime(rows["date"]), depot_id=rows["depot_id"].astype(str))
        return self.frame(rows.sort_values(["depot_id", "date"], ignore_index=True))


def folder(variable: str) -> Path:
    """Return the folder that an environment variable names; by default the published tasks' folder
    is next to the datasets'."""
    return real.folder() if variable == DATASETS else Path(os.environ.get(variable, real.folder().parent / "published"))


def as_it_is(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


def forward_filled(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the series from their first to their last known day, gaps forward-filled, without the
    few shortest."""
    known_days = rows["demand"].notna().groupby(rows["depot_id"]).sum()
    rows = rows[~rows["depot_id"].isin(known_days.nsmallest(FEWEST_DROPPED).index)]
    dates = rows["date"].where(rows["demand"].notna())
    series = dates.groupby(rows["depot_id"])
    rows = rows[rows["date"].between(series.transform("min"), series.transform("max"))]
    return rows.assign(demand=rows.groupby("depot_id")["demand"].ffill()).reset_index(drop=True)


TASKS = (
    PublishedTask(
        "rossmann_1D",
        source="rossmann.parquet",
        at=DATASETS,
        target="sales_eur",
        horizon=48,
        windows=10,
        first_cutoff=-480,
        step=48,
        frame=as_it_is,
        timezone="Europe/Berlin",
        country="DE",
        holidays=(True,),  # the published models knew StateHoliday
        is_open="open",
        known_future=("promo", "state_holiday", "school_holiday"),  # the day of the week is in each of our calendars
        static=("store_type", "assortment", "promo2"),
    ),
    PublishedTask(
        "restaurant",
        source="recruit_restaurants.parquet",
        at=DATASETS,
        target="demand",
        horizon=28,
        windows=8,
        first_cutoff=-224,
        step=28,
        frame=forward_filled,
        timezone="Asia/Tokyo",
        country="JP",
        holidays=(False, True),
        static=("genre", "prefecture"),
    ),
    PublishedTask(
        "hierarchical_sales_1D",
        source="hierarchical_sales.parquet",
        at=PUBLISHED,
        target="demand",
        horizon=28,
        windows=10,
        first_cutoff=-280,
        step=28,
        frame=as_it_is,
        timezone="Europe/Rome",
        country="IT",
        holidays=(False, True),
    ),
)
