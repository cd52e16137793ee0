"""Depot ids that differ only in ways that do not distinguish depots: case, blanks, Unicode form,
leading zeros, kinds of dashes; and former ids that still have counts next to their current depots."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from forecaster.config import Spec
from forecaster.core.arrays import Bools
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import as_sentence, counted, joined, sentence
from forecaster.demand.history import aliases
from forecaster.demand.parsing import LONGEST
from forecaster.demand.validation.feed_shape import PLACES, batch_finding

if TYPE_CHECKING:
    from forecaster.demand.validation.history_checks import CountGrid

_DASHES = re.compile(r"[\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d_]")
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u2060\ufeff]")
_BETWEEN_DIGITS = re.compile(r"(?<=\d) +(?=\d)")
_WHOLE = re.compile(r"(\d+)\.0+")
_IN_FRONT = re.compile(r"(?<![\d.,])0+(?=\d)")


def _unicode_form(depot: str) -> str:
    return re.sub(r"\S+", lambda word: unicodedata.normalize("NFKC", word[0]), depot)


def _blanks(depot: str) -> str:
    """Remove blanks, except between digits, where they distinguish numbers."""
    text = " ".join(_INVISIBLE.sub("", depot).split())
    return _BETWEEN_DIGITS.sub("\0", text).replace(" ", "").replace("\0", " ")


def _zeros(depot: str) -> str:
    match = _WHOLE.fullmatch(depot.strip())
    return _IN_FRONT.sub("", match[1] if match else depot)


_FORMS: Mapping[str, Callable[[str], str]] = {
    N_("Unicode form"): _unicode_form,
    N_("upper and lower case"): str.casefold,
    N_("dashes"): lambda depot: _DASHES.sub("-", depot),
    N_("blanks"): _blanks,
    N_("zeros in front or a decimal point"): _zeros,
}


def key(depot: str, without: str | None = None) -> str:
    """Id without all differences that never distinguish depots, except one kind."""
    for name, form in _FORMS.items():
        depot = depot if name == without else form(depot)
    return depot


def pairs(depots: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Ids paired with the next one that differs only in ways that do not distinguish depots."""
    ids = pd.Series(depots if isinstance(depots, pd.Index) else [*depots], dtype="str")
    keys = _keys(ids)
    is_shared = keys.duplicated(keep=False)
    for _, alike in ids[is_shared].groupby(keys[is_shared], sort=False):
        yield from pairwise(alike.tolist())


def _keys(depots: pd.Series[str]) -> pd.Series[str]:
    """`key` of each id. Nearly all ids are plain (ASCII without blanks): three of the rules do not
    apply to them, and the others are applied to a million at once."""
    is_plain = depots.str.fullmatch("[!-~]*").astype(bool)
    keys = depots[is_plain].str.lower().str.replace("_", "-", regex=False)
    keys = keys.str.replace(r"^([0-9]+)\.0+$", r"\1", regex=True)
    keys = keys.str.replace(r"(^|[^0-9.,])0+([0-9])", r"\1\2", regex=True)
    if is_plain.all():
        return keys
    other_ids = depots[~is_plain]
    return pd.concat([keys, pd.Series([key(depot) for depot in other_ids], other_ids.index, "str")]).sort_index()


def difference(first: str, second: str) -> str:
    """Kinds of difference between two ids with the same key."""
    kinds = [name for name in _FORMS if key(first, name) != key(second, name)]
    if not kinds:
        return sentence(N_("only in notation"))
    listed = joined((as_sentence(kind) for kind in kinds), N_(" and ")) or ""
    return sentence(N_("only in {kinds}"), kinds=listed)


