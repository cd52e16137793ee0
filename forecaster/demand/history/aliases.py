"""Alias resolution: attribute readings of former depot ids to the current depot.

A renamed depot has one former id, a merged one several.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from forecaster.core.arrays import Bools
from forecaster.demand.panel.grid import coded

Frame = pd.DataFrame
V = TypeVar("V")
_DAY = ["depot_id", "date"]


def resolve(table: Frame) -> tuple[Frame, Bools]:
    """Map each alias to the depot at the end of its chain; also mark the rows in a cycle, which
    have no end.

    `table` has columns alias and depot_id, one row per alias.
    """
    step = pd.Series(table["depot_id"].to_numpy(), table["alias"].to_numpy(), dtype="str")
    for _ in range(len(step).bit_length()):  # each round doubles the steps taken
        step = step.map(step).fillna(step)
    return table.assign(depot_id=step.to_numpy()), step.isin(step.index).to_numpy(np.bool_)


def current(depot_ids: Any, aliases: Frame) -> Any:
    """Map a column of depot ids to current ids; ids that are no alias stay unchanged."""
    return depot_ids.map(_current_ids(aliases)).fillna(depot_ids) if len(aliases) else depot_ids


def former_names(aliases: Frame, depot_ids: Sequence[str]) -> dict[str, str]:
    """Former id → depot, for these depots and former ids not among them; `aliases` are resolved."""
    matches = aliases[aliases["depot_id"].isin(depot_ids) & ~aliases["alias"].isin(depot_ids)].sort_values("alias")
    return dict(zip(matches["alias"], matches["depot_id"], strict=True))


def by_current_id(by_depot: Mapping[str, V], former: Mapping[str, str]) -> dict[str, V]:
    """Facts about depots by current id. A fact under the depot's own id takes precedence; facts
    under several former ids, merged since, are dropped."""
    of_own_id = {depot: value for depot, value in by_depot.items() if depot not in former}
    mentions = Counter(former[depot] for depot in by_depot if depot in former)
    of_former_id = {former[depot]: value for depot, value in by_depot.items() if mentions[former.get(depot, "")] == 1}
    return of_former_id | of_own_id


def archive_by_current_id(rows: pa.Table, former: Mapping[str, str]) -> pa.Table:
    """Rows of an archive, with columns run_id and depot_id, by current id; each run as in
    `by_current_id`."""
    if not former:  # as in most fleets
        return rows
    archive_ids, runs = rows["depot_id"].to_pylist(), rows["run_id"].to_pylist()
    if former.keys().isdisjoint(archive_ids):
        return rows
    ids_of_run = defaultdict[str, set[str]](set)
    for run, depot in zip(runs, archive_ids, strict=True):
        ids_of_run[run].add(depot)
    sources = {run: by_current_id({depot: depot for depot in sorted(ids)}, former) for run, ids in ids_of_run.items()}
    ids = [former.get(depot, depot) for depot in archive_ids]
    holds = [sources[run].get(id_) == depot for run, depot, id_ in zip(runs, archive_ids, ids, strict=True)]
    place = rows.schema.get_field_index("depot_id")
    of_now = rows.set_column(place, rows.schema.field(place), pa.array(ids, rows.schema.field(place).type))
    return of_now.filter(pa.array(holds))


def apply(demand: Frame, depots: Frame, aliases: Frame) -> tuple[Frame, Frame]:
    """Demand and depots by current id; `aliases` are resolved.

    Own counts take precedence. On a day without one, a renamed depot gets the count of its former
    id. A merged depot gets, before its first own count, the sum over the former ids in business on
    that day, each from its first to its last reading: unknown if one of them is missing, while a
    closed one adds nothing. In the other columns of such a day, `open` is true if any was open,
    numbers are the maximum, and words the first known one.

    Former ids leave the depots table. If only a former id is declared there, its row goes to the
    current id, and no depot opens after a reading that it inherited.
    """
    ids, depot = coded(demand["depot_id"])
    former = np.append(ids.isin(aliases["alias"]), False)
    if not former.any() and not depots["depot_id"].isin(aliases["alias"]).any():
        return demand, depots
    target = np.append(ids.isin(aliases["depot_id"]), False)
    former_rows, own_rows = (
        demand[rows[depot]].assign(depot_id=lambda t: t["depot_id"].astype("str")) for rows in (former, target)
    )
    former_rows = former_rows.assign(
        former=former_rows["depot_id"], depot_id=former_rows["depot_id"].map(_current_ids(aliases))
    )
    former_rows = _closed_add_nothing(former_rows).sort_values("former", kind="stable")
    inherited = _combine_former(former_rows[_inherited_days(former_rows, own_rows)], former_rows)
    rest = demand[~(former | target)[depot]]
    first = former_rows[former_rows["demand"].notna()].groupby("depot_id")["date"].min()
    return _joined(rest, _coalesce(own_rows, inherited), demand), _depots_by_current_id(depots, first, aliases)


def _current_ids(aliases: Frame) -> pd.Series[str]:
    current_id: pd.Series[str] = aliases.set_index("alias")["depot_id"]
    return current_id


def _closed_add_nothing(former_rows: Frame) -> Frame:
    if "open" not in former_rows:
        return former_rows
    closed = (former_rows["open"].astype("boolean") == False).fillna(False).astype(bool)  # noqa: E712
    return former_rows.assign(demand=former_rows["demand"].mask(former_rows["demand"].isna() & closed, 0.0))


def _inherited_days(former_rows: Frame, own_rows: Frame) -> Bools:
    """Mark rows of former ids on days that own counts leave free."""
    own_counts = own_rows[own_rows["demand"].notna()]
    has_own_count = pd.MultiIndex.from_frame(former_rows[_DAY]).isin(pd.MultiIndex.from_frame(own_counts[_DAY]))
    several = former_rows.groupby("depot_id")["former"].transform("nunique") > 1
    own_first = own_counts.groupby("depot_id")["date"].min().reindex(former_rows["depot_id"]).to_numpy()
    inherits: Bools = (~(several & (former_rows["date"] >= own_first)) & ~has_own_count).to_numpy(np.bool_)
    return inherits


def _combine_former(rows: Frame, former_rows: Frame) -> Frame:
    """Combine the rows of former ids into one row per current depot and day."""
    groups = rows.groupby(_DAY)
    columns = {name: rows[name] for name in rows.columns.drop([*_DAY, "former", "demand", "open"], errors="ignore")}
    how = {name: "max" if pd.api.types.is_numeric_dtype(column) else "first" for name, column in columns.items()}
    combined = groups.agg(how) if how else groups[[]].first()
    combined["demand"] = _sum(combined.index.to_frame(index=False), former_rows).to_numpy()
    if "open" in rows:  # 1 if any was open, 0 if all were closed, else not known
        open_score = rows["open"].astype("boolean").astype("Float64").fillna(0.5).astype("float64")
        open_score = open_score.groupby([rows[name] for name in _DAY]).max()
        combined["open"] = open_score.map({1.0: True, 0.0: False}).astype("boolean")
    return combined.reset_index()


def _sum(days: Frame, former_rows: Frame) -> Any:
    """Daily sum of the counts of the former ids in business; NaN if one is missing or none was in
    business."""
    counted_rows = former_rows[former_rows["demand"].notna()]
    business = counted_rows.groupby(["depot_id", "former"])["date"].agg(["min", "max"]).reset_index()
    due = days.merge(business, on="depot_id")
    due = due[(due["min"] <= due["date"]) & (due["date"] <= due["max"])]
    due = due.merge(former_rows[["former", "date", "demand"]], how="left", on=["former", "date"])
    groups = due.groupby(_DAY)["demand"]
    total = groups.sum().where(groups.count() == groups.size())
    return total.reindex(pd.MultiIndex.from_frame(days))


def _coalesce(own_rows: Frame, inherited: Frame) -> Frame:
    """Fill own rows without a count with the first known value of each column."""
    all_rows = pd.concat([own_rows, inherited], ignore_index=True) if len(own_rows) else inherited
    is_repeated = all_rows.duplicated(_DAY, keep=False)
    if not is_repeated.any():
        return all_rows
    return pd.concat(
        [all_rows[~is_repeated], all_rows[is_repeated].groupby(_DAY, as_index=False).first()], ignore_index=True
    )


def _joined(rest: Frame, merged_rows: Frame, like: Frame) -> Frame:
    """Concatenate all rows; ids stay categorical if they were."""
    merged_rows = merged_rows[list(like.columns)]
    if isinstance(like["depot_id"].dtype, pd.CategoricalDtype):
        categories = rest["depot_id"].cat.remove_unused_categories().cat.categories
        ids = categories.union(pd.Index(merged_rows["depot_id"].unique()))
        rest = rest.assign(depot_id=rest["depot_id"].cat.set_categories(ids))
        merged_rows = merged_rows.assign(depot_id=pd.Categorical(merged_rows["depot_id"], categories=ids))
    return pd.concat([rest, merged_rows], ignore_index=True)


def _depots_by_current_id(depots: Frame, first: pd.Series[Any], aliases: Frame) -> Frame:
    """The depots table by current id; `first` is the day of the first reading that each depot
    inherited."""
    former = depots["depot_id"].isin(aliases["alias"]).to_numpy()
    current, lent_rows = depots[~former], depots[former].sort_values("depot_id")
    lent_rows = lent_rows.assign(depot_id=lent_rows["depot_id"].map(_current_ids(aliases)))
    lent_rows = lent_rows[~lent_rows["depot_id"].isin(current["depot_id"])]
    # a merged depot is open from the first opening to the last closing, if all its rows have one
    if len(lent_rows):
        days = lent_rows.groupby("depot_id")[["opened", "closed"]]
        ends = days.agg({"opened": "min", "closed": "max"}).where(days.count() == days.size().to_frame().to_numpy())
        lent_rows = lent_rows.drop_duplicates("depot_id").drop(columns=["opened", "closed"]).join(ends, on="depot_id")
    table = (
        pd.concat([current, lent_rows[depots.columns]], ignore_index=True)
        if len(lent_rows)
        else current.reset_index(drop=True)
    )
    first_inherited = first.reindex(table["depot_id"]).set_axis(table.index)
    return table.assign(opened=table["opened"].mask(first_inherited < table["opened"], first_inherited))
