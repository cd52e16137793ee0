"""Known-future covariates as numbers: numeric columns, one-hot words and kinds of events; and
checks for implausible values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from forecaster.config import Spec, data_rules
from forecaster.core.arrays import Bools, Floats
from forecaster.core.knowledge import Finding, Knowledge
from forecaster.core.language import N_
from forecaster.core.language.near_words import nearest_word
from forecaster.core.language.sentences import Sentence, as_sentence, counted, sentence
from forecaster.core.panel import Encoding, Panel
from forecaster.demand.panel.events import AnnouncedEvents
from forecaster.demand.panel.grid import Cells, Grid, cells, coded
from forecaster.demand.panel.known_future.usual_covariates import (
    UnitChange,
    is_far,
    known_range,
    unit_change,
    with_usual,
)
from forecaster.errors import NoUsableData, SpecError

MAX_WORDS = 32  # indicators per covariate of words
ABREAST = 128  # depots processed at a time
PLACES = 50  # depots and days named in a finding
RULE, FAR_RULE = "covariate_missing", "covariate_outlier"
ENDED_DAYS = 28  # last days of the past; missing values on some of them make the past a finding
_NOTHING = ("", "0", "nan")  # words for "nothing special"


def learn_encoding(frame: pd.DataFrame, at: Cells, spec: Spec) -> tuple[str, ...]:
    """Covariates in the order of the panel's last axis: one per numeric column or kind of event,
    and one for each of the most frequent words of a column of words."""
    names: list[str] = []
    inside = at.cell < at.outside
    for name in spec.calendar.known_future:
        if name in frame and not numeric(frame[name]):
            categories, codes = coded(frame[name])
            count = pd.Series(
                np.bincount(codes[inside & (codes >= 0)], minlength=len(categories)), index=categories.astype("str")
            )
            count = count[(count > 0) & ~count.index.isin(_NOTHING)]
            names += [f"{name}={word}" for word in sorted(most_frequent(count, MAX_WORDS))]
        else:
            names.append(name)
    return tuple(names)


def most_frequent(count: Any, most: int) -> list[str]:
    """Words with the highest counts; ties in alphabetical order."""
    return [str(word) for word in count.sort_index().sort_values(ascending=False, kind="stable").index[:most]]


def covariate_values(
    frame: pd.DataFrame, at: Cells, is_open: Bools, announced: AnnouncedEvents, encoding: Encoding, spec: Spec
) -> Floats:
    """Values of the covariates, (depots, days, covariates), in the order of the encoding.

    Ahead and on counted days, missing values and values far outside the history are replaced by the
    usual value (`usual_covariates`). They are 0 elsewhere, and where a source mostly has no value,
    since blanks then mean "nothing special". Raises NoUsableData for a covariate that cannot be
    found anywhere, or was numeric in training and is words now.
    """
    result = np.zeros((*at.grid.shape, len(encoding.covariates)), np.float32)
    indicators: dict[str, dict[int, str]] = {}  # column of words → place on the last axis → word
    needs = _Needs.of(frame, at)
    for index, name in enumerate(encoding.covariates):
        column, _, word = name.partition("=")
        if _is_opening(name, spec):
            result[..., index] = is_open
        elif name in frame:
            values = _believable(at.spread(_numbers(frame[name], name), np.nan), needs.history).values
            if needs.is_usual(~np.isnan(values)):
                values = with_usual(values, needs.needed, of_nobody=_middle(values[:, : needs.history]))
            result[..., index] = np.nan_to_num(values, copy=False)
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
        _indicate(result, frame[column], word_at, at, needs)
    return result


def _indicate(result: Floats, column: Any, word_at: Mapping[int, str], at: Cells, needs: _Needs) -> None:
    """Set 1 at the word of each day; a few depots at a time, which fit into the processor's cache."""
    categories, codes = coded(column)
    day_codes = at.spread(codes, -1, np.int32)
    places = categories.astype("str").get_indexer(pd.Index(list(word_at.values()), dtype="str"))
    is_usual = needs.is_usual(day_codes >= 0)
    for start in range(0, len(result), ABREAST):
        rows = slice(start, start + ABREAST)
        missing = (day_codes[rows] < 0) & needs.needed[rows] & is_usual
        for index, place in zip(word_at, places, strict=True):
            if place >= 0:
                result[rows, :, index] = day_codes[rows] == place
                if missing.any():
                    indicators = np.where(day_codes[rows] < 0, np.float32(np.nan), result[rows, :, index])
                    result[rows, :, index] = np.nan_to_num(with_usual(indicators, missing, of_nobody=0), copy=False)


