"""Page header: a publication's tier, time, model and staleness, as every page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from urllib.parse import quote
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.formatting.retelling import told
from forecaster.core.language import N_, _, ngettext
from forecaster.ledger.publication import PublishedDay, PublishedTotal
from forecaster.ledger.records import Head

STALE_DAYS = 2  # maximum age of the newest reading
REPLAY = timedelta(days=1)  # delay from `as_of` to publishing beyond which a publication counts as a replay
MEANING = {
    "fresh": N_("Made by the newest model: it was trained {night} and admitted."),
    "champion": N_("Made by an earlier model, which stays in use: {night} no better model was ready."),
    "prior": N_("Made by a general model trained on other networks: {night} this network had no model of its own."),
    "fallback": N_("No model could forecast {night}: these numbers repeat the same weekdays of earlier weeks."),
}
MODELS = {
    "prior": N_("a general one, taught by other networks"),
    "fallback": N_("none: the same weekdays are repeated"),
}
TIERS = {
    "fresh": N_("new model"),
    "champion": N_("earlier model"),
    "prior": N_("general model"),
    "fallback": N_("same weekday"),
}


@dataclass(frozen=True)
class Alarm:
    """Problem with the shown numbers: a short title and a sentence."""

    title: str
    sentence: str


@dataclass(frozen=True)
class Front:
    """A publication's header as readers see it."""

    title: str
    tier: str
    meaning: str
    published: str
    model: str
    cutoff: str
    targets: str
    note: str | None
    stale: str | None
    fruitless: str | None  # sentence about a last run that published nothing, and its start
    fruitless_began: datetime | None
    replayed: bool  # deliberately made for a past instant, which is no cause for alarm
    target_dates: tuple[date, ...]
    meant: int  # index of the target day in front
    near: str  # "tomorrow", "today" or ""
    today: date
    now: datetime

    @property
    def alarm(self) -> Alarm | None:
        """Alarm if the forecasts are stale, the last run failed, or both; None otherwise."""
        if self.stale and self.fruitless:
            newest = _("The newest reading is of {day}.", day=self.cutoff)
            return Alarm(_("Stale, and the last run failed."), f"{self.fruitless} {newest}")
        if self.stale:
            title = _("A past night, run again.") if self.replayed else _("These forecasts are stale.")
            return Alarm(title, self.stale)
        if self.fruitless:
            older = _("These forecasts are of {instant}.", instant=self.published)
            return Alarm(_("The last run failed."), f"{self.fruitless} {older}")
        return None

    @property
    def tier_text(self) -> str:
        """Name of the tier of the numbers, in two words."""
        return text_of_tier(self.tier)

    def text_of_tier(self, tier: str) -> str:
        """Return the name of another tier, such as that of a depot that differs."""
        return text_of_tier(tier)

    @property
    def meant_text(self) -> str:
        """The day in front in words: "tomorrow, Thu 19 Jun"."""
        text = display.day(self.target_dates[self.meant])
        return _("{near}, {day}", near=self.near, day=text) if self.near else text


def text_of_tier(tier: str) -> str:
    """Return the name of a tier for readers: "new model", "earlier model", "same weekday";
    unchanged if it has no name."""
    return _(TIERS[tier]) if tier in TIERS else tier


def front(head: Head, now: datetime, fruitless: datetime | None = None) -> Front:
    """Return the header of a publication as seen at an instant; `fruitless` is the start of a later
    run that published nothing.

    The day in front is tomorrow in the pipeline's zone; if it is not a target day, today; else the
    first.
    """
    zone = ZoneInfo(head.timezone)
    today = now.astimezone(zone).date()
    targets = tuple(head.cutoff + timedelta(days=step) for step in range(1, head.horizon + 1))
    front_index = in_front(targets, today)
    return Front(
        title=head.title or head.pipeline,
        tier=head.tier,
        meaning=_(MEANING[head.tier], night=night(head.published_at.astimezone(zone).date(), today)),
        published=display.instant(head.published_at, zone),
        model=_(MODELS[head.tier]) if head.tier in MODELS else head.model,
        cutoff=display.day(head.cutoff),
        targets=display.days(targets),
        note=told(head.note or "") or None,
        stale=stale(targets, head.cutoff, today),
        fruitless=None if fruitless is None else without_fruit(fruitless, zone),
        fruitless_began=fruitless,
        replayed=head.published_at - head.as_of > REPLAY,
        target_dates=targets,
        meant=front_index,
        near=display.near(targets[front_index], today),
        today=today,
        now=now,
    )


def in_front(targets: tuple[date, ...], today: date) -> int:
    """Return the index of the target day shown first: tomorrow, else today, else the first."""
    return next((targets.index(day) for day in (today + timedelta(days=1), today) if day in targets), 0)


def in_zone(header: Front, zone: str | None) -> Front:
    """Return the header in a depot's time zone, where today may be another day. None: the
    pipeline's zone."""
    if zone is None:
        return header
    today = header.now.astimezone(ZoneInfo(zone)).date()
    front_index = in_front(header.target_dates, today)
    near = display.near(header.target_dates[front_index], today)
    return replace(header, today=today, meant=front_index, near=near)


def stale(targets: tuple[date, ...], cutoff: date, today: date) -> str | None:
    """Return a warning if the forecasts are over or the newest reading is more than 2 days old,
    else None."""
    age = (today - cutoff).days
    if targets[-1] >= today and age <= STALE_DAYS:
        return None
    made_for = display.days(targets)
    return ngettext(
        "Forecasts made for {days}; newest reading is {n} day old.",
        "Forecasts made for {days}; newest reading is {n} days old.",
        age,
        n=display.number(age),
        days=made_for,
    )


def without_fruit(began: datetime, zone: ZoneInfo) -> str:
    """Sentence about a failed last night."""
    return _("The run that began {instant} published nothing.", instant=display.instant(began, zone))


def night(published: date, today: date) -> str:
    """Time of the publication in words: "this night", or "in the night to Tue 17 Jun"."""
    return _("this night") if published == today else _("in the night to {day}", day=display.day(published))


def title_of(head: Head | None) -> str:
    """Title of a page about runs; `head` is the current publication."""
    return (head.title or head.pipeline) if head else _("Depot forecasts")


def zone_of(head: Head | None) -> ZoneInfo:
    """Time zone of the publication; UTC before there is one."""
    return ZoneInfo(head.timezone if head else "UTC")


@dataclass(frozen=True)
class Range:
    """The three numbers of a day that the pages show, in orders."""

    low: float
    median: float
    high: float


def median_and_range(day: PublishedDay | PublishedTotal, levels: tuple[float, ...]) -> Range:
    """Return the median and the ends of the 80 % range of a day."""
    return week_range(day.quantiles, levels)


def week_range(quantiles: Sequence[float], levels: tuple[float, ...]) -> Range:
    """Return the same for quantiles at these levels, such as those of a week."""
    return Range(*(quantiles[levels.index(level)] for level in (0.1, 0.5, 0.9)))


def href(depot_id: str) -> str:
    """Return the address of a depot's page; any characters of its ID are escaped."""
    return "/depot/" + quote(depot_id, safe="")


def past_query(as_of: str | None) -> str:
    """Return the query of an address of a past publication; empty for the current one."""
    return f"?as_of={quote(as_of, safe='')}" if as_of else ""


def cell_href(depot_id: str, day: date) -> str:
    """Return the address of one day of a depot."""
    return f"/day/{day.isoformat()}/{quote(depot_id, safe='')}"
