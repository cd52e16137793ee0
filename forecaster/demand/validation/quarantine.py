"""Quarantine (dead-letter table) rows: all of a refused row, with the rule it broke and a sentence.

Columns: id, depot_id, date, source, row, rule, message, content, recorded_at, and later the batch. The id names what
was refused and why: the same row refused again for the same rule has the same one.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pandas as pd

from forecaster.config import Spec
from forecaster.demand import readings
from forecaster.demand.parsing import Notation
from forecaster.demand.sources import FAULT, FILE, ROW
from forecaster.lake import TABLES

COLUMNS = [name for name in TABLES["quarantine"].names if name != "batch"]
DIGITS = 16
_NAME = 60  # characters of a depot id that a message shows
Column = Any  # a pandas Series


def rows(refused: pd.DataFrame, rule: Column, message: Column, content: Column, now: pd.Timestamp) -> pd.DataFrame:
    """The rows of the lake's `quarantine`, but for the batch; `refused` has depot_id, date, source and row."""
    source = refused["source"].astype("str")
    columns = {
        "id": identity(source, rule, content),
        "depot_id": refused["depot_id"].astype("str"),
        "date": refused["date"],
        "source": source,
        "row": refused["row"],
        "rule": rule,
        "message": message,
        "content": content,
        "recorded_at": now,
    }
    return pd.DataFrame(columns, index=refused.index)[COLUMNS].reset_index(drop=True)


def content(block: pd.DataFrame) -> Column:
    """Each row of a source as JSON text."""
    fields = block.drop(columns=[ROW, FAULT, FILE], errors="ignore")
    nullable = fields.astype(object).where(fields.notna(), None)
    text = [json.dumps(row, ensure_ascii=False, default=str) for row in nullable.to_dict("records")]
    return pd.Series(text, index=block.index, dtype="str")


def source_json(accepted: pd.DataFrame, spec: Spec) -> Column:
    """Typed readings as JSON text, in the words of their source; what is not known is left empty."""
    columns = spec.demand.columns
    fields = {
        columns.depot_id: accepted["depot_id"].astype("str"),
        columns.date: readings.dates(accepted).dt.strftime(Notation.of(spec.demand.source).date_format or "%Y-%m-%d"),
        columns.demand: accepted["demand"],
    }
    if columns.open:
        fields[columns.open] = accepted["open"].map({0: 0, 1: 1})
    fields |= {name: accepted[name].astype(object) for name in readings.covariates(accepted)}
    if columns.recorded_at:
        instants = pd.to_datetime(accepted["recorded_at"], unit="us", utc=True)
        fields[columns.recorded_at] = instants.map(lambda instant: instant.isoformat())
    return content(pd.DataFrame(fields, index=accepted.index))


def identity(source: Column, rule: Any, text: Column) -> Column:
    """The id of each refused row: the first digits of the sha256 over source, rule and content."""
    rules = np.broadcast_to(np.asarray(rule, object), len(text))
    keys = zip(source.astype("str"), rules, text, strict=True)
    digests = [hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS] for key in keys]
    return pd.Series(digests, index=text.index, dtype="str")


def place(rows: pd.DataFrame) -> Column:
    """How a message begins: file:row: depot."""
    depot = rows["depot_id"].astype("str")
    depot = depot.where(depot.str.len() <= _NAME, depot.str.slice(0, _NAME - 1) + "…").where(depot != "", "?")
    return rows["source"].astype("str") + ":" + rows["row"].astype("str") + ": depot " + depot
