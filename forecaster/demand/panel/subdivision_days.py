"""Omitted holidays: days on which the subdivisions of a country differ, if no subdivision is
declared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

import holidays
import pandas as pd

from forecaster.config import Spec
from forecaster.core.arrays import Days
from forecaster.core.language.near_words import plain
from forecaster.core.panel import Panel
from forecaster.demand.panel.calendar import holiday_names
from forecaster.demand.panel.event_scope import event_scope

MOST_DAYS = 800  # newest days of a panel on which subdivisions are compared
_HOLIDAYS = re.compile(r"^(?!.*(school|schul)).*(holiday|feiertag|ferie|festivo|feriado)")
MOST_NAMED = 8  # subdivisions in a sentence


def left_out_holidays(panel: Panel, spec: Spec) -> list[str]:
    """One sentence per country whose subdivisions have their own holidays on the panel's days, and
    for which depots declare no subdivision: only national holidays count for them."""
    if not spec.calendar.holidays or any(_HOLIDAYS.search(plain(name)) for name in spec.calendar.known_future):
        return []  # with a covariate of holidays the source itself states the days
    homes = event_scope(pd.DataFrame({**panel.attributes, "depot_id": panel.depot_ids}), spec).homes
    depots = homes[(homes["country"] != "") & (homes["subdivision"] == "")]["country"].value_counts()
    days = panel.days[-MOST_DAYS:]
    return [sentence for country, number in depots.items() if (sentence := _left_out(str(country), int(number), days))]


def _left_out(country: str, depots: int, days: Days) -> str | None:
    names = holiday_names(days, country, None)
    # name of the day, and the subdivisions that observe it
    differing: dict[date, tuple[str, list[str]]] = {}
    concerned = []
    for subdivision in holidays.list_supported_countries(include_aliases=True)[country]:
        of_its_own = holiday_names(days, country, subdivision)
        if added := of_its_own.keys() - names.keys():
            concerned.append(subdivision)
        for day in added:
            differing.setdefault(day, (of_its_own[day], []))[1].append(subdivision)
    if not concerned:
        return None
    day = max(differing, key=lambda day: (len(differing[day][1]), day))
    name, where = differing[day]
    return (
        f"{country} has holidays by subdivision ({_list(concerned)}), and none is declared for {_counted(depots)}: "
        f"{len(differing):,} days of these data are holidays in some of them alone, such as {day} ({name}: "
        f"{_list(where)}), and count as ordinary ones. Set calendar.subdivision, or name a column subdivision in "
        "depots.static."
    )


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _counted(depots: int) -> str:
    return f"{depots:,} depot{'s' if depots > 1 else ''}"
