"""Data frames at the interface: pandas, polars and pyarrow tables are accepted, and results are of
the same kind (Narwhals).

Two sets of column names are supported: this package's own (`depot_id`, `date`, `demand`) and
Nixtla's (`unique_id`, `ds`, `y`). Results use the set of the given frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles, Floats
from forecaster.core.forecast import Forecast
from forecaster.errors import SpecError

TIMESTAMP = pa.timestamp("ns")  # for days given as text
MODEL = "Forecaster"  # prefix of forecast columns under Nixtla's names
BAND = 80  # percent: the interval that Nixtla's plots draw


class ColumnNames(NamedTuple):
    """Names of a frame's columns for depot, day and count."""

    depot_id: str
    date: str
    demand: str

    def of_quantiles(self, levels: Sequence[float]) -> list[str]:
        """Columns of a forecast's quantiles, in the order of the levels."""
        return [f"{MODEL}-q-{level:g}" if self == NIXTLA else f"q{level:g}" for level in levels]

    @property
    def of_median(self) -> str:
        """Column of a forecast's median."""
        return MODEL if self == NIXTLA else "forecast"


OURS = ColumnNames("depot_id", "date", "demand")
NIXTLA = ColumnNames("unique_id", "ds", "y")


@dataclass(frozen=True)
class FrameKind:
    """Kind of a given frame, so that results have the same kind."""

    library: Any  # Narwhals' name of pandas, polars or pyarrow
    names: ColumnNames
    id_type: pa.DataType
    date_type: pa.DataType = TIMESTAMP

    def ids(self, depot_ids: Sequence[str]) -> pa.Array:
        """Depot ids in the type of the given frame."""
        ids = pa.array(depot_ids, pa.string())
        return ids.cast(self.id_type) if pa.types.is_integer(self.id_type) else ids

    def days(self, days: Sequence[date] | NDArray[np.datetime64]) -> pa.Array:
        """Days in the type of the given frame: dates, or timestamps of the same unit, so that
        frames can be joined."""
        return pa.array(np.asarray(days, "datetime64[D]").astype("datetime64[ns]")).cast(self.date_type)

    def frame(self, columns: Mapping[str, Any]) -> Any:
        """Columns as a frame of the library."""
        return native(pa.table(dict(columns)), self.library)


@dataclass(frozen=True)
class LongFrame:
    """Long frame with this package's column names, and its original kind."""

    table: pa.Table
    kind: FrameKind


def native(table: pa.Table, library: Any) -> Any:
    """Arrow table as a frame of the library that Narwhals names."""
    return nw.from_arrow(table, backend=library).to_native()


def to_arrow(frame: Any, argument: str) -> tuple[pa.Table, Any]:
    """Convert a frame to an Arrow table; also return its library. Raises SpecError, naming the
    argument, for anything but a frame in memory, and for duplicate column names or periods."""
    try:
        eager = nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        names = [str(name) for name in getattr(frame, "column_names", frame.columns)]
        twice = ", ".join(f"'{name}'" for name in dict.fromkeys(names) if names.count(name) > 1)
        raise SpecError(f"{argument}: found the columns {twice} more than once, wanted each column once") from error
    except TypeError as error:
        raise SpecError(
            f"{argument}: found {type(frame).__name__}, wanted a data frame in memory of pandas, polars or pyarrow"
        ) from error
    table = _arrow_table(nw.maybe_reset_index(eager)).replace_schema_metadata(None)
    for field in table.schema:
        # which Parquet would store as a number
        if getattr(field.type, "extension_name", "") == "pandas.period":
            raise SpecError(
                f"{argument}: column '{field.name}' holds periods of pandas, wanted dates: dt.to_timestamp()"
            )
    return table, eager.implementation


def _arrow_table(frame: nw.DataFrame[Any]) -> pa.Table:
    """Frame as an Arrow table; a column of mixed types becomes text, so that the checks can name
    its rows."""
    try:
        return frame.to_arrow()
    except pa.ArrowException:
        return pa.table({name: _arrow_column(frame[name]) for name in frame.columns})


def _arrow_column(series: nw.Series[Any]) -> Any:
    try:
        return series.to_arrow()
    except pa.ArrowException:
        values = series.to_list()
        return pa.array([None if value is None or value != value else str(value) for value in values], pa.string())


