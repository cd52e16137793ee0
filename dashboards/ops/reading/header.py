"""Page header: what every page says of the publication, as its tier, when and by what it was made, and staleness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from urllib.parse import quote
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from forecaster.ledger.publication import PublishedDay, PublishedTotal
from forecaster.ledger.records import Head

STALE_DAYS = 2  # the newest reading may be this old
REPLAY = timedelta(days=1)  # between the instant whose knowledge was used and the publishing
MEANING = {
    "fresh": "Made by the newest model: it was trained {night} and passed every check.",
    "champion": "Made by an earlier model that stays in charge: {night} none was trained that was ready and better.",
    "fallback": "No model could forecast {night}: these numbers repeat what came on the same weekdays before.",
}


@dataclass(frozen=True)
class Alarm:
    """What is wrong with the numbers that are shown, in few words and in a sentence."""

    title: str
    sentence: str


@dataclass(frozen=True)
class Front:
    """A publication as people meet it."""

    title: str
    tier: str
    meaning: str
    published: str
    model: str
    cutoff: str
    targets: str
    note: str | None
    stale: str | None
    fruitless: str | None  # the last night published nothing, and when it began
    replayed: bool  # made for a past instant on purpose, which is no cause for alarm
    target_dates: tuple[date, ...]
    meant: int  # which target day is the one in front
    near: str  # "tomorrow", "today" or nothing
    today: date
    now: datetime

    @property
    def alarm(self) -> Alarm | None:
        """Stale, of a night before one that failed, or both at once; None where nothing is wrong."""
        if self.stale and self.fruitless:
            return Alarm("Stale, and the last run failed.", f"{self.fruitless} The newest reading is of {self.cutoff}.")
        if self.stale:
            title = "A past night, run again." if self.replayed else "These forecasts are stale."
            return Alarm(title, self.stale)
        if self.fruitless:
            return Alarm("The last run failed.", f"{self.fruitless} These forecasts are of {self.published}.")
        return None

    @property
    def meant_text(self) -> str:
        """The day in front in words: "tomorrow, Thu 19 Jun"."""
        text = display.day(self.target_dates[self.meant])
        return f"{self.near}, {text}" if self.near else text


def front(head: Head, now: datetime, fruitless: datetime | None = None) -> Front:
    """The front of a publication as seen at an instant; `fruitless`: a night began after it, and published nothing.

    In front stands tomorrow in the pipeline's zone; when it is not among the target days, today; else the first.
    """
    zone = ZoneInfo(head.timezone)
    today = now.astimezone(zone).date()
    targets = tuple(head.cutoff + timedelta(days=step) for step in range(1, head.horizon + 1))
    meant = in_front(targets, today)
    return Front(
        title=head.title or head.pipeline,
        tier=head.tier,
        meaning=MEANING[head.tier].format(night=night(head.published_at.astimezone(zone).date(), today)),
        published=display.instant(head.published_at, zone),
        model=head.model,
        cutoff=display.day(head.cutoff),
        targets=display.days(targets),
        note=head.note,
        stale=stale(targets, head.cutoff, today),
        fruitless=None if fruitless is None else without_fruit(fruitless, zone),
        replayed=head.published_at - head.as_of > REPLAY,
        target_dates=targets,
        meant=meant,
        near=display.near(targets[meant], today),
        today=today,
        now=now,
    )


def in_front(targets: tuple[date, ...], today: date) -> int:
    """Which target day stands in front: tomorrow, else today, else the first."""
    return next((targets.index(day) for day in (today + timedelta(days=1), today) if day in targets), 0)


def in_zone(header: Front, zone: str | None) -> Front:
    """The header as a depot's own clocks have it: its today is not everybody's. None: the pipeline's zone."""
    if zone is None:
        return header
    today = header.now.astimezone(ZoneInfo(zone)).date()
    meant = in_front(header.target_dates, today)
    near = display.near(header.target_dates[meant], today)
    return replace(header, today=today, meant=meant, near=near)


def stale(targets: tuple[date, ...], cutoff: date, today: date) -> str | None:
    """A warning when the forecasts are over, or the newest reading is more than 2 days old."""
    age = (today - cutoff).days
    if targets[-1] >= today and age <= STALE_DAYS:
        return None
    return f"Forecasts made for {display.days(targets)}; newest reading is {display.count(age, 'day')} old."


def without_fruit(began: datetime, zone: ZoneInfo) -> str:
    """What is said when the last night failed."""
    return f"What began {display.instant(began, zone)} published nothing."


def night(published: date, today: date) -> str:
    """When what is shown was made: "this night", or "in the night to Tue 17 Jun"."""
    return "this night" if published == today else f"in the night to {display.day(published)}"


@dataclass(frozen=True)
class Range:
    """The three numbers of a day that the pages show, in orders."""

    low: float
    median: float
    high: float


def median_and_range(day: PublishedDay | PublishedTotal, levels: tuple[float, ...]) -> Range:
    """The median and the ends of the 80 % range."""
    return Range(*(day.quantiles[levels.index(level)] for level in (0.1, 0.5, 0.9)))


def href(depot_id: str) -> str:
    """The address of a depot's page, whatever letters its id has."""
    return "/depot/" + quote(depot_id, safe="")
