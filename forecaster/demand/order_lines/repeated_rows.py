"""Deduplication of order lines: orders repeated within a batch, and exports that repeat days of
another export.

With `demand.columns.order_id` the last row of an order counts. Without it, a single row does not
show whether it is a copy or a similar order; but days with identical rows in two files, and a block
of rows that occurs again in one file, do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import counted, sentence
from forecaster.demand.order_lines.repeated_instants import repeated_instants
from forecaster.demand.order_lines.row_keys import NO_ORDER
from forecaster.demand.readings import CONTENT, ORDER
from forecaster.demand.validation.feed_shape import batch_finding

# number and share of rows of one file, each with another content, up to which they are corrections
# of orders
FEW_ORDERS, MANY_ORDERS = 50, 0.25
NEXT_FILES = 8  # with the same day of a depot, that a file is compared with
DAYS = 3  # depot-days that must be identical
CONTENTS = 10  # minimum number of different rows in them, to exclude chance
TOTALS = 3  # minimum number of different counts in them: days without orders are identical anyway
# share of the common days; on the other days one file has all rows of the other
IN_FULL = 0.5
# share of a block's rows that also occur at the same distance before it; some coincide by chance
VERBATIM = 0.9
# depot-days whose rows are all identical, such as dates alone; their minimum average total
PLAIN_DAYS, PLAIN_TOTAL = 10, 5
ALIKE = 0.95  # share of them with equal numbers of rows
PLACES = 50  # depots and days named in a finding
Column = Any  # a pandas Series


@dataclass(frozen=True)
class Repetition:
    """Rows that occur in two places."""

    files: tuple[str, str]
    rows: int
    slots: NDArray[np.int64]  # the depot-days, numbered by `_Slots`
    places: tuple[int, int] = (0, 0)  # first rows of both blocks, if both are in one file


class _Slots:
    """Mapping of depot-days to numbers and back."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.depots, day = rows["depot_id"].cat.categories, rows["day"].to_numpy().astype(np.int64)
        self.first = int(day.min())
        self.days = int(day.max()) - self.first + 1
        self.of_rows = rows["depot_id"].cat.codes.to_numpy().astype(np.int64) * self.days + day - self.first

    def dates(self, slots: NDArray[np.int64]) -> list[date]:
        """Distinct days, ascending."""
        days: list[date] = np.unique(slots % self.days + self.first).astype("datetime64[D]").astype(object).tolist()
        return days

    def places(self, slots: NDArray[np.int64]) -> tuple[tuple[str, str], ...]:
        by_day = slots[np.lexsort((slots // self.days, slots % self.days))][:PLACES]
        return tuple(
            (str(self.depots[slot // self.days]), str(np.datetime64(int(slot % self.days) + self.first, "D")))
            for slot in by_day
        )


def without_repeated_orders(rows: pd.DataFrame, spec: Spec) -> tuple[pd.DataFrame, pd.DataFrame, list[Finding]]:
    """Keep the last row of each order of a depot and day; return the kept rows, the earlier ones,
    and a finding about these.

    `rows` are accepted rows, as described in `readings`, before aggregation.
    """
    if ORDER not in rows or rows.empty:
        return rows, rows.iloc[:0], []
    keys, has_order = ["depot_id", "day", ORDER], rows[ORDER].to_numpy() != NO_ORDER
    is_earlier = rows.duplicated(keys, keep="last").to_numpy() & has_order
    if not is_earlier.any():
        return rows, rows.iloc[:0], []
    earlier = rows[is_earlier]
    last = rows.loc[~is_earlier & has_order, [*keys, CONTENT]]
    is_same = earlier[[*keys, CONTENT]].merge(last, how="left", indicator=True)["_merge"].eq("both").to_numpy()
    slots = _Slots(earlier)
    days = np.unique(slots.of_rows)
    detail = sentence(
        N_("found {rows} of orders repeated by a later row, {changed} with another time or count, on {days}"),
        rows=_rows(len(earlier)),
        changed=int(np.count_nonzero(~is_same)),
        days=_span(slots.dates(days)),
    )
    finding = batch_finding("repeated_orders", len(earlier), detail, "", spec, slots.places(days))
    is_of_one_file = rows.duplicated([*keys, "source"], keep="last").to_numpy()[is_earlier]
    number, ordered = int(np.count_nonzero(is_of_one_file & ~is_same)), int(np.count_nonzero(has_order))
    if number >= max(FEW_ORDERS, MANY_ORDERS * ordered) and "repeated_orders" not in spec.demand.rules.severity:
        finding = _no_order_ids(number, ordered, spec, finding.places)
    return rows[~is_earlier], earlier, [finding]


def _no_order_ids(number: int, ordered: int, spec: Spec, places: tuple[tuple[str, str], ...]) -> Finding:
    """Finding about an order id column whose values several orders, or the lines of an order,
    share."""
    detail = sentence(
        N_(
            "{column}: found {n} of {all} rows with the value of another row of the same file, depot and day, and with "
            "another time or count"
        ),
        column=f"demand.columns.order_id: {spec.demand.columns.order_id}",
        n=number,
        all=ordered,
    )
    requirement = N_(
        "a value of its own for each order, or each line of one; {key} takes the last row of those that have one value"
    )
    key = "demand.rules.severity: {repeated_orders: warn}"
    finding = batch_finding("repeated_orders", number, detail, "", spec, places, wanted=sentence(requirement, key=key))
    return replace(finding, severity="stop")


def repeated_rows(rows: pd.DataFrame, spec: Spec, *, times_differ: bool) -> list[Finding]:
    """Finding if two files have the same rows on the same days, a file repeats a block of rows, or,
    if rows have times of day, many rows repeat an instant and its count.

    `rows` are accepted rows, as described in `readings`, before aggregation.
    """
    if CONTENT not in rows or rows.empty:
        return []
    slots, files = _Slots(rows), rows["source"].cat.categories
    lines = pd.DataFrame(
        {
            "slot": slots.of_rows,
            "file": rows["source"].cat.codes.to_numpy(),
            "content": rows[CONTENT].to_numpy(),
            "count": rows["demand"].fillna(0).to_numpy(),
            "row": rows["row"].to_numpy(),
        }
    )
    # rows without orders, as at night, are identical by nature
    lines = lines[lines["count"] > 0]
    if lines.empty:
        return []
    repetitions = [*_between_files(lines, files), *_within_files(lines, files)]
    if not repetitions:
        return repeated_instants(rows, spec) if times_differ else []
    most = max(repetitions, key=lambda repetition: repetition.rows)
    slot = np.unique(np.concatenate([repetition.slots for repetition in repetitions]))
    detail = _detail(most, slots, len(repetitions) - 1)
    number = sum(repetition.rows for repetition in repetitions)
    return [batch_finding("repeated_rows", number, detail, "", spec, slots.places(slot))]


def _between_files(lines: pd.DataFrame, files: pd.Index[Any]) -> Iterator[Repetition]:
    """Files that have days in common, with identical rows or with rows that are a subset of the
    other's."""
    cells = lines[["slot", "file"]].drop_duplicates()
    shared = cells[cells.duplicated("slot", keep=False)]
    if shared.empty:
        return
    pairs = _pairs(lines[lines["slot"].isin(shared["slot"])])
    pairs = pairs[pairs.groupby(["file", "other"])["full"].transform("sum") >= DAYS]
    alike = [pair for _, pair in pairs.groupby(["file", "other"]) if _is_repetition(pair)]
    if not alike:
        return
    # a row in three files is two too many: each is reported with one earlier file
    repeated_days = pd.concat(alike).sort_values(["rows", "step"], ascending=[False, True], kind="stable")
    names = files.astype("str").tolist()
    for _, pair in repeated_days.drop_duplicates(["slot", "other"]).groupby(["file", "other"]):
        first, other = names[pair["file"].iloc[0]], names[pair["other"].iloc[0]]
        yield Repetition((first, other), int(pair["rows"].sum()), pair["slot"].to_numpy(np.int64))


def _pairs(lines: pd.DataFrame) -> pd.DataFrame:
    """Pair each depot-day of a file with the next files that have it: numbers of rows in both, and
    of identical rows."""
    contents = lines.groupby(["slot", "file", "content"])["count"].agg(["size", "sum"]).reset_index()
    cells = contents.groupby(["slot", "file"], as_index=False).agg(
        size=("size", "sum"), total=("sum", "sum"), contents=("size", "size")
    )
    contents = contents[contents.duplicated(["slot", "content"], keep=False)]
    parts = []
    for step in range(1, NEXT_FILES + 1):
        later = cells.groupby("slot")[["file", "size", "contents"]].shift(-step)
        pairs = cells.join(later.set_axis(["other", "size_other", "contents_other"], axis=1)).dropna(subset=["other"])
        if pairs.empty:
            break
        pairs["other"] = pairs["other"].astype(cells["file"].dtype)
        parts.append(_with_rows_alike(pairs, contents).assign(step=step))
    return pd.concat(parts, ignore_index=True)


def _with_rows_alike(pairs: pd.DataFrame, contents: pd.DataFrame) -> pd.DataFrame:
    """Pairs with the number of rows identical in both files, whether these are all rows of one file
    (part) or of both (full), and whether one of them has different rows on that day (telling)."""
    earlier = contents.merge(pairs[["slot", "file", "other"]], on=["slot", "file"])
    later = contents.rename(columns={"file": "other"})
    both = earlier.merge(later, on=["slot", "other", "content"], suffixes=("", "_other"))
    both["rows"] = np.minimum(both["size"], both["size_other"])
    common = both.groupby(["slot", "file"])["rows"].agg(rows="sum", alike="size").reset_index()
    pairs = pairs.merge(common, on=["slot", "file"], how="left").fillna({"rows": 0, "alike": 0})
    is_part = pairs["rows"] == np.minimum(pairs["size"], pairs["size_other"])
    is_full = (pairs["rows"] == pairs["size"]) & (pairs["size"] == pairs["size_other"])
    is_telling = np.maximum(pairs["contents"], pairs["contents_other"]) > 1
    return pairs.assign(part=is_part, full=is_full, telling=is_telling)


def _is_repetition(pair: pd.DataFrame) -> bool:
    """True if two files are the same on their common days.

    If all rows of a day are identical, such as a date alone, only their number can be compared.
    """
    full = pair[pair["full"]]
    if full["total"].nunique() < TOTALS:
        return False
    if not pair["telling"].any():
        enough = len(pair) >= PLAIN_DAYS and len(full) >= ALIKE * len(pair)
        return bool(enough and pair["total"].mean() >= PLAIN_TOTAL)
    full = full[full["telling"]]
    enough = len(full) >= max(DAYS, IN_FULL * int(pair["telling"].sum())) and full["alike"].sum() >= CONTENTS
    return bool(enough and pair["part"].all())


def _within_files(lines: pd.DataFrame, files: pd.Index[Any]) -> Iterator[Repetition]:
    """Blocks of rows that occur again, row by row, in the same file."""
    repeated = _blocks(lines)
    for file, blocks in repeated.groupby("file"):
        totals = blocks.groupby("slot")["count"].sum()
        if len(totals) >= DAYS and totals.nunique() >= TOTALS:
            most = blocks[blocks["back"] == blocks["back"].value_counts().index[0]]
            name, first = str(files[int(str(file))]), int(most["row"].min())
            places = first - int(most["back"].iloc[0]), first
            yield Repetition((name, name), len(blocks), totals.index.to_numpy(np.int64), places)


def _blocks(lines: pd.DataFrame) -> pd.DataFrame:
    """Rows that follow equal rows of their file at a constant distance, in blocks. A file sorted by
    depot has one block per depot."""
    key, block = ["file", "slot", "content"], ["file", "back"]
    again = lines[lines.duplicated(key, keep=False)]
    again = again.assign(back=again.groupby(key, sort=False)["row"].diff()).dropna(subset=["back"])
    blocks = again.groupby(block, sort=False)["row"].agg(["size", "min", "max"]).reset_index()
    blocks = blocks[(blocks["size"] >= CONTENTS) & (blocks["back"] > blocks["max"] - blocks["min"])]
    # sort the rows of all files together, to count those of a file between two rows in one step
    stride = int(lines["row"].max()) + 1
    rows = np.sort(lines["file"].to_numpy(np.int64) * stride + lines["row"].to_numpy(np.int64))
    start = blocks["file"].to_numpy(np.int64) * stride
    first, last = start + blocks["min"].to_numpy(np.int64), start + blocks["max"].to_numpy(np.int64)
    number = np.searchsorted(rows, last, "right") - np.searchsorted(rows, first, "left")
    again = again.merge(blocks.loc[blocks["size"] >= VERBATIM * number, block], on=block)
    return again[again.groupby(block)["content"].transform("nunique") >= CONTENTS]


def _detail(repetition: Repetition, slots: _Slots, more_repetitions: int) -> str:
    file, other = repetition.files
    values = {"rows": _rows(repetition.rows), "days": _span(slots.dates(repetition.slots)), "one": file, "other": other}
    if file == other:
        first, again = repetition.places
        template = N_("found {rows} of {days} twice in {one}, from row {first} on and again from row {again} on")
        return sentence(template, **values, first=first, again=again)
    if more_repetitions:
        template = N_("found {rows} of {days} in {one} and in {other}, and {n} more such repetitions")
        return sentence(template, **values, n=more_repetitions)
    return sentence(N_("found {rows} of {days} in {one} and in {other}, the same in both"), **values)


def _span(days: Sequence[date]) -> str:
    """First and last of the days, and their number."""
    if len(days) == 1:
        return sentence(N_("{day}"), day=days[0])
    number = counted(len(days), "{n} day", "{n} days")
    return sentence(N_("{days} from {first} to {last}"), days=number, first=days[0], last=days[-1])


def _rows(number: int) -> str:
    return counted(number, "{n} row", "{n} rows")
