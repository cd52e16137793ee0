"""Known-future covariates as numbers: numeric columns, one-hot words, kinds of events; and which are missing ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecaster.config import Spec, data_rules
from forecaster.core.arrays import Bools, Floats
from forecaster.core.knowledge import Finding, Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.core.near_words import nearest_word
from forecaster.core.panel import Encoding, Panel
from forecaster.demand.panel.events import AnnouncedEvents
from forecaster.demand.panel.grid import Cells, coded
from forecaster.errors import NoUsableData, SpecError

MAX_WORDS = 32  # indicators a covariate of words
ABREAST = 128  # depots
PLACES = 50  # depots and days that a finding names
RULE = "covariate_missing"
_NOTHING = ("", "0", "nan")  # words that say that nothing is special


def learn_encoding(frame: pd.DataFrame, at: Cells, spec: Spec) -> tuple[str, ...]:
    """The covariates in the order of the panel's last axis: one a column of numbers or kind of event, and one for
    each of the most frequent words of a column of words."""
    names: list[str] = []
    inside = at.cell < at.outside
    for name in spec.calendar.known_future:
        if name in frame and not numeric(frame[name]):
            words, codes = coded(frame[name])
            count = pd.Series(
                np.bincount(codes[inside & (codes >= 0)], minlength=len(words)), index=words.astype("str")
            )
            count = count[(count > 0) & ~count.index.isin(_NOTHING)]
            names += [f"{name}={word}" for word in sorted(most_frequent(count, MAX_WORDS))]
        else:
            names.append(name)
    return tuple(names)


def most_frequent(count: Any, most: int) -> list[str]:
    """The words with the highest counts; of equal ones the first in the alphabet."""
    return [str(word) for word in count.sort_index().sort_values(ascending=False, kind="stable").index[:most]]


def covariate_values(
    frame: pd.DataFrame, at: Cells, is_open: Bools, announced: AnnouncedEvents, encoding: Encoding, spec: Spec
) -> Floats:
    """(depots, days, covariates) in the order of the encoding; 0 where a value is not known.

    Raises NoUsableData for a covariate that is nowhere to be found, or was numbers in training and is words now.
    """
    result = np.zeros((*at.grid.shape, len(encoding.covariates)), np.float32)
    indicators: dict[str, dict[int, str]] = {}  # column of words → place on the last axis → word
    for index, name in enumerate(encoding.covariates):
        column, _, word = name.partition("=")
        if name == "open" and spec.demand.columns.open is not None:
            result[..., index] = is_open
        elif name in frame:
            values = at.spread(_numbers(frame[name], name), 0)
            np.copyto(values, 0, where=np.isnan(values))
            result[..., index] = values
        elif word and column in frame:
            indicators.setdefault(column, {})[index] = word
        elif spec.calendar.events is not None and name in spec.calendar.known_future:
            announced.paint(result[..., index], name, 1)
        else:
            raise NoUsableData(
                f"covariate '{name}' is needed, but the demand table has no column '{column}' and no events source "
                "declares it; wanted it in calendar.known_future and in a source that was ingested"
            )
    for column, word_at in indicators.items():
        _indicate(result, frame[column], word_at, at)
    return result


def _indicate(result: Floats, column: Any, word_at: Mapping[int, str], at: Cells) -> None:
    """1 in the place of the word that a day has; a few depots at a time, which stay in the processor's cache."""
    words, codes = coded(column)
    day_codes = at.spread(codes, -1, np.int32)
    places = words.astype("str").get_indexer(pd.Index(list(word_at.values()), dtype="str"))
    for start in range(0, len(result), ABREAST):
        rows = slice(start, start + ABREAST)
        for index, place in zip(word_at, places, strict=True):
            if place >= 0:
                result[rows, :, index] = day_codes[rows] == place