class _Needs(NamedTuple):
    """Days on which a covariate needs a value: the days ahead, and past days with a count."""

    needed: Bools  # (depots, days)
    history: int

    @classmethod
    def of(cls, frame: pd.DataFrame, at: Cells) -> _Needs:
        needed = at.spread(frame["demand"].notna().to_numpy(), False, np.bool_)
        needed[:, at.grid.history :] = True
        return cls(needed, at.grid.history)

    def is_usual(self, is_known: Bools) -> bool:
        """True if the source has the covariate on half of the past days with a count, so that a
        blank is a gap."""
        past = self.needed[:, : self.history]
        return bool(past.any()) and 2 * int((is_known[:, : self.history] & past).sum()) >= int(past.sum())


class _Believable(NamedTuple):
    values: Floats  # (depots, days), NaN = missing, or far outside the history
    far: Bools | None  # None: no value is far
    known: tuple[float, float] | None  # range of the history
    changed: UnitChange | None = None  # day from which no value is in the unit of the history


def _believable(values: Floats, history: int) -> _Believable:
    """Values with implausible ones set to NaN; overwrites `values`."""
    if changed := unit_change(values, history):
        of_other_unit = np.isfinite(values) & (np.arange(values.shape[1]) >= changed.day)
        values[of_other_unit] = np.nan
        return _Believable(values, of_other_unit, (changed.low, changed.high), changed)
    value_range = known_range(values[:, :history])
    far = None if value_range is None else is_far(values, value_range)
    if far is None or not far.any():
        return _Believable(values, None, value_range)
    values[far] = np.nan
    return _Believable(values, far, value_range)


def _middle(values: Floats) -> float:
    """Median of all known values; 0 if there is none."""
    finite_values = values[np.isfinite(values)]
    return float(np.median(finite_values)) if len(finite_values) else 0.0


def covariate_findings(knowledge: Knowledge, panel: Panel, spec: Spec) -> tuple[Finding, ...]:
    """Findings about covariates of the demand source without a value, or with one far outside their
    history, on open days of the horizon or on counted days of the past; covariates that lack the
    same days share one finding."""
    frame = knowledge.demand
    names = [name for name in spec.calendar.known_future if name in frame and not _is_opening(name, spec)]
    if not names:
        return ()
    depots = pd.Index(panel.depot_ids, dtype="str")
    at = cells(frame, Grid(depots, panel.days, panel.history, np.zeros(len(depots), np.int64)))
    needs = _Needs.of(frame, at)
    is_needed = needs.needed & panel.open
    lacking: dict[bytes, tuple[Bools, bool, list[str]]] = {}  # by the days themselves
    findings: list[Finding] = []
    for name in names:
        if numeric(frame[name]):
            values, far, value_range, changed = _believable(
                at.spread(_numbers(frame[name], name), np.nan), panel.history
            )
            missing = np.isnan(values)
            if far is not None and value_range is not None:
                missing &= ~far
                findings += _far(
                    name, far & is_needed, value_range, changed, needs.is_usual(~missing & ~far), panel, spec
                )
        else:
            missing = at.spread(coded(frame[name])[1], -1, np.int32) < 0
        is_usual = needs.is_usual(~missing)
        for window in _windows(missing & is_needed, is_usual, panel.history):
            lacking.setdefault(window.tobytes(), (window, is_usual, []))[2].append(name)
    of_missing = (_missing(names, cells, usual, is_needed, panel, spec) for cells, usual, names in lacking.values())
    return (*findings, *of_missing)


def _windows(missing: Bools, is_usual: bool, history: int) -> Iterator[Bools]:
    """Missing cells of the horizon, and those of the past if its last weeks have some; each only if
    there are any."""
    days = np.arange(missing.shape[1])
    if missing[:, history:].any():
        yield missing & (days >= history)
    if is_usual and missing[:, max(history - ENDED_DAYS, 0) : history].any():
        yield missing & (days < history)


_USUAL = N_("the usual value of the season is used instead")
_ZERO = N_("they count as 0, as they mostly have no value")


