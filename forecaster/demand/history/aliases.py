"""Let the readings of former depot ids count for the depot that they belong to now.

A renamed depot has one former id, a merged one several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from forecaster.core.arrays import Bools
from forecaster.demand.panel.grid import coded

Frame = pd.DataFrame
_DAY = ["depot_id", "date"]


def resolve(table: Frame) -> tuple[Frame, Bools]:
    """Each alias with the depot at the end of its chain, and which rows lead into a circle and have no end.

    `table` has columns alias and depot_id, one row an alias.
    """
    step = pd.Series(table["depot_id"].to_numpy(), table["alias"].to_numpy(), dtype="str")
    for _ in range(len(step).bit_length()):  # each round doubles the steps taken
        step = step.map(step).fillna(step)
    return table.assign(depot_id=step.to_numpy()), step.isin(step.index).to_numpy(np.bool_)


def current(depot_ids: Any, aliases: Frame) -> Any:
    """A column of depot ids as they are now; what is no alias stays as it is."""
    return depot_ids.map(_now(aliases)).fillna(depot_ids) if len(aliases) else depot_ids


def apply(demand: Frame, depots: Frame, aliases: Frame) -> tuple[Frame, Frame]:
    """Demand and depots by current ids; `aliases` are resolved ones.

    Own counts hold. On a day without one, a renamed depot has that of its former id. A merged depot has, before its
    first own count, the sum over its former ids in business on the day, each from its first to its last reading: not
    known if one of them is missing, while a closed one adds nothing. Of the other columns of such a day `open` says
    whether any was, numbers are the largest and words the first that is known.

    Former ids leave the depots table. One that alone is declared there lends its row to the current id, and no depot
    opens after a reading that it took over.
    """
    ids, depot = coded(demand["depot_id"])
    former = np.append(ids.isin(aliases["alias"]), False)
    if not former.any() and not depots["depot_id"].isin(aliases["alias"]).any():
        return demand, depots
    target = np.append(ids.isin(aliases["depot_id"]), False)
    moved, own = (
        demand[rows[depot]].assign(depot_id=lambda t: t["depot_id"].astype("str")) for rows in (former, target)
    )
    moved = moved.assign(former=moved["depot_id"], depot_id=moved["depot_id"].map(_now(aliases)))
    moved = _closed_add_nothing(moved).sort_values("former", kind="stable")
    taken = _together(moved[_inherited_days(moved, own)], moved)
    rest = demand[~(former | target)[depot]]
    first = moved[moved["demand"].notna()].groupby("depot_id")["date"].min()
    return _joined(rest, _one_a_day(own, taken), demand), _declared(depots, first, aliases)


def _now(aliases: Frame) -> pd.Series[str]:
    now: pd.Series[str] = aliases.set_index("alias")["depot_id"]
    return now


def _closed_add_nothing(moved: Frame) -> Frame:
    if "open" not in moved:
        return moved
    closed = (moved["open"].astype("boolean") == False).fillna(False).astype(bool)  # noqa: E712
    return moved.assign(demand=moved["demand"].mask(moved["demand"].isna() & closed, 0.0))


def _inherited_days(moved: Frame, own: Frame) -> Bools:
    """The rows of former ids on days on which the own counts leave room for them."""
    counted = own[own["demand"].notna()]
    held = pd.MultiIndex.from_frame(moved[_DAY]).isin(pd.MultiIndex.from_frame(counted[_DAY]))
    several = moved.groupby("depot_id")["former"].transform("nunique") > 1
    own_first = counted.groupby("depot_id")["date"].min().reindex(moved["depot_id"]).to_numpy()
    wanted: Bools = (~(several & (moved["date"] >= own_first)) & ~held).to_numpy(np.bool_)
    return wanted


def _together(rows: Frame, moved: Frame) -> Frame:
    """One row a current depot and day, of the rows of its former ids."""
    groups = rows.groupby(_DAY)
    columns = {name: rows[name] for name in rows.columns.drop([*_DAY, "former", "demand", "open"], errors="ignore")}
    how = {name: "max" if pd.api.types.is_numeric_dtype(column) else "first" for name, column in columns.items()}
    found = groups.agg(how) if how else groups[[]].first()
    found["demand"] = _sum(found.index.to_frame(index=False), moved).to_numpy()
    if "open" in rows:  # 1 if any was open, 0 if all were closed, else not known
        said = rows["open"].astype("boolean").astype("Float64").fillna(0.5).astype("float64")
        said = said.groupby([rows[name] for name in _DAY]).max()
        found["open"] = said.map({1.0: True, 0.0: False}).astype("boolean")
    return found.reset_index()


def _sum(days: Frame, moved: Frame) -> Any:
    """The sum on each day of the counts of the former ids that were in business; NaN where one is missing, or none
    was in business."""
    told = moved[moved["demand"].notna()]
    business = told.groupby(["depot_id", "former"])["date"].agg(["min", "max"]).reset_index()
    due = days.merge(business, on="depot_id")
    due = due[(due["min"] <= due["date"]) & (due["date"] <= due["max"])]
    due = due.merge(moved[["former", "date", "demand"]], how="left", on=["former", "date"])
    groups = due.groupby(_DAY)["demand"]
    total = groups.sum().where(groups.count() == groups.size())
    return total.reindex(pd.MultiIndex.from_frame(days))


def _one_a_day(own: Frame, taken: Frame) -> Frame:
    """Where an own row without a count meets what was taken over, the first known value of each column."""
    both = pd.concat([own, taken], ignore_index=True) if len(own) else taken
    twice = both.duplicated(_DAY, keep=False)
    if not twice.any():
        return both
    return pd.concat([both[~twice], both[twice].groupby(_DAY, as_index=False).first()], ignore_index=True)


def _joined(rest: Frame, settled: Frame, like: Frame) -> Frame:
    """All rows in one table; ids are categories where they were."""
    settled = settled[list(like.columns)]
    if isinstance(like["depot_id"].dtype, pd.CategoricalDtype):
        kept = rest["depot_id"].cat.remove_unused_categories().cat.categories
        ids = kept.union(pd.Index(settled["depot_id"].unique()))
        rest = rest.assign(depot_id=rest["depot_id"].cat.set_categories(ids))
        settled = settled.assign(depot_id=pd.Categorical(settled["depot_id"], categories=ids))
    return pd.concat([rest, settled], ignore_index=True)


def _declared(depots: Frame, first: pd.Series[Any], aliases: Frame) -> Frame:
    """The depots table by current ids; `first` is the day of the first reading that each depot took over."""
    former = depots["depot_id"].isin(aliases["alias"]).to_numpy()
    kept, lent = depots[~former], depots[former].sort_values("depot_id")
    lent = lent.assign(depot_id=lent["depot_id"].map(_now(aliases)))
    lent = lent[~lent["depot_id"].isin(kept["depot_id"])]
    if len(lent):  # a depot of several is open from the first opening to the last closing, if all have one
        days = lent.groupby("depot_id")[["opened", "closed"]]
        ends = days.agg({"opened": "min", "closed": "max"}).where(days.count() == days.size().to_frame().to_numpy())
        lent = lent.drop_duplicates("depot_id").drop(columns=["opened", "closed"]).join(ends, on="depot_id")
    found = pd.concat([kept, lent[depots.columns]], ignore_index=True) if len(lent) else kept.reset_index(drop=True)
    taken = first.reindex(found["depot_id"]).set_axis(found.index)
    return found.assign(opened=found["opened"].mask(taken < found["opened"], taken))
