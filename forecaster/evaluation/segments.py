"""Metrics by segment: each city, day of the horizon, weekday, holidays and other days, each depot."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from forecaster.core.forecast import Scores
from forecaster.core.panel import Panel
from forecaster.evaluation.metrics import Scored, by, scored

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = ("city", "days ahead", "weekday", "kind of day")
Metrics = Mapping[str, float]


def parts(scores: Scores, panel: Panel) -> dict[str, dict[str, Metrics]]:
    """Return part → label → all metrics of its days, in reading order; a part with a single label
    is left out, because it equals the whole."""
    days = scored(scores.folds, scores.scale)
    cities = np.array(panel.attributes.get("city", ("",) * len(panel.depot_ids)), object)
    weekday = (days.day.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday
    labels = {
        "city": (cities[days.depot], sorted(set(cities.tolist()))),
        "days ahead": (days.ahead.astype(str), [str(step) for step in range(1, panel.horizon + 1)]),
        "weekday": (np.array(WEEKDAYS, object)[weekday], list(WEEKDAYS)),
        "kind of day": (np.where(_holiday(days, panel), "holiday", "other day"), ["holiday", "other day"]),
    }
    by_part: dict[str, dict[str, Metrics]] = {}
    for part, (of_row, order) in labels.items():
        measured = by(days, of_row)
        by_label: dict[str, Metrics] = {label: measured[label] for label in order if label in measured and label}
        if len(by_label) > 1:
            by_part[part] = by_label
    return by_part


def depots(scores: Scores, panel: Panel) -> dict[str, Metrics]:
    """Return depot → all metrics of its scored days."""
    days = scored(scores.folds, scores.scale)
    return {panel.depot_ids[int(row)]: metrics for row, metrics in by(days, days.depot).items()}


def _holiday(days: Scored, panel: Panel) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if "holiday" not in panel.calendar_names:
        return np.zeros(len(days.actual), np.bool_)
    place = (days.day - panel.days[0]).astype(np.int64)
    group = panel.calendar_group[days.depot]
    is_holiday: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
        panel.calendar[group, place, panel.calendar_names.index("holiday")] > 0
    )
    return is_holiday