def _missing(names: list[str], missing: Bools, is_usual: bool, is_needed: Bools, panel: Panel, spec: Spec) -> Finding:
    singular = N_(
        "covariate {names}: found no value on {n} of {all} open depot-days from {from} to {to}, first of depot {depot} "
        "on {day}; {instead}, wanted {wanted}"
    )
    plural = N_(
        "covariates {names}: found no value on {n} of {all} open depot-days from {from} to {to}, first of depot "
        "{depot} on {day}; {instead}, wanted {wanted}"
    )
    row, first = np.argwhere(missing)[np.argmin(np.nonzero(missing)[1])]
    window = slice(panel.history, None) if first >= panel.history else slice(first, panel.history)
    days = panel.days[window]
    message = sentence(
        plural if len(names) > 1 else singular,
        names=", ".join(map(repr, names)),
        n=int(missing.sum()),
        all=int(is_needed[:, window].sum()),
        **{"from": days[0].astype(object), "to": days[-1].astype(object)},
        depot=panel.depot_ids[row],
        day=panel.days[first].astype(object),
        instead=as_sentence(_USUAL if is_usual else _ZERO),
        wanted=data_rules.requirement(RULE),
    )
    return _finding(RULE, message, missing, panel, spec)


def _far(
    name: str,
    far: Bools,
    value_range: tuple[float, float],
    changed: UnitChange | None,
    is_usual: bool,
    panel: Panel,
    spec: Spec,
) -> Iterator[Finding]:
    if not far.any():
        return
    template = N_(
        "covariate {name}: found {n} values far outside of {low} to {high}, the range of its history, at {depots} "
        "from {from} to {to}; {instead}, wanted {wanted}"
    )
    of_other_unit = N_(
        "covariate {name}: found {n} values that seem to be in another unit ({unit}), outside of {low} to {high}, the "
        "range of the weeks before, at {depots} from {from} to {to}; {instead}, wanted {wanted}"
    )
    message = sentence(
        of_other_unit if changed else template,
        unit=changed.unit if changed else "",
        name=repr(name),
        n=int(far.sum()),
        low=f"{value_range[0]:g}",
        high=f"{value_range[1]:g}",
        depots=counted(int(far.any(axis=1).sum()), "{n} depot", "{n} depots"),
        **dict(zip(("from", "to"), panel.days[np.flatnonzero(far.any(axis=0))[[0, -1]]].astype(object), strict=True)),
        instead=as_sentence(_USUAL if is_usual else _ZERO),
        wanted=data_rules.requirement(FAR_RULE),
    )
    yield _finding(FAR_RULE, message, far, panel, spec)


def _finding(rule: str, message: Sentence, concerned: Bools, panel: Panel, spec: Spec) -> Finding:
    severity = data_rules.severity(rule, spec.demand.rules.severity)
    places = tuple((panel.depot_ids[row], str(panel.days[day])) for row, day in np.argwhere(concerned)[:PLACES])
    return Finding(rule, severity, int(concerned.sum()), message, places)


def _is_opening(name: str, spec: Spec) -> bool:
    """True for the covariate of being open, which has its own expectation."""
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
    knowledge: Knowledge, panel: Panel, covariates: Sequence[str], unknown_depots: Sequence[str] = ()
) -> None:
    """Raise SpecError if a covariate is unknown on a day ahead on which its depot is open: 0 would
    be a statement. `unknown_depots` are unknown names, one of which may be meant for the depot."""
    days, rows = panel.days[panel.history :], {depot: row for row, depot in enumerate(panel.depot_ids)}
    demand = knowledge.demand[(knowledge.demand["date"] >= days[0]) & knowledge.demand["depot_id"].isin(rows)]
    places = (
        demand["depot_id"].map(rows).to_numpy(np.intp),
        (demand["date"].to_numpy(days.dtype) - days[0]).astype(int),
    )
    inside = places[1] < len(days)
    for name in covariates:
        is_known = ~panel.open[:, panel.history :]
        is_known[places[0][inside], places[1][inside]] |= demand[name].notna().to_numpy()[inside]
        if not is_known.all():
            row, step = np.argwhere(~is_known)[0]
            depot = panel.depot_ids[row]
            similar_name = nearest_word(depot, unknown_depots)
            raise SpecError(
                f"future: depot {depot!r} has no '{name}' on {days[step]}; wanted a row with one for each depot and "
                f"each of the {panel.horizon} days after {panel.cutoff}: the model knows it ahead"
                + (f"; did you mean this depot by {similar_name!r}, which no reading names?" if similar_name else "")
            )
