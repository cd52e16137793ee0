"""Validation of events against depots and readings: kinds that nothing uses, places without a
depot, and closures without an end.

Events outside the history and the days ahead are ignored.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from forecaster.config import Spec, data_rules
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.near_words import did_you_mean, fold, nearest_word, plain
from forecaster.core.language.sentences import and_more, joined, restored, sentence, stored
from forecaster.demand import sources
from forecaster.demand.panel.event_scope import ADDRESS, EventScope, addresses, event_scope
from forecaster.demand.panel.opening_days import CLOSURE
from forecaster.demand.validation.known_days import KnownDays
from forecaster.demand.validation.reference_tables import AnnouncedRows, RowFindings
from forecaster.lake import Lake

_NAMED = 5  # closures named in a finding
_SHOWN = 60  # characters of a kind in a message
_CLOSED = """
closed close closing closes shut shutdown shuttered dayoff off geschlossen schliessung schliesstag ruhetag zu dicht
betriebsferien cerrado cerrada cierre ferme fermee fermeture chiuso chiusa chiusura gesloten sluiting dichte fechado
fechada fechamento encerrado encerramento stangt stangd lukket suljettu zamkniete zamkniety zamkniecie zavreno uzavreno
kapali закрыто закрытие закрыт 休業 休業日 定休日 关闭 闭店 關閉 휴무 휴업
"""  # words for it in plain letters

# words for shortened days, in plain letters
_IN_PART = "early earlier late later half part partial partly short shorter reduced fruher halb temprano medio tot demi"


@dataclass(frozen=True)
class Period:
    """Relevant days: those of the history, and those ahead."""

    first: np.datetime64
    last: np.datetime64  # last day ahead


def period(accepted: pd.DataFrame, known_days: KnownDays, spec: Spec, now: datetime) -> Period:
    """Days of a batch and known ones next to it, and the days ahead of the newest day that is over."""
    over = np.datetime64(now.astimezone(spec.zone).date(), "D") - np.timedelta64(1, "D")
    batch_days = accepted["day"].agg(["min", "max"]).to_numpy() if len(accepted) else np.zeros(0, np.int32)
    days = np.concatenate([known_days.days, batch_days]).astype(np.int64).view("datetime64[D]")
    newest = min(days.max(), over) if len(days) else over
    return Period(days.min() if len(days) else over, newest + spec.horizon)


def depots_concerned(
    depots: pd.DataFrame | None, announced: AnnouncedRows, accepted: pd.DataFrame, lake: Lake
) -> pd.DataFrame:
    """Depots that an event may concern: those of the depots source, else those of the readings."""
    if depots is not None:
        return depots
    ids = set(accepted["depot_id"].cat.categories)
    # read the lake only if a name is missing: it may be large
    if not ids.issuperset(announced.table["depot_id"].dropna()):
        ids |= set(pc.unique(lake.read("demand", columns=["depot_id"], codes=True)["depot_id"]).to_pylist())
    return pd.DataFrame({"depot_id": sorted(ids)}, dtype="str")


def event_findings(
    announced: AnnouncedRows, depots: pd.DataFrame, former: Collection[str], period: Period, spec: Spec
) -> list[Finding]:
    """Findings about the events of a period; `depots` have a depot_id and the known attributes,
    `former` holds ids that are aliases."""
    table = announced.table
    is_near = (table["date"] <= pd.Timestamp(period.last)) & (table["until"] >= pd.Timestamp(period.first))
    near = AnnouncedRows(announced.written[is_near], table[is_near])
    findings: list[Finding] = []
    if near.table.empty:
        return findings
    _find_unused_kinds(near, spec, RowFindings(spec, findings))
    if len(depots):
        scope = event_scope(depots, spec)
        _find_unmatched_places(near, scope, former, spec, RowFindings(spec, findings))
        findings += _long_closures(near, scope, former, period, spec)
    return findings


def _find_unused_kinds(near: AnnouncedRows, spec: Spec, row_findings: RowFindings) -> None:
    """Report kinds that are neither a closure nor a covariate: one finding per kind that was
    probably meant, and one for the others."""
    assert spec.calendar.events is not None
    used = (CLOSURE, *spec.calendar.known_future)
    kinds = near.table["kind"]
    unused = [kind for kind in kinds.unique() if fold(kind) not in set(map(fold, used))]
    likely_kinds = {kind: _kind_meant(kind, used) or "" for kind in unused}
    for word in sorted(set(likely_kinds.values()), key=lambda word: (word == "", word)):
        rows = near.written[kinds.map(likely_kinds).to_numpy() == word]
        template = N_("{kinds} or another kind that calendar.known_future names{hint}")
        key = f"; calendar.known_future: [{kinds[kinds.map(likely_kinds) == word].iloc[0][:_SHOWN]}]"
        requirement = sentence(template, kinds=", ".join(used), hint=_asked(did_you_mean(word) or key))
        row_findings("event_kind", rows, spec.calendar.events.columns.kind, requirement, N_("it changes no forecast"))


def _kind_meant(kind: str, used: Iterable[str]) -> str | None:
    tokens = {plain(kind), *map(plain, fold(kind[:200]).replace("_", " ").replace("-", " ").split())}
    is_closed = bool(tokens & set(map(plain, _CLOSED.split()))) and not tokens & set(_IN_PART.split())
    return nearest_word(kind, used) or (CLOSURE if is_closed else None)


def _find_unmatched_places(
    near: AnnouncedRows, scope: EventScope, former: Collection[str], spec: Spec, row_findings: RowFindings
) -> None:
    """Report events whose address matches no depot, by the first part of it that matches none
    alone."""
    assert spec.calendar.events is not None
    columns, address = spec.calendar.events.columns, _current(near.table, former)
    group = address.groupby(list(ADDRESS), sort=False).ngroup()
    culprits = [_culprit(place, scope) for place in address.drop_duplicates().itertuples(index=False, name=None)]
    culprit = group.map(dict(enumerate(culprits)))
    for name in ADDRESS:
        unmatched = near.written[culprit == name]
        if unmatched.empty:
            continue
        template = (
            N_("a {name} of the depots source{hint}") if spec.depots else N_("a {name} of the demand source{hint}")
        )
        hint = _asked(_place_hint(address[name][culprit == name].iloc[0], name, scope, former))
        requirement = sentence(template, name=name, hint=hint)
        row_findings("event_place", unmatched, getattr(columns, name), requirement, N_("it concerns no depot"))


def _place_hint(word: str, name: str, scope: EventScope, former: Collection[str]) -> str:
    places = [place for place in scope.homes[name].unique() if place] + (list(former) if name == "depot_id" else [])
    if not places:
        return sentence(N_("; no depot has a {name}: it is an attribute of depots.static"), name=name)
    match = nearest_word(word, places)
    if match and unicodedata.normalize("NFC", match) == unicodedata.normalize("NFC", word) and match != word:
        return sentence(N_("; it differs from '{name}' only in its Unicode form"), name=match)
    # it is right, and part of another depot's address
    return did_you_mean(match if match != word else None)


def _asked(hint: str) -> str:
    """Hint in parentheses; in other languages, too, it follows a semicolon."""
    return restored(stored(hint), f" ({hint.removeprefix('; ')})") if hint else ""


def _culprit(address: tuple[str, ...], scope: EventScope) -> str:
    """Column of an address that matches no depot; "" if a depot matches the whole address."""
    if len(scope.rows(address)):
        return ""
    alone = [
        tuple(word if name == column else "" for column, word in zip(ADDRESS, address, strict=True)) for name in ADDRESS
    ]
    stated = [(name, single) for name, single, word in zip(ADDRESS, alone, address, strict=True) if word]
    return next((name for name, single in stated if not len(scope.rows(single))), stated[0][0])


def _long_closures(
    near: AnnouncedRows, scope: EventScope, former: Collection[str], period: Period, spec: Spec
) -> list[Finding]:
    """Finding about depots that are closed on the last day ahead and later, the longest closure
    first."""
    table = near.table
    is_long = (table["kind"].map(fold) == fold(CLOSURE)) & (table["until"] > pd.Timestamp(period.last))
    table = table[is_long].sort_values("until", ascending=False, kind="stable")
    address = _current(table, former)
    concerns = [bool(len(scope.rows(place))) for place in address.itertuples(index=False, name=None)]
    table, address = table[concerns], address[concerns]
    if table.empty:
        return []
    every, until = sentence(N_("every depot")), N_("{depot} closed until {day}")
    places = [joined(place, N_(" in ")) or every for place in address.itertuples(index=False, name=None)]
    ends = [sentence(until, depot=name, day=day.date()) for name, day in zip(places, table["until"], strict=True)]
    first = near.written.loc[table.index[0]]
    values = {"place": f"{first[sources.FILE]}:{first[sources.ROW]}", "closure": ends[0]}
    values |= {"day": period.last.astype(object), "wanted": data_rules.requirement("long_closure")}
    message = sentence(N_("{place}: found {closure}, after {day}, the last day ahead; wanted {wanted}"), **values)
    if len(ends) > 1:
        several = N_("{place}: found {closure}, after {day}, the last day ahead; also {others}; wanted {wanted}")
        message = sentence(several, **values, others=and_more(ends[1:_NAMED], len(ends) - _NAMED))
    severity = data_rules.severity("long_closure", spec.demand.rules.severity)
    return [Finding("long_closure", severity, len(table), message)]


def _current(table: pd.DataFrame, former: Collection[str]) -> pd.DataFrame:
    """Addresses of events; former ids, whose depot is known, count as matching every depot here."""
    address = addresses(table)
    return address.assign(depot_id=address["depot_id"].where(~address["depot_id"].isin(list(former)), ""))
