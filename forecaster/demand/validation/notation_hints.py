"""Hints for a notation that would read rejected values: another order of day and month, another
mark in numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecaster.config import CsvSource, Spec, WrittenSource
from forecaster.config.sources import COUNTED_DAYS
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, as_sentence, joined, sentence
from forecaster.demand.parsing import Notation, days, each_value, numbers
from forecaster.demand.sources import encodings
from forecaster.demand.validation.days.forms import day_forms, likeliest

LOOKED_AT = 20_000  # rows
WORD = re.compile(r"[^\W\d][^\d]*")  # in place of a number
FEW_COUNTS = 5  # minimum number of counts with a point: fewer may look like thousands by chance
NEARLY_ALL = 0.95  # share of the values that a notation must read to be suggested
_UNREAD_DAYS = {  # a form that no notation reads, and its problem
    r"[^\x00-\x7f]{1,4}[./-][^\x00-\x7f]{1,2}[./-][^\x00-\x7f]{1,4}": N_(
        "they are written in digits of another script, which cannot be read: write them as in 2024-03-05"
    ),
    r"\d{4}-?W\d{1,2}": N_("they look like weeks; wanted a count for each day"),
    r"\d{4}[-/]\d{1,2}|\d{1,2}/\d{4}": N_("they look like months; wanted a count for each day"),
    r"\d{1,2}[./-]\d{1,2}\.?": N_("they have no year: write days with one, as in 2024-03-05"),
    r"(\w+\.?,? )?\d{1,2}\.?[ -]*[^\W\d]{3,}\.?[ -]*\d{2,4}": N_(
        "month names in languages other than English cannot be read: write months as numbers, as in 2024-03-05"
    ),
}
_ERAS = {  # years as written, current ones and twenty before and after
    (2540, 2600): N_("years as in 2024-03-05: they look like Buddhist years (BE), which are 543 ahead"),
    (1380, 1425): N_("years as in 2024-03-05: they look like years of the Persian calendar"),
    (1426, 1480): N_("years as in 2024-03-05: they look like years of the Hijri calendar"),
    (100, 130): N_("years as in 2024-03-05: they look like years since 1911 (Minguo)"),
}
_WITH_MARKS = r"^([^\W\d]+\.?|[^\w\s.,+-])?\s?[+-]?\d[\d.,\s]*?\s?([^\W\d]+\.?|[^\w\s.,])?$"
_NULL_WORDS = {
    *(
        "-",
        "--",
        "---",
        "\u2013",
        "\u2014",
        ".",
        "..",
        "?",
        "*",
        "/",
        "x",
        "n/a",
        "na",
        "n.a",
        "n.a.",
        "n/d",
        "nd",
        "n.d.",
    ),
    *("#n/a", "#na", "#n/v", "#nv", "#null!", "#value!", "#wert!", "#div/0!", "#ref!", "#bezug!", "#name?", "#num!"),
    *(
        "null",
        "<null>",
        "(null)",
        "\\n",
        "none",
        "nil",
        "nan",
        "-nan",
        "<na>",
        "nat",
        "missing",
        "unknown",
        "unbekannt",
    ),
    *("k. a.", "k.\u00a0a.", "k.a.", "k.a", "k/a", "keine angabe", "s/d", "s.d.", "n.v.t.", "nvt", "b/d", "s/o"),
    *("no data", "not available", "empty", "(empty)", "(blank)", "leer", "vide"),
}  # in lower case
_MOST_NAMES = 10  # column names in a hint
_BOTH = "\0"
_BLANKS = (" ", "\u00a0", "\u202f", "'", "\u2019")
MARKS = (  # thousands and decimal, simplest first
    (",", "."),
    (None, ","),
    *((blank, ".") for blank in _BLANKS),
    (".", ","),
    *((blank, ",") for blank in _BLANKS),
)


class Decimals:
    """Form of counts with decimals, block after block; not checked if a source declares both marks,
    or the point."""

    def __init__(self, spec: Spec) -> None:
        source, self._column = spec.demand.source, spec.demand.columns.demand
        # other sources are checked only for text: their numbers are unambiguous
        self._written = isinstance(source, WrittenSource)
        notation, keys = Notation.of(source), {"thousands", "decimal"} & source.model_fields_set
        self.comma = notation.thousands is None and notation.decimal == ","
        declared = self._written and keys and not self.comma
        self._asked = not declared and spec.demand.aggregate != "count"
        mark = re.escape(notation.decimal)
        self._form, self._decimal = rf"\D*[1-9]\d{{0,2}}{mark}\d{{3}}\D*", rf"\D*(\d{{4,}}|0){mark}\d{{3}}\D*"
        self.counts, self.all, self.example = 0, 0, ""

    @property
    def may_be_thousands(self) -> bool:
        """True if nearly all of them, and at least some, have three decimals after one to three
        digits, such as 1.234."""
        return self.counts >= max(FEW_COUNTS, NEARLY_ALL * self.all)

    def look_at(self, block: pd.DataFrame, counts: pd.Series[float]) -> None:
        """Check the block's decimals; `counts` are its counts as numbers."""
        if not self._asked or not (self._written or _is_text(block[self._column])):
            return
        number = counts.to_numpy()
        with np.errstate(invalid="ignore"):
            fractions = np.flatnonzero(np.isfinite(number) & (number % 1 != 0))
        if len(fractions):
            text = block[self._column].iloc[fractions].astype("str").str.strip()
            if text.str.fullmatch(self._decimal).any():  # 0.234 and 1234.567 have no thousands
                self._asked, self.counts = False, 0
                return
            fit = text[text.str.fullmatch(self._form)]
            self.counts, self.all = self.counts + len(fit), self.all + len(text)
            self.example = self.example or (str(fit.iloc[0]) if len(fit) else "")


