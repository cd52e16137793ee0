"""Arrangement of a source's rows, as the pipeline file declares it: blank cells filled down, rows
chosen by `where`, one column for the depot and one for the day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from forecaster.config import Spec, data_rules
from forecaster.config.demand import Excluded
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.demand import parsing
from forecaster.demand.sources import FILE

Column = Any  # a pandas Series
_MONTHS = ("%B", "%b")


def are_one_of(column: Column, values: Sequence[str]) -> Column:
    """Marks cells with one of these texts, in any case; "" is an empty cell."""
    wanted = {value.strip().casefold() for value in values}
    return parsing.words(column).str.casefold().isin(wanted)


def joined_days(year: Column, month: Column, day: Column) -> Column:
    """Days of three columns as text in ISO 8601; a month is a number or an English name. Where they
    are no day, the three texts with dashes between them."""
    texts = parsing.words(year) + "-" + parsing.words(month).str.title() + "-" + parsing.words(day)
    unique = pd.Series(texts.unique(), dtype="str")
    parsed = pd.to_datetime(unique, format="%Y-%m-%d", errors="coerce")
    for form in _MONTHS:
        parsed = parsed.fillna(pd.to_datetime(unique, format=f"%Y-{form}-%d", errors="coerce"))
    written = parsed.dt.strftime("%Y-%m-%d").astype("str").where(parsed.notna(), unique)
    return texts.map(dict(zip(unique, written, strict=True))).astype("str")


class Arrangement:
    """Arranges the blocks of a feed, one after the other."""

    def __init__(self, spec: Spec) -> None:
        self._spec, self._demand = spec, spec.demand
        self.left_out = 0  # rows, by `where`
        self._last: dict[str, tuple[Any, str]] = {}  # column → file and value of the last filled cell
        self._met = dict.fromkeys(spec.demand.where, False)

    def arrange(self, block: pd.DataFrame) -> pd.DataFrame:
        """The rows that count, with the columns that the contract reads."""
        demand = self._demand
        for name in demand.source.fill_down:
            block = block.assign(**{name: self._filled_down(block, name)})
        kept = pd.Series(True, index=block.index)
        for name, wanted in demand.where.items():
            is_excluded = isinstance(wanted, Excluded)
            named = are_one_of(block[name], wanted.values if isinstance(wanted, Excluded) else wanted)
            self._met[name] |= bool(named.any())
            kept &= ~named if is_excluded else named
        if not kept.all():
            self.left_out += int((~kept).sum())
            block = block[kept]
        if demand.depot is not None:
            block = block.assign(**{demand.columns.depot_id: demand.depot})
        if len(names := demand.columns.day_columns) == 3:
            block = block.assign(**{demand.columns.day: joined_days(*(block[name] for name in names))})
        return block

    def findings(self) -> list[Finding]:
        """Conditions of `where` whose values no row has."""
        limits = self._demand.rules
        severity = data_rules.severity("where_value", limits.severity)
        values = {
            name: wanted.values if isinstance(wanted, Excluded) else wanted
            for name, wanted in self._demand.where.items()
        }
        return [
            Finding(
                "where_value",
                severity,
                1,
                sentence(
                    N_("demand.where: found no row with {values} in column '{column}'; wanted {wanted}"),
                    values=" or ".join(map(repr, values[name])),
                    column=name,
                    wanted=data_rules.requirement("where_value", **limits.model_dump()),
                ),
            )
            for name, is_met in self._met.items()
            if not is_met
        ]

    def _filled_down(self, block: pd.DataFrame, name: str) -> Column:
        """The column with each blank cell as the one above it in the same file."""
        words = parsing.words(block[name])
        files = block[FILE].astype("str")
        filled = words.where(words != "").groupby(files.to_numpy()).ffill()
        if name in self._last:
            file, value = self._last[name]
            filled = filled.where(filled.notna() | (files != file), value)
        if len(block):
            self._last[name] = files.iloc[-1], filled.iloc[-1]
        return filled.fillna("").astype("str")