def long_frame(frame: Any, argument: str, *, demand: bool = True) -> LongFrame:
    """Long frame of readings, or, without `demand`, of known values of days ahead.

    Raises SpecError for a frame with the columns of neither or both sets of names, or with ids that
    are neither text nor integers.
    """
    table, library = to_arrow(frame, argument)
    names = _names(table.column_names, argument, demand, _index_hint(frame))
    table = table.rename_columns([_ours(name, names) for name in table.column_names])
    id_type = table["depot_id"].type
    if pa.types.is_dictionary(id_type):
        id_type = id_type.value_type
    if not (pa.types.is_integer(id_type) or pa.types.is_string(id_type) or _is_other_text(id_type)):
        raise SpecError(f"{argument}: column '{names.depot_id}' has the type {id_type}, wanted text or whole numbers")
    table = table.set_column(table.column_names.index("depot_id"), "depot_id", pc.cast(table["depot_id"], pa.string()))
    return LongFrame(table, FrameKind(library, names, id_type, _date_type(table["date"].type)))


def _date_type(day_type: pa.DataType) -> pa.DataType:
    """Type of the days in results, from that of the given days."""
    if pa.types.is_timestamp(day_type):
        return pa.timestamp(day_type.unit)
    return day_type if pa.types.is_date(day_type) else TIMESTAMP


def forecast_columns(forecast: Forecast, kind: FrameKind) -> dict[str, Any]:
    """Rows of a forecast, by depot and day: ids, days, median, quantiles, and the mean under our
    names, or Nixtla's band under theirs."""
    depots, horizon, _ = forecast.quantiles.shape
    names = kind.names
    columns: dict[str, Any] = {
        names.depot_id: kind.ids([depot for depot in forecast.depot_ids for _ in range(horizon)]),
        names.date: kind.days(np.tile(np.asarray(forecast.target_dates, "datetime64[D]"), depots)),
        names.of_median: _column(forecast.median),
    }
    if names == NIXTLA:
        low, high = (forecast.levels.index(level) for level in (0.1, 0.9))
        columns[f"{MODEL}-lo-{BAND}"] = _column(forecast.quantiles[:, :, low])
        columns[f"{MODEL}-hi-{BAND}"] = _column(forecast.quantiles[:, :, high])
    for place, name in enumerate(names.of_quantiles(forecast.levels)):
        columns[name] = _column(forecast.quantiles[:, :, place])
    if names == OURS:  # under Nixtla's names a column without a level is a model
        columns["mean"] = _column(forecast.mean)
    return columns


def _column(values: Floats | Doubles) -> Any:
    return values.reshape(-1).astype(np.float64)


def _is_other_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _ours(name: str, names: ColumnNames) -> str:
    """Name of a column in this package."""
    return OURS[names.index(name)] if name in names else name


def _index_hint(frame: Any) -> str:
    """Hint if required names are index names of pandas, which are not columns."""
    names = getattr(getattr(frame, "index", None), "names", ())
    index_columns = [name for name in names if name in (*OURS, *NIXTLA)]
    return f"; the index has {', '.join(index_columns)}: reset_index() makes columns of it" if index_columns else ""


def _names(columns: Sequence[str], argument: str, demand: bool, hint: str) -> ColumnNames:
    """Set of names that a frame uses; the hint ends the error if it uses none."""
    fitting = [names for names in (OURS, NIXTLA) if set(names if demand else names[:2]) <= set(columns)]
    if len(fitting) == 1:
        [names] = fitting
        if clash := [name for name in OURS if names is NIXTLA and name in columns]:
            raise SpecError(f"{argument}: found '{clash[0]}' beside {', '.join(NIXTLA)}; wanted one set of names")
        return names
    expected = " or ".join(", ".join(names if demand else names[:2]) for names in (OURS, NIXTLA))
    if argument == "history" and any(set(names[:2]) <= set(columns) for names in (OURS, NIXTLA)):
        hint = "; pass covariates of the days ahead as future=…"
    raise SpecError(f"{argument}: found the columns {', '.join(columns) or 'none'}; wanted {expected}{hint}")