def missing_ahead(knowledge: Knowledge, panel: Panel, spec: Spec) -> tuple[Finding, ...]:
    """Data check of the horizon: a finding for the covariates of the demand source that have no value on some open
    depot-days of it; those that lack the same days are one finding."""
    frame, first = knowledge.demand, pd.Timestamp(panel.target_dates[0])
    ahead = frame[(frame["date"] >= first).to_numpy()]
    is_open = panel.open[:, panel.history :]
    depots, days = pd.Index(panel.depot_ids, dtype="str"), panel.days[panel.history :]
    lacking: dict[bytes, tuple[Bools, list[str]]] = {}  # by the days themselves
    for name in spec.calendar.known_future:
        if name not in frame or _is_opening(name, spec):
            continue
        with_value = ahead[ahead[name].notna().to_numpy()]
        is_missing: Bools = is_open & ~_days_with_rows(with_value, depots, days)
        if is_missing.any():
            lacking.setdefault(is_missing.tobytes(), (is_missing, []))[1].append(name)
    return tuple(_missing(names, is_missing, int(is_open.sum()), panel, spec) for is_missing, names in lacking.values())


def _missing(names: list[str], is_missing: Bools, open_days: int, panel: Panel, spec: Spec) -> Finding:
    days, (row, step) = panel.days[panel.history :], np.argwhere(is_missing)[0]
    one = N_(
        "covariate {names}: found no value on {n} of {all} open depot-days from {from} to {to}, first of depot {depot} "
        "on {day}; they count as 0, wanted {wanted}"
    )
    several = N_(
        "covariates {names}: found no value on {n} of {all} open depot-days from {from} to {to}, first of depot "
        "{depot} on {day}; they count as 0, wanted {wanted}"
    )
    message = sentence(
        several if len(names) > 1 else one,
        names=", ".join(map(repr, names)),
        n=int(is_missing.sum()),
        all=open_days,
        **{"from": days[0].astype(object), "to": days[-1].astype(object)},
        depot=panel.depot_ids[row],
        day=days[step].astype(object),
        wanted=data_rules.requirement(RULE),
    )
    severity = data_rules.severity(RULE, spec.demand.rules.severity)
    places = tuple((panel.depot_ids[row], str(days[step])) for row, step in np.argwhere(is_missing)[:PLACES])
    return Finding(RULE, severity, int(is_missing.sum()), message, places)


def _days_with_rows(table: pd.DataFrame, depots: pd.Index[Any], days: Any) -> Bools:
    ids, codes = coded(table["depot_id"])
    rows = np.append(depots.get_indexer(ids), -1)[codes]
    columns = (np.asarray(table["date"], "datetime64[D]") - days[0]).astype(np.int64)
    inside = (rows >= 0) & (columns >= 0) & (columns < len(days))
    has_row = np.zeros((len(depots), len(days)), np.bool_)
    has_row[rows[inside], columns[inside]] = True
    return has_row


def _is_opening(name: str, spec: Spec) -> bool:
    """Is it the depots' being open, which has an expectation of its own?"""
    return name == "open" and spec.demand.columns.open is not None


def numeric(column: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def _numbers(column: Any, name: str) -> Any:
    if not numeric(column):
        raise NoUsableData(
            f"covariate '{name}' was numbers in training and is words now; wanted the same kind, or a new model"
        )
    return column.to_numpy(np.float32, na_value=np.nan)


def refuse_unknown_days(
    knowledge: Knowledge, panel: Panel, covariates: Sequence[str], strangers: Sequence[str] = ()
) -> None:
    """Raises SpecError where a covariate is not known of a day ahead on which its depot is open: as 0 it would say
    something. Among the `strangers` is the name of which it may have been given."""
    ahead, rows = panel.days[panel.history :], {depot: row for row, depot in enumerate(panel.depot_ids)}
    demand = knowledge.demand[(knowledge.demand["date"] >= ahead[0]) & knowledge.demand["depot_id"].isin(rows)]
    places = (
        demand["depot_id"].map(rows).to_numpy(np.intp),
        (demand["date"].to_numpy(ahead.dtype) - ahead[0]).astype(int),
    )
    inside = places[1] < len(ahead)
    for name in covariates:
        is_known = ~panel.open[:, panel.history :]
        is_known[places[0][inside], places[1][inside]] |= demand[name].notna().to_numpy()[inside]
        if not is_known.all():
            row, step = np.argwhere(~is_known)[0]
            depot = panel.depot_ids[row]
            meant = nearest_word(depot, strangers)
            raise SpecError(
                f"future: depot {depot!r} has no '{name}' on {ahead[step]}; wanted a row with one for each depot and "
                f"each of the {panel.horizon} days after {panel.cutoff}: the model knows it ahead"
                + (f"; did you mean this depot by {meant!r}, which no reading names?" if meant else "")
            )