def hint(refused: pd.DataFrame, accepted_days: pd.Series[Any], spec: Spec) -> str:
    """Setting that would read rows rejected for one rule; empty if none would. `refused` is as
    described in `quarantine`, and `accepted_days` are days that the current setting reads. Only
    text written by people, in a CSV or a sheet, has a notation to set; for other values the hint
    states what they look like."""
    rule, source = refused["rule"].iloc[0], spec.demand.source
    if rule == "row_form" and isinstance(source, CsvSource):
        return _of_bytes(refused.head(LOOKED_AT)) or _of_fields(refused.head(LOOKED_AT), source)
    if rule == "depot_missing":
        setting = f"demand.source.fill_down: {json.dumps([spec.demand.columns.depot_id], ensure_ascii=False)}"
        template = N_("if a depot is named only on the first row of its block or order, {setting} fills it down")
        return sentence(template, setting=setting)
    column = {"date_form": spec.demand.columns.date, "count_form": spec.demand.columns.demand}.get(rule)
    if not isinstance(column, str):
        return ""
    rows = [json.loads(content) for content in refused["content"].head(LOOKED_AT)]
    values = pd.Series([str(row[column]) for row in rows if row.get(column) not in (None, "")], dtype="str")
    if values.empty:
        return ""
    notation_hint = _of_days(values, accepted_days, spec) if rule == "date_form" else _of_numbers(values, spec)
    return (source.wide and _of_wide(rows, rule, spec)) or notation_hint


def cut_depots(refused: pd.DataFrame, accepted: pd.DataFrame, spec: Spec) -> list[str]:
    """Depots whose rejected counts, read in another notation, are all higher than the accepted ones
    (for example if only counts above 1,000 have a comma), or all lower."""
    rows = refused[refused["rule"] == "count_form"].head(LOOKED_AT)
    if len(rows) < FEW_COUNTS or spec.demand.aggregate != "none":
        return []
    texts = [str(json.loads(content).get(spec.demand.columns.demand)) for content in rows["content"]]
    marks, share = _best_marks(pd.Series(texts, dtype="str"))
    if share < NEARLY_ALL or _are_plain(pd.Series(texts, dtype="str"), spec):
        return []
    counts = numbers(pd.Series(texts, rows["depot_id"].astype("str"), dtype="str"), Notation(*marks))
    refused_counts = counts[np.isfinite(counts)].groupby(level=0).agg(["min", "max", "size"])
    accepted_counts = accepted[accepted["depot_id"].isin(refused_counts.index)]
    accepted_counts = accepted_counts.groupby(accepted_counts["depot_id"].astype("str"))["demand"].agg(["min", "max"])
    both = refused_counts.join(accepted_counts.add_suffix("_kept"), how="inner")
    is_end = (both["min"] > both["max_kept"]) | (both["max"] < both["min_kept"])
    return [str(depot) for depot in both.index[is_end & (both["size"] >= FEW_COUNTS)]]


def _are_plain(values: pd.Series[str], spec: Spec) -> bool:
    """True if nearly all of these are numbers in the notation of the source, except for a mark that
    the other counts lack."""
    return bool(np.isfinite(numbers(values, Notation.of(spec.demand.source))).mean() >= NEARLY_ALL)


def _best_marks(values: pd.Series[str]) -> tuple[tuple[str | None, str], float]:
    """Marks of thousands and decimals that read most of these texts, and the share that they read."""
    shares = [float(np.isfinite(numbers(values, Notation(*marks))).mean()) for marks in MARKS]
    return MARKS[shares.index(max(shares))], max(shares)


