"""Dead-letter table (quarantine) of rejected rows: list them, release a row as it stands, or
discard it permanently.

A decision is a row of its own with author, reason and instant; the rejected row stays unchanged. A
released reading is known from the instant of its release on, so that runs as of an earlier instant
see what was known then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forecaster.config import Spec
from forecaster.config.data_rules import RULES, STOPPED
from forecaster.core.terminal import count
from forecaster.demand import readings
from forecaster.demand.history import lake_owner, reading_versions
from forecaster.demand.history.point_in_time import frame, latest
from forecaster.demand.ingest import contract_of
from forecaster.demand.readings import demand_table
from forecaster.demand.sources import FAULT, FILE, ROW
from forecaster.errors import SpecError
from forecaster.lake import TABLES, Lake

State = Literal["open", "settled", "released", "discarded"]
STATES: tuple[State, ...] = get_args(State)
_ANOTHER_COUNTS = ("superseded", "duplicate_row")
SHORTEST = 4  # minimum digits of an abbreviated id
# prefix of the rule in messages
_STOPPED_BY = "found nothing wrong with this row, but its batch was stopped: "
_STATE_AFTER = {"release": "released", "discard": "discarded"}


@dataclass(frozen=True)
class QuarantinedRow:
    """A quarantined row, and the decision on it."""

    id: str
    depot_id: str
    date: date | None
    source: str
    batch: str
    row: int
    rule: str
    message: str
    content: str  # the row as JSON
    recorded_at: datetime
    state: State  # settled: the source has since sent an accepted reading of this depot and day
    by: str | None = None
    reason: str | None = None
    decided_at: datetime | None = None

    @property
    def became(self) -> str:
        """Sentence on the outcome of the row."""
        if self.state in ("released", "discarded"):
            since = "counts since" if self.state == "released" else "counts no more"
            return f"{self.state} by {self.by} on {self.decided_at:%Y-%m-%d %H:%M} UTC, and {since}: {self.reason}"
        if self.state == "settled":
            return "settled: a later reading of this depot and day counts"
        if self.rule in _ANOTHER_COUNTS:
            return "open: another row of this depot and day counts; released, this one does"
        return "open: it does not count unless it is released, or its source reports the day again"


@dataclass(frozen=True)
class RowSelection:
    """Filter of quarantined rows: those that meet all criteria that are not None or empty."""

    ids: tuple[str, ...] = ()  # complete, or their first digits
    rule: str | None = None  # broken by the row, or by the batch that was stopped
    depot_id: str | None = None
    batch: str | None = None


def quarantined_rows(
    spec: Spec, selection: RowSelection | None = None, *, states: Sequence[State] = ("open",)
) -> list[QuarantinedRow]:
    """Selected quarantined rows in one of the states, newest first.

    Raises SpecError for an id that matches no row or several, and for a lake of another fleet;
    LakeError if it is unreadable.
    """
    lake, selection = Lake.of(spec), selection or RowSelection()
    lake_owner.refuse_other_fleets(spec, lake)
    rows = frame(lake, "quarantine")
    if selection.ids:
        rows = rows[rows["id"].isin([_full_id(prefix, rows["id"]) for prefix in selection.ids])]
    if selection.rule is not None:
        rows = rows[(rows["rule"] == selection.rule) | _is_stopped_by(selection.rule, rows)]
    for name in ("depot_id", "batch"):
        if (criterion := getattr(selection, name)) is not None:
            rows = rows[rows[name] == criterion]
    if rows.empty:
        return []  # pandas cannot join two empty text columns
    last = latest(frame(lake, "decisions"), ["id"]).set_index("id")
    rows = rows.join(last.rename(columns={"recorded_at": "decided_at"}), on="id")
    rows = rows.assign(state=rows["action"].map(_STATE_AFTER).fillna(_open_or_settled(rows, lake)))
    rows = rows[rows["state"].isin(states)].sort_values(["recorded_at", "row"], ascending=[False, True], kind="stable")
    return [_row(record) for record in rows.to_dict("records")]


def release(spec: Spec, selection: RowSelection, *, by: str, reason: str, now: datetime) -> list[QuarantinedRow]:
    """Release open rows into the history, known from now on (idempotent); return them.

    Each is checked against the contract again, except for the rule that it broke. Raises SpecError,
    changing nothing, if a row cannot be read as it stands, or none is selected.
    """
    rows, lake = _undecided_rows(spec, selection), Lake.of(spec)
    instant = int(pd.Timestamp(now).as_unit("us").asm8.astype(np.int64))
    waived = {base_id(row.id): instant for row in rows}
    depots, former = _current_depots(lake) if spec.depots else None, frame(lake, "aliases")
    of_orders, of_days = (
        contract_of(contract_spec, lake, depots, former, now=now, waived=waived)
        for contract_spec in (spec, _of_whole_days(spec))
    )
    # all rows are checked before the first is written, so that an error changes nothing
    blocks = map(_block, rows)
    outcomes = [(of_days if spec.demand.columns.demand in block else of_orders).sort(block) for block in blocks]
    if refused := [outcome.refused["message"].iloc[0] for outcome in outcomes if len(outcome.refused)]:
        raise SpecError(
            f"{len(refused)} of {len(rows)} rows cannot be released as they stand, so none was: {refused[0]}; "
            "correct them at their source, which is read again tonight"
        )
    internal = [readings.CONTENT, readings.ORDER]
    parts = [
        outcome.accepted.drop(columns=internal, errors="ignore").assign(recorded_at=instant, batch=row.batch)
        for outcome, row in zip(outcomes, rows, strict=True)
    ]
    for batch, part in readings.concatenate(parts).groupby("batch", observed=True):
        # a release that was killed before its decision was written is repeated: rows already in the
        # lake are not new
        last = reading_versions.latest(part.drop(columns="batch"))
        new = reading_versions.new_readings(last, _stored_versions(lake, last), declared=False, now=instant)
        lake.append("demand", demand_table(last.assign(recorded_at=new.recorded_at)[new.new], batch=str(batch)))
    _decide(lake, rows, "release", by, reason, now)
    return rows


def discard(spec: Spec, selection: RowSelection, *, by: str, reason: str, now: datetime) -> list[QuarantinedRow]:
    """Discard open rows permanently, and return them: they are kept, but no run reports them again.

    Raises SpecError if none is selected.
    """
    rows = _undecided_rows(spec, selection)
    _decide(Lake.of(spec), rows, "discard", by, reason, now)
    return rows


def base_id(identity: str) -> str:
    """Content hash in a row's id, shared by identical rows; the part after `-` distinguishes them."""
    return identity.partition("-")[0]


