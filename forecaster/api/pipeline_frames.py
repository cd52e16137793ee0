"""Results of a pipeline as data frames, for review in a notebook; nothing is written.

Frames are pandas' unless another library is named. Anyone who can read the pipeline's folder can
read all of it: the roles and cities of the page do not apply here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from forecaster.api.frames import OURS, native
from forecaster.config import Spec
from forecaster.config import load as load_spec
from forecaster.errors import NoSuchRow, SpecError
from forecaster.lake import Lake
from forecaster.ledger.publication import PublishedDay, PublishedDepot, PublishedTotal
from forecaster.ledger.store import Ledger
from forecaster.planning import override_table

Library = Literal["pandas", "polars", "pyarrow"]


def load(file: str | Path, *, library: Library = "pandas") -> Pipeline:
    """Load the pipeline of a pipeline file, with frames of `library`: pandas, polars or pyarrow.

    Raises SpecError for an invalid file, with a line for each mistake, and for another library.
    """
    if library not in get_args(Library):
        raise SpecError(f"library: found {library!r}, wanted one of {', '.join(get_args(Library))}")
    return Pipeline(load_spec(file), library)


class Pipeline:
    """Results of a pipeline as frames. Each call reads the current lake or ledger.

    Raises LakeError or LedgerError if these cannot be read, NoLedger if there was no run yet.
    """

    def __init__(self, spec: Spec, library: Library = "pandas") -> None:
        self.spec = spec
        self._library = nw.Implementation.from_backend(library)

    def __repr__(self) -> str:
        return f"Pipeline({self.spec.name!r}, horizon {self.spec.horizon}, state {self.spec.paths.folder})"

    def readings(self, as_of: datetime | None = None) -> Any:
        """Known readings at an instant, now by default: depot_id, date, demand, open if the source
        states it, and covariates. An instant without a zone is in the pipeline's. Raises
        NoUsableData if nothing was known, SpecError for anything but an instant."""
        from forecaster.demand.history.point_in_time import read_as_of

        demand: pd.DataFrame = read_as_of(self.spec, as_of=self._instant(as_of)).demand
        return self._frame(pa.Table.from_pandas(demand, preserve_index=False))

    def _instant(self, as_of: Any) -> datetime:
        if as_of is None:
            return datetime.now(UTC)
        if not isinstance(as_of, datetime):
            raise SpecError(f"as_of: found {as_of!r}, wanted an instant: datetime(2024, 3, 5, 6, 0)")
        return (as_of if as_of.tzinfo else as_of.replace(tzinfo=self.spec.zone)).astimezone(UTC)

    def publications(self) -> Any:
        """One row per publication, latest first: its content, its time, and its model."""
        with Ledger.open_reader(self.spec.ledger_url) as ledger:
            heads = ledger.publications(self.spec.name)
        names = ("publication_id", "run_id", "published_at", "as_of", "cutoff", "horizon", "tier", "model", "note")
        columns: dict[str, Any] = {name: _typed(name, [getattr(head, name) for head in heads]) for name in names}
        return self._frame(pa.table({**columns, "cutoff": _days(head.cutoff for head in heads)}))

    def forecasts(self, publication: int | None = None) -> Any:
        """One row per depot and day of a publication, by default the current one: open, forecast
        (the median, or the planner's number), q0.1 …, override (the planner who set it), in orders
        per day.

        Raises NoSuchRow for an unknown publication.
        """
        levels, depots, _ = self._published(publication)
        days = [(depot, day) for depot in depots for day in depot.days]
        quantiles = np.array([day.quantiles for _, day in days], np.float64).reshape(-1, len(levels))
        columns: dict[str, Any] = {
            **self._places(days),
            "open": [day.open for _, day in days],
            "forecast": quantiles[:, levels.index(0.5)],
            **{name: quantiles[:, place] for place, name in enumerate(OURS.of_quantiles(levels))},
            "override": pa.array([day.override.by if day.override else None for _, day in days], pa.string()),
            "tier": pa.array([depot.tier for depot, _ in days], pa.string()),
        }
        return self._frame(pa.table(columns))

    def totals(self, publication: int | None = None) -> Any:
        """One row per total of a publication, by default the current one: level and name (both
        empty: the network; level depot: a depot's week), date (the first day), days (1 or 7),
        forecast (the median), q0.1 …, in orders.

        Raises NoSuchRow for an unknown publication.
        """
        levels, depots, published = self._published(publication)
        rows = [
            (total.level if total.name else "", total.name, total.target_date, total.days, total.quantiles)
            for total in published
        ]
        rows += [
            ("depot", depot.depot_id, depot.days[7 * number].target_date, 7, week)
            for depot in depots
            for number, week in enumerate(depot.weeks)
        ]
        quantiles = np.array([row[4] for row in rows], np.float64).reshape(-1, len(levels))
        columns: dict[str, Any] = {
            "level": pa.array([row[0] for row in rows], pa.string()),
            "name": pa.array([row[1] for row in rows], pa.string()),
            OURS.date: _days(row[2] for row in rows),
            "days": pa.array([row[3] for row in rows], pa.int64()),
            "forecast": quantiles[:, levels.index(0.5)],
            **{name: quantiles[:, place] for place, name in enumerate(OURS.of_quantiles(levels))},
        }
        return self._frame(pa.table(columns))

    def rosters(self, publication: int | None = None) -> Any:
        """One row per depot and open day of a publication with a roster: drivers, vans, the chance
        that the day needs more, and the expected cost of missing and idle drivers."""
        _, depots, _ = self._published(publication)
        days = [(depot, day) for depot in depots for day in depot.days if day.roster is not None]
        rosters = [day.roster for _, day in days if day.roster is not None]
        columns = {
            **self._places(days),
            "drivers": pa.array([day.drivers for _, day in days], pa.int64()),
            "vans": pa.array([roster.vans for roster in rosters], pa.int64()),
            "chance_short": pa.array([roster.chance_short for roster in rosters], pa.float64()),
            "expected_cost": pa.array([roster.cost for roster in rosters], pa.float64()),
        }
        return self._frame(pa.table(columns))

    def scores(self, run: str | None = None) -> Any:
        """Forecasts of each model in a run's backtest, with the actuals: model, cutoff, depot_id,
        date, horizon (days ahead), forecast, q0.1 …, demand. By default of the last run that
        trained a model; raises NoSuchRow if there is none, or for an unknown run."""
        lake = Lake.of(self.spec)
        run = run or self._last_backtest(lake)
        rows = lake.read("scores", where=ds.field("run_id") == run)
        if len(rows) == 0:
            raise NoSuchRow(f"run {run!r} has no scores in the lake; wanted one of {self.spec.name} that trained")
        levels = rows["levels"][0].as_py()
        quantiles = np.array(rows["quantiles"].combine_chunks().flatten(), np.float64).reshape(-1, len(levels))
        columns: dict[str, Any] = {
            "model": rows["model"],
            "cutoff": _days(rows["cutoff"].to_pylist()),
            OURS.depot_id: rows["depot_id"],
            OURS.date: _days(rows["target_date"].to_pylist()),
            "horizon": rows["horizon"],
            "forecast": quantiles[:, levels.index(0.5)],
            **{name: quantiles[:, place] for place, name in enumerate(OURS.of_quantiles(levels))},
            OURS.demand: rows["actual"].cast(pa.float64()),
        }
        return self._frame(pa.table(columns))

    def overrides(self) -> Any:
        """One row per override by a planner: depot_id, date, orders, reason, note, by, at, until,
        and the time of its withdrawal."""
        with Ledger.open_reader(self.spec.ledger_url) as ledger, ledger.transaction() as connection:
            overrides = override_table.read_overrides(connection, self.spec.name)
        names = ("id", "depot_id", "target_date", "orders", "reason", "note", "by", "at", "until", "withdrawn")
        rows = [asdict(override) for override in overrides]
        columns: dict[str, Any] = {name: _typed(name, [row[name] for row in rows]) for name in names}
        columns |= {name: _days(row[name] for row in rows) for name in ("target_date", "until")}
        table = pa.table(columns)
        return self._frame(table.rename_columns([OURS.date if name == "target_date" else name for name in names]))

    def _published(
        self, publication: int | None
    ) -> tuple[list[float], tuple[PublishedDepot, ...], tuple[PublishedTotal, ...]]:
        with Ledger.open_reader(self.spec.ledger_url) as ledger:
            heads = ledger.publications(self.spec.name)
            current = ledger.current(self.spec.name)
            publication_id = publication if publication is not None else current.publication_id if current else None
            head = next((head for head in heads if head.publication_id == publication_id), None)
            if head is None:
                ids = ", ".join(str(head.publication_id) for head in heads[:5]) or "none"
                raise NoSuchRow(
                    f"publication {publication_id} of {self.spec.name} is not in the ledger; it holds {ids}"
                )
            number = head.publication_id
            return list(head.levels), ledger.depots(number), ledger.totals(number)

    def _last_backtest(self, lake: Lake) -> str:
        rows = lake.read("scores", columns=["run_id", "recorded_at"])
        if len(rows) == 0:
            raise NoSuchRow(f"no run of {self.spec.name} has scores in the lake: none has trained yet")
        last: str = rows.sort_by("recorded_at")["run_id"][-1].as_py()
        return last

    def _places(self, days: Sequence[tuple[PublishedDepot, PublishedDay]]) -> dict[str, Any]:
        return {
            OURS.depot_id: pa.array([depot.depot_id for depot, _ in days], pa.string()),
            OURS.date: _days(day.target_date for _, day in days),
        }

    def _frame(self, table: pa.Table) -> Any:
        return native(table, self._library)


_TYPES = {
    **dict.fromkeys(("publication_id", "horizon", "id", "orders"), pa.int64()),
    **dict.fromkeys(("published_at", "as_of", "at", "withdrawn"), pa.timestamp("us", tz="UTC")),
    **dict.fromkeys(("cutoff", "target_date", "until"), pa.date32()),
}
"""Columns of the ledger that are not text."""


def _typed(name: str, values: list[Any]) -> pa.Array:
    """Column of the ledger with its type, even if it is empty or has no known values."""
    return pa.array(values, _TYPES.get(name, pa.string()))


def _days(dates: Iterable[Any] | Iterator[Any]) -> pa.Array:
    return pa.array(np.asarray(list(dates), "datetime64[D]").astype("datetime64[ns]"))
