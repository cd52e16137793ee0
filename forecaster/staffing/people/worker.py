"""People by name, as in the people table: workplace, days off, and shifts that they cannot work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class Worker:
    """One person of a depot; the spans of days off include their first and last days."""

    depot_id: str
    name: str
    contract: str
    days_off: tuple[tuple[date, date], ...] = ()
    cannot_work: tuple[str, ...] = ()  # names of shifts

    def is_off(self, day: date) -> bool:
        return any(first <= day <= last for first, last in self.days_off)
