"""Pipeline file written from guesses, with a reason next to each key."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z_./][\w./-]*")
_MARGIN = 34  # columns before a reason, if the key leaves room
_WIDTH = 120


@dataclass(frozen=True)
class Draft:
    """Content of a future pipeline file; each value with its reason."""

    name: str
    files: tuple[str, ...]  # as named by the user
    source: tuple[tuple[str, Any, str], ...]  # key, value, reason
    columns: tuple[tuple[str, Any, str], ...]
    time_zone: tuple[str, str]
    country: tuple[str | None, str]
    aggregate: tuple[str, str]
    recorded: tuple[str, str]
    demand: tuple[tuple[str, Any, str], ...] = ()  # additional keys of the section: key, value, reason
    static: tuple[str, ...] = ()
    # source of depots, if it is another file
    depots: tuple[tuple[str, Any, str], ...] | None = None
    depots_id: str = ""
    # additional columns of that file: key, value, reason
    depots_columns: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()  # observations without a key of their own
    known_future: tuple[str, ...] = ()  # columns that may be known ahead
    staffing: Mapping[str, Any] | None = None
    starts_from_prior: bool = False
    made_on: date = field(default_factory=date.today)


def text(draft: Draft) -> str:
    """Text of the file."""
    lines = [
        f"# Written by `forecaster init --from` on {draft.made_on} from {', '.join(draft.files)}.",
        "# These values were detected in the data; each has its reason next to it. Change what is wrong, then run",
        "# `forecaster check` again. Relative paths start at this file; docs/pipeline-file.md has every key.",
        "",
        _line(0, "name", draft.name, "names runs, models and pages"),
        _line(0, "timezone", *draft.time_zone),
        _line(0, "horizon", 7, "days ahead"),
        "",
        "demand:",
        "  source:",
        *(_line(4, *entry) for entry in draft.source),
        *(["  columns:"] if draft.columns else []),
        *(_line(4, *entry) for entry in draft.columns),
        _line(2, "aggregate", *draft.aggregate),
        *(_line(2, *entry) for entry in draft.demand),
        _line(2, "recorded", *draft.recorded),
        *(line for note in draft.notes for line in _note(note)),
        *_depots(draft),
        "",
        *_calendar(draft),
        "",
        *_training(draft),
        "# Staffing: set these to your own numbers, or leave them out to forecast only orders.",
        f"staffing: {_value(draft.staffing)}"
        if draft.staffing
        else "# staffing: {orders_per_driver: 90, cost_short: 38, cost_idle: 22}",
    ]
    return "\n".join(lines) + "\n"


def _note(note: str) -> list[str]:
    return textwrap.wrap(note, _WIDTH, initial_indent="  # ", subsequent_indent="  #   ", break_on_hyphens=False)


def _depots(draft: Draft) -> list[str]:
    source = draft.depots or (draft.source if draft.static else None)
    if source is None:
        return []
    why = "columns with one value per depot" if draft.static else ""
    return [
        "",
        "depots:",
        "  source:",
        *(_line(4, key, value, reason if draft.depots else "") for key, value, reason in source),
        "  columns:",
        _line(4, "depot_id", draft.depots_id, ""),
        *(_line(4, *entry) for entry in draft.depots_columns),
        *([_line(2, "static", list(draft.static), why)] if draft.static else []),
    ]


def _calendar(draft: Draft) -> list[str]:
    country, why = draft.country
    future = [
        f"  # known_future: {_value(list(draft.known_future))}",
        "  # ^ columns next to the counts: name those with known values for future days; rows of such days have an",
        "  #   empty count. Do not name columns that are known only afterwards, such as observed weather.",
    ]
    if country is None:
        return [
            "calendar:",
            _line(2, "holidays", True, ""),
            f"  # country: DE   # {why}",
            *future * bool(draft.known_future),
        ]
    return ["calendar:", _line(2, "country", country, why), *future * bool(draft.known_future)]


def _training(draft: Draft) -> list[str]:
    why = "a pretrained model forecasts within seconds, until the first model is ready"
    return ["training:", _line(2, "start", "prior", why), ""] if draft.starts_from_prior else []


def _line(indent: int, key: str, value: Any, reason: str) -> str:
    """Key with its value, and its reason after it, or above it if both are long."""
    entry = f"{' ' * indent}{_value(key)}: {_value(value)}"
    if not reason:
        return entry
    behind = f"{entry:<{_MARGIN}}  # {reason}"
    return behind if len(behind) <= _WIDTH else f"{' ' * indent}# {reason}\n{entry}"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_value(key)}: {_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = str(value)
    return text if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text else json.dumps(text, ensure_ascii=False)
