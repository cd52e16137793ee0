"""Define the data validation rules by name: the requirement of each, and its severity (quarantine,
warn or stop).

Some rules apply to a row alone, others to a row and its depot's history, others to a whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, Literal

from forecaster.core.language import N_
from forecaster.core.language.sentences import Sentence, amount, sentence

Severity = Literal["quarantine", "warn", "stop"]
"""Quarantine the row; accept the row and report it; or quarantine the whole batch."""


@dataclass(frozen=True)
class Rule:
    """A data validation rule: its requirement, and the severity of breaking it."""

    severity: Severity
    wanted: str  # requirement; `{…}` is filled in
    may: tuple[Severity, ...]  # severities that the pipeline file may declare
    releasable: bool = False  # True if a person may accept a quarantined row unchanged


# unreadable or duplicate rows cannot be accepted
_FORM: tuple[Severity, ...] = ("quarantine", "stop")
_ANY: tuple[Severity, ...] = ("quarantine", "warn", "stop")
_REPORT: tuple[Severity, ...] = ("warn", "stop")
_NOTE: tuple[Severity, ...] = ("warn",)  # checked after ingestion, when there is no batch to stop

OF_ROWS: Mapping[str, Rule] = {
    "row_form": Rule("quarantine", N_("as many fields as the header has"), _FORM),
    "depot_missing": Rule("quarantine", N_("a depot id"), _FORM),
    "depot_form": Rule(
        "quarantine", N_("a depot id of text in one line, of at most {longest} characters, and not '.' or '..'"), _FORM
    ),
    "date_form": Rule("quarantine", N_("a date such as {day}, not before 1970 (demand.source.date_format)"), _FORM),
    "count_form": Rule("quarantine", N_("a number, or nothing where the count is not known"), _FORM),
    "count_negative": Rule("quarantine", N_("0 or more (demand.negative)"), _FORM),
    "count_too_large": Rule("quarantine", N_("at most {max_demand} (demand.rules.max_demand)"), _FORM, releasable=True),
    "covariate_form": Rule(
        "quarantine",
        N_(
            "a number, or nothing where it is not known; 0 or 1 where it says whether a depot is open or its count is "
            "capped; a time such as 14:30 where it says when a depot sold out"
        ),
        _FORM,
    ),
    "recorded_at_form": Rule("quarantine", N_("an instant such as 2024-03-05T04:10:00-05:00"), _FORM),
    "recorded_in_future": Rule("quarantine", N_("not after {now}"), _FORM),
    "day_not_over": Rule("quarantine", N_("a day that was over in {timezone} when the count was recorded"), _FORM),
    "partial_day": Rule("quarantine", N_("a day whose rows can be read; what is known of it stays"), _FORM),
    "unknown_depot": Rule("quarantine", N_("a depot of the depots source"), _FORM),
    "duplicate_row": Rule("quarantine", N_("each reading once"), _FORM),
    "superseded": Rule("quarantine", N_("one value for a depot and day; the last row counts"), _FORM, releasable=True),
}
"""Rules for a row alone; the first broken one, in this order, is the reason."""

OF_HISTORY: Mapping[str, Rule] = {
    "stray_day": Rule("quarantine", N_("a day at most {apart} days before those of the other readings"), _FORM, True),
    "cut_day": Rule(
        "quarantine",
        N_("exports of whole days, from midnight in the depots' time zone; the known count of the day stays"),
        _ANY,
        True,
    ),
    "unit_change": Rule("quarantine", N_("the unit of the days before"), _ANY, releasable=True),
    "sentinel": Rule(
        "quarantine",
        N_("nothing where the count is not known, rather than one repeated count far above all others"),
        _ANY,
        True,
    ),
    "spike": Rule("quarantine", N_("at most {spike_factor} times the usual (demand.rules.spike_factor)"), _ANY, True),
}
"""Rules for a reading that breaks no rule of a row, checked against the days before it."""

OF_BATCHES: Mapping[str, Rule] = {
    "unreadable": Rule(
        "stop",
        N_("at most {unreadable_share} (demand.rules.unreadable_share), and some of each depot"),
        _REPORT,
    ),
    "where_value": Rule("warn", N_("values that the source has (demand.where)"), _REPORT),
    "unread_sheets": Rule(
        "warn", N_('each sheet with readings: demand.source.sheet: "*", or the name of the one that is meant'), _REPORT
    ),
    "lost_rows": Rule("stop", N_("at least a third of the rows, and a quarter of the depots, that count"), _REPORT),
    "lost_depot_rows": Rule("warn", N_("at most a fifth of a depot's rows in quarantine"), _REPORT),
    "day_month_order": Rule("stop", N_("day, month and year in the order in which they are written"), _REPORT),
    "several_rows": Rule(
        "stop",
        N_("one row a depot and day; demand.aggregate: sum adds up the parts of a day"),
        _REPORT,
    ),
    "repeated_rows": Rule(
        "stop",
        N_(
            "each order once: name the column with the number of the order or its line (demand.columns.order_id), or "
            "leave the days out of one of the exports"
        ),
        _REPORT,
    ),
    "repeated_orders": Rule("warn", N_("each order once (demand.columns.order_id); the last row counts"), _REPORT),
    "empty_feed": Rule("warn", N_("rows, as in the batches before"), _REPORT),
    "fewer_rows": Rule(
        "warn", N_("at least {thin_share} of the rows of the batch before (demand.rules.thin_share)"), _REPORT
    ),
    "other_depots": Rule(
        "stop", N_("the depots of the nights before; depots.aliases says which id became which"), _REPORT
    ),
    "restated": Rule(
        "stop",
        N_(
            "past days as reported before, except for corrections; demand.rules.severity, as in "
            "restated: warn, accepts the new counts"
        ),
        _REPORT,
    ),
    "thin_feed": Rule(
        "stop", N_("at least {thin_share} of the depots of the day before (demand.rules.thin_share)"), _REPORT
    ),
    "low_day": Rule(
        "warn",
        N_(
            "no day except holidays with less than {thin_share} of the usual at nearly all depots "
            "(demand.rules.thin_share)"
        ),
        _REPORT,
    ),
    "decimals": Rule(
        "stop",
        N_(
            'demand.source.thousands: "." and decimal: "," where 1.234 is more than a thousand, or decimal: "." where '
            "it is little more than one"
        ),
        _REPORT,
    ),
    "day_stamps": Rule("stop", N_("days, or instants at which a count was taken (demand.date_zone)"), _REPORT),
    "no_time": Rule(
        "stop",
        N_(
            "a time of day in each row, as in 2024-03-05T14:30, where staffing.shifts say share: learn; or numbers "
            "there"
        ),
        _REPORT,
    ),
    "cadence": Rule("stop", N_("a count of each day, not of weeks or months"), _REPORT),
    "meter": Rule("stop", N_("the count of each day: the difference between two readings of a meter"), _REPORT),
    "spread_counts": Rule("warn", N_("the count of each day, not one value for all days of a week or month"), _REPORT),
    "total_row": Rule(
        "warn", N_("each count once: leave the total out of the source, or name the depots in depots.source"), _REPORT
    ),
    "similar_id": Rule("warn", N_("one id a depot; depots.aliases says which id became which"), _REPORT),
    "flat_line": Rule("warn", N_("counts that differ within {flat_days} days (demand.rules.flat_days)"), _REPORT),
    "silent_depot": Rule(
        "warn", N_("a reading within {max_gap_days} days (demand.rules.max_gap_days), or a closing day"), _REPORT
    ),
    "early_end": Rule(
        "warn", N_("readings up to about the same day at nearly all depots, or closing days of those that end"), _REPORT
    ),
    "late": Rule("warn", N_("at most {late_days} days after its day (demand.rules.late_days)"), _REPORT),
    "covariate_missing": Rule(
        "warn", N_("a value of each covariate on each open day, past and ahead (calendar.known_future)"), _NOTE
    ),
    "covariate_outlier": Rule(
        "warn",
        N_("values as in the history, in its unit, and nothing where one is not known (calendar.known_future)"),
        _NOTE,
    ),
    "out_of_business": Rule(
        "warn", N_("no counts before `opened` and from `closed` on, or other days in the depots source"), _NOTE
    ),
    "closure_counts": Rule("warn", N_("no counts while an event closes a depot, or another last day of it"), _NOTE),
    "depot_span": Rule("warn", N_("a first day of business before the first day out of it"), _REPORT),
    "closed_weekday": Rule(
        "warn", N_("readings of every weekday; a weekday without any is taken as closed (demand.weekdays)"), _NOTE
    ),
    "successor": Rule(
        "warn",
        N_("one id a site: depots.aliases says which id became which, or a closing day that the former site ended"),
        _NOTE,
    ),
    "reused_id": Rule("warn", N_("an id of its own for each site"), _NOTE),
    "looks_capped": Rule(
        "warn",
        N_(
            "demand, not the orders served: name the column that marks counts as lower bounds "
            "(demand.columns.capped, sold_out_at or capacity, depots.columns.capacity)"
        ),
        _NOTE,
    ),
    "depot_twice": Rule("warn", N_("one set of attributes a depot; the last row counts"), _REPORT),
    "zone_form": Rule("warn", N_("a time zone such as Europe/Berlin, or nothing; taken as nothing"), _REPORT),
    "capacity_form": Rule("warn", N_("a count a day, or nothing; taken as nothing"), _REPORT),
    "level_missing": Rule(
        "warn", N_("a value of each level (depots.levels); the depot is in none of its totals"), _REPORT
    ),
    "vans_form": Rule("warn", N_("a whole number of vans, or nothing; taken as nothing"), _REPORT),
    "people_form": Rule("warn", N_("a number of people up to 500, or nothing; taken as nothing"), _REPORT),
    "person_form": Rule(
        "warn", N_("a name, a depot that counts and a contract of staffing.people; the row is left out"), _NOTE
    ),
    "absence_form": Rule(
        "warn",
        N_("a first and a last day off, and shifts of staffing.shifts; what cannot be read is left out"),
        _NOTE,
    ),
    "worked_form": Rule(
        "warn",
        N_("a date, a depot that counts, a shift of staffing.shifts and hours of 0 or more; the row is left out"),
        _NOTE,
    ),
    "event_form": Rule("warn", N_("a date such as 2024-03-05 and a kind; the row is left out"), _REPORT),
    "event_place": Rule(
        "warn", N_("a depot, city, country or subdivision of the depots source; it concerns no depot"), _REPORT
    ),
    "event_kind": Rule(
        "warn", N_("closure, or a kind that calendar.known_future names; it changes no forecast"), _REPORT
    ),
    "long_closure": Rule("warn", N_("closures that end by the last day ahead, or are meant to be permanent"), _REPORT),
    "alias_form": Rule("warn", N_("an old and a new depot id; the row is left out"), _REPORT),
    "alias_counts": Rule(
        "warn",
        N_(
            "no counts of a former id on days with counts of its own, which take precedence; of several former ids, "
            "the first takes precedence"
        ),
        _REPORT,
    ),
    "legacy_form": Rule("warn", N_("a date such as 2024-03-05 and a number of 0 or more; the row is left out"), _NOTE),
    "legacy_depot": Rule("warn", N_("a depot that counts; the row is left out"), _NOTE),
}
"""Rules for a batch, for the attributes of its depots, or for the other sources."""

RULES: Mapping[str, Rule] = {**OF_ROWS, **OF_HISTORY, **OF_BATCHES}
STOPPED = "batch_stopped"
"""Reason for rows that break no rule but belong to a stopped batch."""


_FORMS = {"max_demand": "g", "spike_factor": "g", "unreadable_share": ".0%", "thin_share": ".0%"}


def requirement(rule: str, **values: Any) -> Sentence:
    """Return the requirement of a rule as a sentence, with the values that it names filled in."""
    template = RULES[rule].wanted
    names = {name for _, name, _, _ in Formatter().parse(template) if name}
    return sentence(
        template, **{name: amount(values[name], _FORMS[name]) if name in _FORMS else values[name] for name in names}
    )


def severity(rule: str, declared: Mapping[str, Severity]) -> Severity:
    """Return the severity of a rule: the one that the pipeline file declares, else the rule's own."""
    return declared.get(rule, RULES[rule].severity)