def findings(grid: CountGrid, former: pd.DataFrame | None, spec: Spec) -> list[Finding]:
    """Finding about depots with new counts whose ids are spelling variants of other depots with
    counts.

    `former` are aliases: ids that already are one depot are not reported.
    """
    depots = grid.depots[~np.isnan(np.fmax.reduce(grid.counts, axis=1))]
    current: Mapping[str, str] = {}
    if former is not None:
        current = dict(zip(depots, aliases.current(pd.Series(depots, dtype="str"), former), strict=True))
    details, places = list[str](), list[tuple[str, str]]()
    alike = [*pairs(depots)]
    names = pd.Index([*{depot for pair in alike for depot in pair}], dtype="str")
    row_of = dict(zip(names, grid.depots.get_indexer(names).tolist(), strict=True))
    has_count = {depot: ~np.isnan(grid.counts[row]) for depot, row in row_of.items()}
    for pair in alike:
        old, new = sorted(pair, key=lambda depot: (_first(has_count[depot]), depot))
        rows = [row_of[old], row_of[new]]
        if grid.fresh[rows].any() and current.get(old, old) != current.get(new, new):
            details.append(_detail(old, new, grid, has_count[old], has_count[new]))
            places.append((new, grid.day(_last(has_count[new]))))
    if not details:
        return []
    return [batch_finding("similar_id", len(details), details[0], "", spec, tuple(places[:PLACES]))]


def counts_left_out(grid: CountGrid, former: pd.DataFrame | None, spec: Spec) -> list[Finding]:
    """Finding about former ids with new counts that `aliases.apply` ignores in favor of their
    depots' own counts.

    `former` are aliases, as in `findings`.
    """
    if former is None or former.empty:
        return []
    rows = [grid.depots.get_indexer(pd.Index(former[name])) for name in ("alias", "depot_id")]
    several = former["depot_id"].duplicated(keep=False).to_numpy()
    details, places = list[str](), list[tuple[str, str]]()
    for old, new, is_one_of_several in zip(*(part.tolist() for part in (*rows, several)), strict=True):
        if min(old, new) < 0:
            continue
        has_own = ~np.isnan(grid.counts[new])
        left_out = (grid.counts[old] > 0) & (np.maximum.accumulate(has_own) if is_one_of_several else has_own)
        if (left_out & (grid.fresh[old] | grid.fresh[new])).any():
            days, last = int(np.count_nonzero(left_out)), int(np.flatnonzero(left_out)[-1])
            values: dict[str, object] = {"depot": repr(str(grid.depots[new])), "former": repr(str(grid.depots[old]))}
            values |= {"days": counted(days, "{n} day", "{n} days"), "day": date.fromisoformat(grid.day(last))}
            template = N_(
                "depot {depot}: found counts of its former id {former} on {days}, the last on {day}; its own counts "
                "take precedence"
            )
            details.append(sentence(template, **values))
            places.append((str(grid.depots[old]), grid.day(last)))
    if not details:
        return []
    return [batch_finding("alias_counts", len(details), details[0], "", spec, tuple(places[:PLACES]))]


def _detail(old: str, new: str, grid: CountGrid, has_old: Bools, has_new: Bools) -> str:
    both = int(np.count_nonzero(has_old & has_new))
    last, first = _last(has_old), _first(has_new)
    if last < first:
        template = N_("depot {depot}: found since {first}, which differs from {other}, silent since {last}, {how}")
        days = {"first": date.fromisoformat(grid.day(first)), "last": date.fromisoformat(grid.day(last))}
        return sentence(template, depot=repr(new), other=repr(old), **days, how=difference(old, new))
    template = N_("depot {depot}: found next to {other}, which has counts on {n} of the same days and differs {how}")
    return sentence(template, depot=repr(new), other=repr(old), n=both, how=difference(old, new))


def _first(has_count: Bools) -> int:
    return int(np.argmax(has_count))


def _last(has_count: Bools) -> int:
    return len(has_count) - 1 - int(np.argmax(has_count[::-1]))


def same(depot: str, depots: Collection[str]) -> str | None:
    """Depot among these whose id is a spelling variant; None if there is none."""
    depot_key = key(depot)
    return next((other for other in depots if other != depot and key(other) == depot_key), None)


class NearestDepot:
    """Hint with the nearest known depot, only for the first few unknown ones: the search is slow."""

    def __init__(self, depots: Iterable[str], most: int = 20) -> None:
        self.depots, self.searches_left = sorted(depots), most
        self.hints: dict[str, str] = {}

    def __call__(self, depot: str) -> str:
        if depot not in self.hints:
            self.searches_left -= 1
            close = []
            if self.searches_left >= 0:
                alike = same(depot, self.depots)
                close = [alike] if alike else difflib.get_close_matches(depot[:LONGEST], self.depots, n=1)
            self.hints[depot] = sentence(N_("; did you mean '{name}'?"), name=close[0]) if close else ""
        return self.hints[depot]