def _of_wide(rows: Sequence[Mapping[str, Any]], rule: str, spec: Spec) -> str:
    """Columns of a wide source without readings: headers that are no day, or columns of words."""
    columns, wide = spec.demand.columns, spec.demand.source.wide
    header = {("depots", "count_form"): columns.depot_id, ("days", "date_form"): columns.day}.get((wide or "", rule))
    if header is None:
        return ""
    if wide == "depots":
        rows = [row for row in rows if not re.search(r"\d", str(row.get(columns.demand)))]
    counts = pd.Series([str(row.get(header)) for row in rows]).value_counts()
    if counts.empty:
        return ""
    names = [str(name) for name, count in counts.items() if count >= max(2, counts.iloc[0] / 2)]
    if not 0 < len(names) <= _MOST_NAMES or counts[names].sum() < NEARLY_ALL * counts.sum():
        return ""
    setting = f"demand.source.ignore: {json.dumps(names, ensure_ascii=False)}"
    return sentence(N_("{setting} would leave out columns without readings"), setting=setting)


def _of_fields(refused: pd.DataFrame, source: CsvSource) -> str:
    """Hint for a delimiter within values, which gives more fields than the header has."""
    fields = refused["message"].str.extract(r"found (\d+) fields, wanted (\d+) as in the header").astype("float64")
    if not (fields[0] > fields[1]).mean() >= NEARLY_ALL:
        return ""
    template = N_(
        "values seem to hold the delimiter {delimiter}, as a decimal comma does: write them in quotes, or with another "
        "delimiter"
    )
    return sentence(template, delimiter=repr(source.delimiter))


def _of_bytes(refused: pd.DataFrame) -> str:
    odd = refused[refused["message"].str.contains(f"found {encodings.NO_TEXT}", regex=False)]
    cells = [json.loads(content).values() for content in odd["content"]]
    encoding = encodings.guess(encodings.unescaped(str(cell)) for row in cells for cell in row)
    if not encoding or len(odd) < NEARLY_ALL * len(refused):
        return ""
    return _would_read(f"encoding: {encoding}", len(odd) / len(refused))


def _is_text(column: pd.Series[Any]) -> bool:
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    return pd.api.types.is_string_dtype(values)


def _of_days(values: pd.Series[str], accepted: pd.Series[Any], spec: Spec) -> str:
    shares: dict[str, float] = {}
    for form in (*COUNTED_DAYS, *day_forms()):
        read = _read(values, form, spec)
        # any small number may be seconds since 1970
        first = "2000-01-01" if form in COUNTED_DAYS else "1970-01-01"
        shares[form] = float((read >= pd.Timestamp(first)).mean())
    best = max(shares.values())
    if best < NEARLY_ALL:
        era = other_era(values)
        return sentence(N_("wanted {era}"), era=era) if era else unread_days(values)
    fit = likeliest({form: _read(values, form, spec) for form, share in shares.items() if share == best})[:2]
    forms = joined((f"'{form}'" for form in fit), N_(" or ")) or ""
    if not isinstance(spec.demand.source, WrittenSource):
        return sentence(N_("they look like {forms}: make them dates, or text such as 2024-03-05"), forms=forms)
    if len(accepted) and not any(_reads_some(form, accepted, spec) for form in fit):
        template = N_(
            "{forms} would read {which}, but none of the days that are read now: the days have two notations, and "
            "demand.source.date_format reads one"
        )
        return sentence(template, forms=forms, which=_of_them(best))
    return _would_read(joined(["date_format:", forms], " ") or "", best)


def _read(values: pd.Series[str], form: str, spec: Spec) -> pd.Series[Any]:
    read: pd.Series[Any] = days(values, spec.zone, Notation(date_format=form))
    return read


def _reads_some(form: str, accepted: pd.Series[Any], spec: Spec) -> bool:
    """True if a form would read any of the days as currently written."""
    text = accepted.dt.strftime(Notation.of(spec.demand.source).written_form).astype("str")
    return bool(days(text, spec.zone, Notation(date_format=form)).notna().any())


def unread_days(values: pd.Series[str]) -> str:
    """Sentence about days of which nearly all have a form that no notation reads; empty otherwise."""
    text = values.str.strip()
    fit = (phrase for form, phrase in _UNREAD_DAYS.items() if text.str.fullmatch(form).mean() >= NEARLY_ALL)
    return next(map(as_sentence, fit), "")


def other_era(values: pd.Series[str], share: float = NEARLY_ALL) -> str:
    """Sentence about days of which at least this share have years of another era; empty otherwise."""
    part = r"[0-9]{1,2}"
    year = values.str.strip().str.extract(
        rf"^([0-9]{{3,4}})[-/.]{part}[-/.]{part}\b|^{part}[-/.]{part}[-/.]([0-9]{{3,4}})\b"
    )
    years = year[0].fillna(year[1]).astype("float64")
    fit = [phrase for (first, last), phrase in _ERAS.items() if years.between(first, last).mean() >= share]
    return as_sentence(fit[0]) if fit else ""