def _undecided_rows(spec: Spec, selection: RowSelection) -> list[QuarantinedRow]:
    if selection == RowSelection():
        raise SpecError("found no selection of rows; wanted ids, or --rule, --depot or --batch")
    if selection.rule is not None and selection.rule not in (*RULES, STOPPED):
        raise SpecError(f"--rule: found {selection.rule!r}, wanted one of {', '.join(RULES)}")
    rows = quarantined_rows(spec, selection, states=("open", "settled"))
    if not rows:
        raise SpecError("no open row of the quarantine matches; `forecaster quarantine list` shows all open rows")
    return rows


def _decide(lake: Lake, rows: Sequence[QuarantinedRow], action: str, by: str, reason: str, now: datetime) -> None:
    decisions = [{"id": row.id, "action": action, "by": by, "reason": reason, "recorded_at": now} for row in rows]
    lake.append("decisions", pa.Table.from_pylist(decisions, schema=TABLES["decisions"]))


def _of_whole_days(spec: Spec) -> Spec:
    """Pipeline file for reading a released row, which may be a day aggregated from many rows, with
    their count."""
    columns = spec.demand.columns.model_copy(update={"order_id": None})
    return spec.model_copy(update={"demand": spec.demand.model_copy(update={"aggregate": "none", "columns": columns})})


def _block(row: QuarantinedRow) -> pd.DataFrame:
    """The row as given by its source."""
    content = {name: [value] for name, value in json.loads(row.content).items()}
    return pd.DataFrame({**content, ROW: [row.row], FAULT: [""], FILE: pd.Categorical([row.source])})


def _stored_versions(lake: Lake, rows: pd.DataFrame) -> pd.DataFrame:
    days = pa.array(sorted({*rows["day"]}), pa.int32()).cast(pa.date32())
    depots = list(rows["depot_id"].astype("str").unique())
    where = ds.field("date").isin(days) & ds.field("depot_id").isin(depots)
    return readings.from_table(lake.read("demand", where=where))


def _current_depots(lake: Lake) -> pd.DataFrame:
    return latest(frame(lake, "depots"), ["depot_id"])


def _open_or_settled(rows: pd.DataFrame, lake: Lake) -> Any:
    """Return "open", or "settled" if the history has a later reading of the same depot and day."""
    dated = rows[rows["date"].notna() & (rows["depot_id"] != "")]
    if dated.empty:
        return pd.Series("open", rows.index)
    days = dated["date"].to_numpy("datetime64[D]")
    where = (ds.field("date") >= days.min().item()) & (ds.field("date") <= days.max().item())
    depots = dated["depot_id"].unique()
    if len(depots) <= 1000:
        where &= ds.field("depot_id").isin(list(depots))
    columns = ["depot_id", "date", "recorded_at"]
    counts = lake.read("demand", where=where & ds.field("demand").is_valid(), columns=columns)
    last = counts.group_by(["depot_id", "date"]).aggregate([("recorded_at", "max")])
    since = last.set_column(1, "date", pc.cast(last["date"], pa.timestamp("s"))).to_pandas()
    compared = rows[["depot_id", "date", "recorded_at"]].merge(since, how="left", on=["depot_id", "date"])
    is_settled = (compared["recorded_at_max"] > compared["recorded_at"]).to_numpy()
    return pd.Series(np.where(is_settled, "settled", "open"), rows.index)


def _full_id(prefix: str, ids: pd.Series[str]) -> str:
    """Complete an id from its first digits."""
    if (ids == prefix).any():
        return prefix
    matches = list(ids[ids.str.startswith(prefix)].unique()) if len(prefix) >= SHORTEST else []
    if len(matches) == 1:
        return str(matches[0])
    if len(prefix) < SHORTEST:
        problem = f"wanted at least its first {SHORTEST} digits"
    elif matches:
        problem = f"{count(len(matches), 'row')} begin so: {', '.join(matches[:5])}"
    else:
        problem = "no quarantined row has such an id"
    raise SpecError(f"found id {prefix!r}, but {problem}; `forecaster quarantine list` shows them")


def _is_stopped_by(rule: str, rows: pd.DataFrame) -> pd.Series[bool]:
    """Mask of rows whose batch was stopped by this rule, which their messages name."""
    return (rows["rule"] == STOPPED) & rows["message"].str.contains(f"{_STOPPED_BY}{rule}: ", regex=False)


def _row(record: dict[Any, Any]) -> QuarantinedRow:
    fields: dict[str, Any] = {
        name: None if value is pd.NaT or value != value else value for name, value in record.items()
    }
    for name in ("date", "recorded_at", "decided_at"):
        if isinstance(moment := fields[name], pd.Timestamp):
            fields[name] = moment.date() if name == "date" else moment.to_pydatetime().astimezone(UTC)
    del fields["action"]
    return QuarantinedRow(**fields)
