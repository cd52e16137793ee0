"""Rejects an events source with an unread column that probably states the end or the place of an
event: without it, the event would last one day or concern every depot."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import pandas as pd

from forecaster.config.demand import Events
from forecaster.core.language.near_words import plain
from forecaster.demand import parsing, sources
from forecaster.errors import SourceError

# optional keys of `calendar.events.columns`, and synonyms of their names in plain letters
WORDS: Mapping[str, str] = {
    "depot_id": "depot store shop site branch location outlet filiale standort tienda sucursal magasin",
    "city": "town stadt ort ciudad ville",
    "subdivision": "state province region county bundesland provincia",
    "country": "nation land pais pays",
    "until": "end enddate endday dateend to todate dateto untildate through lastday bis ende enddatum hasta fin",
}
_NUMBER_OR_NAME = re.compile("(ids?|nr|no|number|code|name)$")  # as in store_id and Filialnr


def refuse_unread(rows: pd.DataFrame, events: Events, depot_ids: Collection[str]) -> None:
    """Raise SourceError if an optional column is missing and an unread column has a synonym of its
    name or, in place of a column of depots, contains mainly `depot_ids`.

    `rows` contain all columns of the source.
    """
    keys = {key: getattr(events.columns, key) for key in type(events.columns).model_fields}
    unread = [name for name in rows.columns if name not in {*keys.values(), sources.ROW, sources.FAULT, sources.FILE}]
    # numbers may also mean something else
    ids = [depot_id for depot_id in depot_ids if not depot_id.isdecimal()]
    for key, words in WORDS.items():
        if keys[key] is None or keys[key] in rows:
            continue
        for name in unread:
            has_ids = key == "depot_id" and _are_mainly(rows[name], ids)
            if has_ids or {plain(name), _NUMBER_OR_NAME.sub("", plain(name))} & {*words.split()}:
                raise SourceError(
                    f"{sources.name(events.source)}: found column '{name}'{' of depot ids' * has_ids}, which is not "
                    f"read; wanted '{keys[key]}', or calendar.events.columns.{key}: {name} (null if the column is "
                    "something else)"
                )


def _are_mainly(column: pd.Series, ids: Collection[str]) -> bool:
    """True if more than half of the nonempty cells contain one of these ids."""
    texts = parsing.words(column)
    texts = texts[texts != ""]
    return bool(2 * texts.isin(ids).sum() > len(texts))