def _of_numbers(values: pd.Series[str], spec: Spec) -> str:
    marks, best = _best_marks(values)
    # a mark that other counts lack
    if best < NEARLY_ALL or _are_plain(values, spec):
        return _of_empty_words(values) or _of_marks(values) or _of_closed_words(values)
    if not isinstance(spec.demand.source, WrittenSource):
        return as_sentence(N_("they are numbers in a notation of their own: make them numbers, or text such as 1234.5"))
    return _would_read(_keys(*marks), best)


def _of_empty_words(values: pd.Series[str]) -> str:
    null_words = values[values.str.strip().str.lower().isin(_NULL_WORDS)].str.strip()
    if len(null_words) < NEARLY_ALL * len(values):
        return ""
    listed = json.dumps(null_words.value_counts().index[:_MOST_NAMES].tolist(), ensure_ascii=False)
    values_of = {"setting": f"null_values: {listed}", "which": _of_them(len(null_words) / len(values))}
    return sentence(N_("demand.source.{setting} would read {which} as nothing"), **values_of)


def _of_closed_words(values: pd.Series[str]) -> str:
    closed_words = values[values.str.strip().str.fullmatch(WORD)].str.strip()
    if len(closed_words) < NEARLY_ALL * len(values):
        return ""
    listed = json.dumps(closed_words.value_counts().index[:_MOST_NAMES].tolist(), ensure_ascii=False)
    setting = f"demand.closed_values: {listed}"
    return sentence(N_("if they are words for closed days, set {setting}"), setting=setting)


def _of_marks(values: pd.Series[str]) -> str:
    marks = _marks(values)
    if (marks != "").mean() < NEARLY_ALL:
        return ""
    both = _named(marks.value_counts().index[0])
    return sentence(N_("they have {marks} next to the number: write numbers alone"), marks=both)


def _marks(values: pd.Series[str]) -> pd.Series[str]:
    """Marks next to the number of each value, in quotes; marks on both sides are separated by
    `_BOTH`; empty if there is no mark or no number."""
    sides = values.str.strip().str.extract(_WITH_MARKS).fillna("")
    quoted = sides.map(lambda mark: f"'{mark}'" if mark else "")
    both = (quoted[0] != "") & (quoted[1] != "")
    return (quoted[0] + quoted[1]).where(~both, quoted[0] + _BOTH + quoted[1]).astype("str")


def _named(marks: str) -> str:
    return joined(marks.split(_BOTH), N_(" and ")) or ""


def advice(values: pd.Series[Any]) -> pd.Series[Any]:
    """Advice for each value that is no number, for its message: declare a null word, or omit a mark
    next to a number. Empty otherwise."""

    def of_distinct(distinct: pd.Series[Any]) -> pd.Series[Any]:
        text = distinct.astype("str").str.strip()
        return pd.Series(list(map(_advice, text, _marks(text))), distinct.index, dtype=object)

    sentences: pd.Series[Any] = each_value(values, of_distinct, "")
    return sentences


def _advice(text: str, marks: str) -> str:
    if text.lower() in _NULL_WORDS:
        setting = f"demand.source.null_values: {json.dumps([text], ensure_ascii=False)}"
        return sentence(N_("; if it is a word for nothing, set {setting}"), setting=setting)
    if separated := re.fullmatch(r"[+-]?[1-9]\d{0,2}([,.' \u00a0\u202f\u2019])\d{3}(?:\1\d{3})*", text):
        setting = f"demand.source.{_keys(separated[1], '.')}"
        return sentence(N_("; if it is more than a thousand, set {setting}"), setting=setting)
    if marks:
        return sentence(N_("; it has {marks} next to the number: write numbers alone"), marks=_named(marks))
    if WORD.fullmatch(text):
        setting = f"demand.closed_values: {json.dumps([text], ensure_ascii=False)}"
        return sentence(N_("; if it is a word for closed days, set {setting}"), setting=setting)
    return ""


def _keys(thousands: str | None, decimal: str) -> str:
    # JSON quotes make unusual blanks visible
    parts = [f"thousands: {json.dumps(thousands)}"] if thousands else []
    parts += [f'decimal: "{decimal}"'] if decimal != "." else []
    return joined(parts, N_(" and ")) or ""


def _would_read(setting: str, share: float) -> str:
    """Effect of a source setting, by the share of the values that it reads."""
    return sentence(N_("demand.source.{setting} would read {which}"), setting=setting, which=_of_them(share))


def _of_them(share: float) -> str:
    return as_sentence(N_("all of them")) if share == 1 else sentence(N_("{share} of them"), share=amount(share, ".0%"))
