"""Sentences on data freshness and cold starts next to a forecast: stale readings, depots unknown to
the model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from forecaster.config import Spec
from forecaster.core.arrays import Bools
from forecaster.core.language import N_
from forecaster.core.language.sentences import Sentence, and_more, counted, joined, sentence
from forecaster.core.panel import Panel
from forecaster.demand.validation import network_shape
from forecaster.errors import StaleHistory
from forecaster.ledger.records import Head
from forecaster.ledger.store import Ledger
from forecaster.planning.overrides import Cell, as_of_day

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from forecaster.staffing.shift_values import ShiftShares

MOST_NAMED = 10  # depots
# Full text and text for readers, each for one depot and for several.
COLD = (
    (
        N_("Depot {depots} is a cold start: the model was not trained on it."),
        N_("Depots {depots} are cold starts: the model was not trained on them."),
    ),
    (
        N_("Depot {depots} is new to the model; its forecast is based on similar depots."),
        N_("Depots {depots} are new to the model; their forecasts are based on similar depots."),
    ),
)
STRANGERS = (
    (
        N_(
            "Depot {depots} got the seasonal naive forecast: the model was not trained on it, and no static attribute "
            "is known."
        ),
        N_(
            "Depots {depots} got the seasonal naive forecast: the model was not trained on them, and no static "
            "attribute is known."
        ),
    ),
    (
        N_("Depot {depots}: the numbers repeat the same weekdays of earlier weeks; the model does not know it."),
        N_("Depots {depots}: the numbers repeat the same weekdays of earlier weeks; the model does not know them."),
    ),
)
TOTALS = (
    N_("Depot {depots} is the sum of other depots, so totals of all depots count its orders more than once."),
    N_("Depots {depots} are sums of other depots, so totals of all depots count their orders more than once."),
)
MAX_NAMED = 5  # depots
ARCHIVE_DAYS = 60  # days without any reading after which the data are an archive, instead of a late feed


@dataclass(frozen=True)
class Note:
    """Note on a forecast: full text for operators, and a sentence for readers."""

    text: str
    for_readers: str


def notes(sentences: Iterable[str]) -> list[Note]:
    """Notes with the same text for operators and readers."""
    return [Note(sentence, sentence) for sentence in sentences]


def shift_shares(learned: ShiftShares | None) -> list[str]:
    """Sentence if shares of shifts should be learned but no time of day is known."""
    if learned is None or learned.known:
        return []
    return [sentence(N_("No order times are known yet, so shifts share the day by their hours."))]


@dataclass(frozen=True)
class Newcomers:
    """Depots of a panel that a bundle was not trained on."""

    cold: tuple[str, ...]  # forecast from their static attributes and known values
    # no static attribute is known either, so the bundle cannot forecast them
    strangers: tuple[str, ...]
    rows: Bools  # (depots,) mask of these in the panel

    def notes(self) -> list[Note]:
        """Notes on new depots; none if the model was trained on every depot."""
        return [
            Note(*(sentence(template[len(depots) > 1], depots=_list_depots(depots)) for template in templates))
            for depots, templates in ((self.cold, COLD), (self.strangers, STRANGERS))
            if depots
        ]


def newcomers(panel: Panel, trained_on: Collection[str], statics: Collection[str]) -> Newcomers:
    """Cold-start depots, on which a model was not trained. If it uses no static attributes, it can
    forecast all of them."""
    trained = set(trained_on)
    new = np.array([depot not in trained for depot in panel.depot_ids], bool)
    blank = np.zeros(len(new), bool)
    if statics:
        columns = [panel.attributes.get(name, ("",) * len(new)) for name in statics]
        blank = np.array([not any(words_of_depot) for words_of_depot in zip(*columns, strict=True)], bool)
    ids = np.asarray(panel.depot_ids, object)
    return Newcomers(tuple(ids[new & ~blank]), tuple(ids[new & blank]), new & blank)


def refuse_stale(panel: Panel, spec: Spec, as_of: datetime) -> None:
    """Raises StaleHistory if the newest reading of all depots is older than
    `demand.rules.max_age_days`."""
    limit, age = spec.demand.rules.max_age_days, _age(panel.cutoff, spec, as_of)
    if limit is not None and age > limit:
        last = int(np.argmax(np.isfinite(panel.demand[:, -1])))
        template = N_(
            "the last reading is that of depot '{depot}' on {day}, {days} before the last complete day; wanted at "
            "most {limit} (demand.rules.max_age_days)"
        )
        depot, day = panel.depot_ids[last], panel.cutoff
        raise StaleHistory(sentence(template, depot=depot, day=day, days=_days(age), limit=limit))


def stale_feed(cutoff: date, spec: Spec, as_of: datetime) -> list[Note]:
    """Note if the feed has stopped: its newest reading, of the day `cutoff`, is older than
    `demand.rules.late_days`."""
    age, limit = _age(cutoff, spec, as_of), spec.demand.rules.late_days
    if age <= limit:
        return []
    over = sentence(N_("All forecast days are over.")) if age >= spec.horizon else ""
    values = {"day": cutoff, "days": _days(age)}
    late = N_(
        "The newest reading is of {day}, {days} before the last complete day; wanted at most {limit} "
        "(demand.rules.late_days)."
    )
    for_readers = N_("The newest reading is of {day}, {days} before the last complete day.")
    texts = (sentence(late, **values, limit=limit), sentence(for_readers, **values))
    return [Note(*(joined([text, over], " ") or "" for text in texts))]


def outdated_by(spec: Spec, cutoff: date, as_of: datetime) -> Head | None:
    """Publication that stays, because all days of the new forecast are already over and those of
    the shown one were not at its time: the clock may be wrong, or the feed has stopped. Raises
    LedgerError."""
    if (as_of.astimezone(spec.zone).date() - cutoff).days <= spec.horizon:
        return None
    with Ledger.open(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
    return head if head is not None and (as_of_day(head) - head.cutoff).days <= head.horizon else None


def outdated(head: Head) -> str:
    """Note on a forecast that does not replace a publication."""
    template = N_(
        "all days of the new forecast are over, and publication {id} stays: look at the clock and at the newest reading"
    )
    return sentence(template, id=head.publication_id)


def decisions_elsewhere(decided: Iterable[Cell], panel: Panel) -> Sentence | None:
    """Sentence about planners' decisions for days ahead at depots that are not forecast, as after a
    change of their id; None if there are none."""
    depots = sorted({depot for depot, day in decided if day > panel.cutoff} - {*panel.depot_ids})
    if not depots:
        return None
    template = N_(
        "orders and crews set for days ahead at {depots} have no effect, since these depots are not forecast; if their "
        "ids have changed, set them again under the new ids"
    )
    return sentence(template, depots=and_more(depots[:MOST_NAMED], len(depots) - MOST_NAMED))


def newer(head: Head, zone: ZoneInfo) -> str:
    """Remark on a forecast as of an earlier time, which is kept behind the shown publication."""
    template = N_(
        "Publication {id} stays on the page, because its date, {instant}, is later (--replace shows the new one)."
    )
    return sentence(template, id=head.publication_id, instant=f"{head.as_of.astimezone(zone):%Y-%m-%d %H:%M}")


def archive(panel: Panel, spec: Spec, as_of: datetime) -> list[str]:
    """Sentence on how to forecast as of an earlier time, if the newest reading is long past."""
    newest = panel.cutoff
    if not is_archive(newest, as_of.astimezone(spec.zone).date()):
        return []
    first = what_an_archive_lacks(spec)
    return [
        f"For an archive, {first + ', then ' if first else ''}type --as-of {newest + timedelta(days=1)} behind the "
        "pipeline file's name (forecaster check, forecaster run)."
    ]


def is_archive(newest: date, today: date) -> bool:
    """Return true if the newest reading is so old that the data are an archive, instead of a late
    feed."""
    return (today - newest).days > ARCHIVE_DAYS


def what_an_archive_lacks(spec: Spec) -> str:
    """Setting without which no count of an archive is known before its arrival; empty if it is set."""
    is_known = spec.demand.recorded == "next_day" or spec.demand.columns.recorded_at is not None
    return "" if is_known else "set demand.recorded: next_day"


def silent_depots(panel: Panel, spec: Spec) -> list[str]:
    """Freshness of single depots: a sentence on those in business whose last reading is older than
    allowed."""
    return said_of_late(*late_depots(panel, spec), spec)


def totals_among_depots(panel: Panel) -> list[str]:
    """Sentence on depots that are the sum of others, found by the rule `total_row`; totals of the
    network and of cities include them."""
    depots = tuple(panel.depot_ids[row] for row in network_shape.totals(panel.demand))
    return [sentence(TOTALS[len(depots) > 1], depots=_list_depots(depots))] if depots else []


def late_depots(panel: Panel, spec: Spec) -> tuple[Sequence[str], int]:
    """Names and last days of the first depots in business whose last reading is older than allowed,
    and their number."""
    limit = spec.demand.rules.max_age_days
    if limit is None:
        return [], 0
    reported = np.isfinite(panel.demand[:, -limit - 1 :]).any(axis=1)
    business = panel.open[:, panel.history - 1 :].any(axis=1)
    late = np.flatnonzero(business & ~reported & np.isfinite(panel.demand).any(axis=1))
    depots = [
        sentence(N_("{depot} ({day})"), depot=panel.depot_ids[row], day=_last_reading(panel, row))
        for row in late[:MAX_NAMED]
    ]
    return depots, len(late)


def said_of_late(depots: Sequence[str], count: int, spec: Spec) -> list[str]:
    """Sentence on `count` late depots, the first of them named; none if there are none."""
    limit = spec.demand.rules.max_age_days
    if limit is None or not count:
        return []
    template = N_("{depots}: the last reading is more than {days} older than the cutoff.")
    return [sentence(template, depots=and_more(depots, count - MAX_NAMED), days=_days(limit))]


def _age(cutoff: date, spec: Spec, as_of: datetime) -> int:
    """Days from the cutoff to the last completed day."""
    return (as_of.astimezone(spec.zone).date() - timedelta(days=1) - cutoff).days


def _last_reading(panel: Panel, row: int) -> date:
    day: date = panel.days[np.flatnonzero(np.isfinite(panel.demand[row]))[-1]].astype(object)
    return day


def _list_depots(depots: tuple[str, ...]) -> str:
    return and_more(depots[:MAX_NAMED], len(depots) - MAX_NAMED)


def _days(number: int) -> str:
    return counted(number, "{n} day", "{n} days")
