"""Shuffle: sort the lake's readings by depot, so that a group of depots can be read without the
others.

The lake's files are in order of days. Each share of them is read once and written next to the state
in pieces by depot (the shuffle of Dean & Ghemawat 2004, "MapReduce"); a group then reads its own
piece of each share. Rows keep their order in the lake, and a depot's former ids are adjacent to it.
The files are compressed Arrow files and are deleted after the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forecaster.config import Spec
from forecaster.core import artifact
from forecaster.core.knowledge import Knowledge
from forecaster.demand import readings
from forecaster.demand.history import aliases, reading_versions
from forecaster.demand.history.point_in_time import (
    KEYS,
    as_frame,
    assemble,
    current_rows,
    dated,
    days_ahead,
    frame,
    is_archive,
    reading_columns,
    recorded_by,
    with_days_ahead,
)
from forecaster.lake import Lake

PIECE = 4096  # ids per piece
_CODE = "code"
_PLACE = "place"
_IDS, _DEPOTS = "ids.arrow", "depots.arrow"
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class Shuffle:
    """Knowledge at an instant, read by groups; all workers share the folder."""

    spec: Spec
    as_of: datetime
    versions: Mapping[str, int]
    folder: Path
    cutoff: int | None = None  # only for an archive: the last counted day of all, as a number since 1970


def share_ids(shuffle: Shuffle, number: int, of: int) -> int | None:
    """Write the depot ids of a share of the readings known by the instant; return the last day with
    a count, as a number since 1970."""
    lake, ids, last = Lake.of(shuffle.spec), readings.arrow_words([]), None
    columns = ["depot_id", "date", "demand", "recorded_at"]
    for table in _share(lake, shuffle, columns, number, of, recorded_by(shuffle.as_of)):
        # The dictionary keeps the words of rows that were filtered out.
        new = pc.unique(table["depot_id"].cast(pa.string())).drop_null()
        ids = pc.unique(pa.concat_arrays([ids, new]))
        day = pc.max(table["date"].filter(table["demand"].is_valid())).cast("int32").as_py()
        last = day if last is None else max(last, last if day is None else day)
    _write(shuffle.folder / f"names-{number:05d}.arrow", pa.table({"raw": ids}))
    return last


def ids_with_readings(shuffle: Shuffle) -> pa.Array:
    """Depot ids of all shares. Each share may hold nearly all ids, so they are never all in memory
    at once."""
    ids = readings.arrow_words([])
    for path in sorted(shuffle.folder.glob("names-*.arrow")):
        of_share = _read(path)["raw"].combine_chunks()
        ids = pc.unique(pa.concat_arrays([ids, of_share]))
    return ids


def order_ids(shuffle: Shuffle, ids: pa.Array) -> pa.Array:
    """Sort all ids by their current id and store them in the folder; return the current ids."""
    former = current_rows(frame(Lake.of(shuffle.spec), "aliases", until=shuffle.as_of), KEYS["aliases"])
    every = pa.concat_arrays([ids, *(readings.arrow_words(former[name]) for name in ("alias", "depot_id"))])
    raw = pd.Series(pc.unique(every).to_pandas(), dtype="str")
    table = pd.DataFrame({"raw": raw, "current": aliases.current(raw, former)}).sort_values(["current", "raw"])
    result = pa.table({name: readings.arrow_words(table[name]) for name in table})
    _write(shuffle.folder / _IDS, result)
    return current_ids(shuffle.folder)


def current_ids(folder: Path) -> pa.Array:
    """Current id of each id, in their order; memory-mapped, so only the accessed part is loaded."""
    return _read(folder / _IDS)["current"].combine_chunks()


def write_share(shuffle: Shuffle, number: int, of: int) -> int:
    """Sort a share of the readings by depot; return the number of rows."""
    lake, rows = Lake.of(shuffle.spec), 0
    where = recorded_by(shuffle.as_of)
    if shuffle.cutoff is not None:
        where |= days_ahead(shuffle.cutoff, shuffle.spec)
    columns = reading_columns(lake, shuffle.spec, shuffle.versions["demand"])
    ids = _ids(shuffle.folder)
    for place, table in enumerate(_share(lake, shuffle, columns, number, of, where)):
        depot_ids = table["depot_id"].unify_dictionaries().combine_chunks()
        depot_ids = depot_ids.chunk(0) if isinstance(depot_ids, pa.ChunkedArray) else depot_ids
        # codes are positions among all ids, so that a piece is a range of them
        code_of = np.append(ids.get_indexer(depot_ids.dictionary.to_pandas()), -1).astype(np.int32)
        code = code_of[depot_ids.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        order = np.argsort(code, kind="stable")
        sorted_rows = table.drop_columns(["depot_id"]).take(order).append_column(_CODE, pa.array(code[order]))
        _write_pieces(_file(shuffle, number, place), _without_dictionaries(sorted_rows), len(ids))
        rows += len(table)
    return rows


def write_depots(shuffle: Shuffle) -> int:
    """Sort all versions of the depots source by depot; return the number of rows."""
    where, ids = recorded_by(shuffle.as_of), _ids(shuffle.folder)
    table = Lake.of(shuffle.spec).read("depots", where=where, version=shuffle.versions["depots"])
    code = ids.get_indexer(table["depot_id"].to_pandas()).astype(np.int32)
    order = np.argsort(code, kind="stable")
    table = table.append_column(_PLACE, pa.array(np.arange(len(table)))).append_column(_CODE, pa.array(code))
    _write_pieces(shuffle.folder / _DEPOTS, table.take(order), len(ids))
    return len(table)


def knowledge_of(shuffle: Shuffle, first: int, last: int) -> Knowledge:
    """Knowledge about the depots with ids from position `first` to before `last`."""
    lake, spec, as_of = Lake.of(shuffle.spec), shuffle.spec, shuffle.as_of
    raw = _ids(shuffle.folder)[first:last]
    table = _rows(shuffle, first, last)
    depot_ids = pa.DictionaryArray.from_arrays(
        pc.subtract(table[_CODE].combine_chunks(), pa.scalar(first, pa.int32())), readings.arrow_words(raw)
    )
    table = table.drop_columns([_CODE]).append_column("depot_id", pa.chunked_array([depot_ids]))
    known_rows = readings.from_table(_filtered(table, recorded_by(as_of)))
    if shuffle.cutoff is not None:
        known_rows = with_days_ahead(
            known_rows, readings.from_table(_filtered(table, days_ahead(shuffle.cutoff, spec))), spec
        )
    demand = reading_versions.latest(known_rows)
    mine, versions = ds.field("depot_id").isin(pa.array(raw, pa.string())), shuffle.versions
    small = {name: frame(lake, name, version=versions[name], until=as_of) for name in ("events", "aliases")}
    # in the order of the lake, which decides between versions with equal instants
    of_depots = _pieces(shuffle.folder / _DEPOTS, first, last).sort_by(_PLACE).drop_columns([_PLACE, _CODE])
    small["depots"] = as_frame(of_depots.combine_chunks())
    small["aliases"] = small["aliases"][small["aliases"]["alias"].isin(raw)]
    refused = dated(frame(lake, "quarantine", until=as_of, only=mine))
    return assemble(demand, small, refused, spec, as_of, versions)


def archived(spec: Spec, last_counts: list[int]) -> int | None:
    """Cutoff of an archive; None if the lake holds no archive."""
    return max(last_counts) if is_archive(spec) else None


def _share(lake: Lake, shuffle: Shuffle, columns: list[str], number: int, of: int, where: ds.Expression) -> Any:
    version = shuffle.versions["demand"]
    return lake.share("demand", version=version, columns=columns, number=number, of=of, where=where)


def _rows(shuffle: Shuffle, first: int, last: int) -> pa.Table:
    """The readings of some ids, in the order of the lake."""
    parts = [_pieces(path, first, last) for path in sorted(shuffle.folder.glob("share-*.arrow"))]
    return pa.concat_tables(parts, promote_options="permissive").combine_chunks()


def _write_pieces(path: Path, sorted_rows: pa.Table, ids: int) -> None:
    """Write rows sorted by `_CODE`, one batch per piece of ids, atomically: a worker may be killed."""
    sorted_rows = sorted_rows.combine_chunks()
    ends = np.searchsorted(sorted_rows[_CODE].to_numpy(), np.arange(0, ids + PIECE, PIECE))
    with artifact.writing(path) as new, pa.ipc.new_file(new, sorted_rows.schema, options=_COMPRESSED) as file:
        for first, last in pairwise(ends):
            batch = sorted_rows.slice(first, last - first).combine_chunks().to_batches()
            file.write_batch(batch[0] if batch else pa.RecordBatch.from_pylist([], sorted_rows.schema))


def _pieces(path: Path, first: int, last: int) -> pa.Table:
    """Rows of a file whose codes go from `first` to before `last`."""
    with pa.memory_map(str(path)) as source:
        file = pa.ipc.open_file(source)
        part = pa.Table.from_batches([file.get_batch(number) for number in range(first // PIECE, -(-last // PIECE))])
        code = part[_CODE]
        return part.filter(pc.and_(pc.greater_equal(code, first), pc.less(code, last)))


def _filtered(table: pa.Table, where: ds.Expression) -> pa.Table:
    result: pa.Table = table.filter(where)
    return result


def _without_dictionaries(table: pa.Table) -> pa.Table:
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table[field.name].cast(field.type.value_type))
    return table


def _file(shuffle: Shuffle, number: int, place: int) -> Path:
    return shuffle.folder / f"share-{number:05d}-{place:05d}.arrow"


@lru_cache(maxsize=1)
def _ids(folder: Path) -> pd.Index[Any]:
    ids: pd.Index[Any] = pd.Index(_read(folder / _IDS)["raw"].to_pandas(), dtype="str")
    return ids


def _write(path: Path, table: pa.Table) -> None:
    """Write a table atomically: a worker may be killed."""
    with artifact.writing(path) as new, pa.ipc.new_file(new, table.schema) as file:
        file.write_table(table)


def _read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()
