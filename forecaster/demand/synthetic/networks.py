"""Simulation of networks: panels of daily counts with their calendars, each of a different kind of
business, from a seed.

A day's expected count is a product, so its log is a sum: depot's level + weekday profile + yearly
profile + trend and drift + holidays + weather + promotions + changes of a depot (moves, openings).
Counts are negative binomial around it. The traits of the network are drawn first (`draw_traits`),
then the days of its depots (`simulate`).

The sample (`demand.sample`) is one fleet that a reader can follow; these are hundreds that only
have to be plausible: every range below is wide, and none was fitted to a dataset.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from forecaster.core.arrays import Bools, Days, Doubles
from forecaster.core.panel import Encoding, Panel
from forecaster.demand.panel import calendar
from forecaster.demand.synthetic import occasions

Random = np.random.Generator

COUNTRIES: tuple[tuple[str, str | None], ...] = (
    *(("US", state) for state in ("MA", "NY", "CA", "TX", "IL", "WA", "FL")),
    *(("DE", land) for land in ("NW", "BY", "BE", "HH")),
    ("GB", "ENG"), ("FR", None), ("ES", "MD"), ("IT", None), ("NL", None), ("PL", None), ("SE", None), ("AT", None),
    ("AU", "VIC"), ("AU", "NSW"), ("CA", "ON"), ("MX", None), ("BR", "SP"), ("IN", "MH"), ("JP", None), ("TR", None),
    ("ZA", None), ("AE", None), ("CL", None), ("SG", None), ("KR", None),
)  # fmt: skip
"""Countries, some with a subdivision, whose holidays a network may observe."""
# range of a history's last day
FIRST_END, LAST_END = date(2012, 1, 1), date(2026, 1, 1)
PROMOTION = "promo"
"""Covariate that is 1 on days with a promotion, known in advance; the prior knows it by this name."""
PROFILES = np.log([  # Monday … Sunday
    [0.95, 0.93, 0.95, 0.98, 1.05, 1.15, 0.99],  # homes
    [1.15, 1.18, 1.18, 1.16, 1.05, 0.70, 0.58],  # offices
    [0.80, 0.80, 0.85, 0.95, 1.20, 1.35, 1.05],  # going out
    [0.75, 0.75, 0.78, 0.85, 1.02, 1.45, 1.40],  # outings
    [1.02, 1.00, 1.00, 1.00, 1.03, 1.00, 0.95],  # the same on all days
])  # fmt: skip
SUNDAYS = 6
LARGEST = 18.0  # maximum log of an expected count


@dataclass(frozen=True)
class Traits:
    """Traits shared by the depots of one network."""

    country: str
    subdivision: str | None
    end: date  # last day of the history
    level: float  # log of a typical depot's count per day
    level_spread: float  # standard deviation of the depots' log levels
    profile: Doubles  # (5,): weights of the Dirichlet mixture of `PROFILES` per depot
    profile_spread: float  # of each depot's own weekdays
    yearly: float  # amplitude of the yearly profile, log
    growth: float  # log per year, of all depots
    growth_spread: float  # standard deviation between depots
    drift: float  # weekly step of the random walk that all depots share, log
    own_drift: float  # and of each depot's own
    weather: float  # standard deviation of the daily shock that a city's depots share, log
    memory: float  # autocorrelation of that shock
    holiday: float  # typical effect of a holiday, log
    promotions: float  # share of days with one; 0: the network has none
    promotion: float  # its effect, log
    moves: float  # moves of a depot to another level, per year
    openings: float  # share of the depots that open within the history
    dispersion: float  # of counts: variance = mean + mean² / dispersion
    zeros: float  # share of days with a count of zero, regardless of the expectation
    closed_sundays: float  # share of the depots that are closed on Sundays
    closed_holidays: bool  # all are closed on public holidays
    gaps: float  # share of days whose count is lost
    cities: int


def draw_traits(random: Random) -> Traits:
    """Draw the traits of a network: most are steady and busy; some are small, wild, young or full
    of gaps."""
    country, subdivision = COUNTRIES[random.integers(len(COUNTRIES))]

    def sometimes(share: float, value: float) -> float:
        return float(value) if random.random() < share else 0.0

    return Traits(
        country=country,
        subdivision=subdivision,
        end=FIRST_END + timedelta(days=int(random.integers((LAST_END - FIRST_END).days))),
        level=random.uniform(np.log(2), np.log(5000)),
        level_spread=random.uniform(0.2, 1.2),
        profile=random.dirichlet(np.full(len(PROFILES), 0.4)) * random.uniform(2, 20),
        profile_spread=random.uniform(0.01, 0.12),
        yearly=random.gamma(1.2, 0.15),
        growth=random.normal(0.02, 0.12),
        growth_spread=random.uniform(0, 0.15),
        drift=random.gamma(1.0, 0.012),
        own_drift=random.gamma(1.0, 0.015),
        weather=random.gamma(1.5, 0.06),
        memory=random.uniform(0.1, 0.8),
        holiday=random.normal(-0.4, 0.5),
        promotions=sometimes(0.4, random.uniform(0.02, 0.3)),
        promotion=random.gamma(3.0, 0.08),
        moves=random.gamma(1.0, 0.15),
        openings=sometimes(0.5, random.uniform(0.02, 0.3)),
        dispersion=float(np.exp(random.uniform(np.log(3), np.log(2000)))),
        zeros=sometimes(0.15, random.uniform(0.01, 0.3)),
        closed_sundays=sometimes(0.25, random.uniform(0.3, 1)),
        closed_holidays=bool(random.random() < 0.25),
        gaps=sometimes(0.3, random.uniform(0.005, 0.08)),
        cities=int(random.integers(1, 4)),
    )


def simulate(seed: int, *, depots: int = 24, days: int = 900, horizon: int = 7, traits: Traits | None = None) -> Panel:
    """Panel of one simulated network: the same arguments give the same numbers.

    Its only covariate is `PROMOTION`; it has no statics. Without `traits`, they are drawn from the
    seed, too. Raises ValueError for fewer than one depot or 60 days.
    """
    if depots < 1 or days < 60:
        raise ValueError(f"found {depots} depots and {days} days, wanted at least 1 depot and 60 days")
    for_traits, for_depots, for_days, for_counts = np.random.default_rng(seed).spawn(4)
    traits = traits or draw_traits(for_traits)
    dates = np.datetime64(traits.end) - days + 1 + np.arange(days + horizon)
    features = calendar.features(dates, traits.country, traits.subdivision)
    city = for_depots.integers(traits.cities, size=depots)
    holidays = occasions.holidays(dates, traits.country, traits.subdivision, traits.holiday, depots, for_days)
    promoted = occasions.promotions(depots, len(dates), traits.promotions, for_days)
    log = (
        for_depots.normal(traits.level, traits.level_spread, depots)[:, None]
        + _weekdays(traits, dates, depots, for_depots)
        + _yearly(traits, dates, depots, for_depots)
        + _trend(traits, depots, len(dates), for_depots)
        + _weather(traits, len(dates), for_days)[city] * for_depots.uniform(0.6, 1.4, (depots, 1))
        + occasions.moves(depots, len(dates), traits.moves, for_days)
        + holidays.effect
        + promoted * for_depots.normal(traits.promotion, 0.3 * traits.promotion, (depots, 1))
    )
    age, first = occasions.openings(depots, days, traits.openings, len(dates), for_depots)
    ramp = for_depots.uniform(0.2, 1.0, (depots, 1)) * np.exp(-np.maximum(age, 0) / 30)
    mean = np.exp(np.minimum(log, LARGEST)) * np.where(first[:, None] > 0, 1 - 0.7 * ramp, 1.0)
    is_open = _open(traits, dates, holidays.days, age, for_depots)
    counts = _counts(mean[:, :days], traits, for_counts)
    is_known = is_open[:, :days] & (for_counts.random((depots, days)) >= traits.gaps)
    return Panel(
        depot_ids=tuple(f"D{number:03d}" for number in range(depots)),
        days=dates,
        horizon=horizon,
        demand=np.where(is_known, counts, np.nan).astype(np.float32),
        open=is_open,
        covariates=promoted[..., None].astype(np.float32),
        calendar=features[None],
        calendar_group=np.zeros(depots, np.int32),
        statics=np.zeros((depots, 0), np.int32),
        encoding=Encoding((PROMOTION,), {}),
        calendar_names=calendar.NAMES,
    )


def _weekdays(traits: Traits, dates: Days, depots: int, random: Random) -> Doubles:
    """Weekday profile of each depot, a mixture of the network's profiles, (depots, days)."""
    mixture = random.dirichlet(traits.profile + 1e-3, depots)
    profile = mixture @ PROFILES + random.normal(0, traits.profile_spread, (depots, 7))
    return np.asarray((profile - profile.mean(axis=1, keepdims=True))[:, (dates.astype(np.int64) + 3) % 7])


def _yearly(traits: Traits, dates: Days, depots: int, random: Random) -> Doubles:
    """Yearly profile of two waves, with a different strength per depot, (depots, days)."""
    turn = 2 * np.pi * dates.astype(np.int64) / 365.25
    wave = np.cos(turn - random.uniform(0, 2 * np.pi)) + 0.3 * np.cos(2 * turn - random.uniform(0, 2 * np.pi))
    return np.asarray(traits.yearly * random.normal(1, 0.35, (depots, 1)) * wave)


def _trend(traits: Traits, depots: int, days: int, random: Random) -> Doubles:
    """Growth plus slow random walks of the network and of each depot, (depots, days)."""
    growth = random.normal(traits.growth, traits.growth_spread, (depots, 1)) * np.arange(days) / 365.25
    week = np.arange(days) / 7
    together = random.normal(0, traits.drift, days // 7 + 2).cumsum()
    depot_walks = random.normal(0, traits.own_drift, (depots, days // 7 + 2)).cumsum(axis=1)
    week_number, part = week.astype(int), week % 1
    walk = together + depot_walks
    return np.asarray(growth + walk[:, week_number] * (1 - part) + walk[:, week_number + 1] * part)


def _weather(traits: Traits, days: int, random: Random) -> Doubles:
    """One shock per city and day, half of it shared by the network: AR(1), log, (cities, days)."""
    shocks = random.normal(0, traits.weather, (traits.cities + 1, days))
    for day in range(1, days):
        fresh = np.sqrt(1 - traits.memory**2) * shocks[:, day]
        shocks[:, day] = traits.memory * shocks[:, day - 1] + fresh
    return np.asarray((shocks[:-1] + shocks[-1:]) / np.sqrt(2))


def _open(traits: Traits, dates: Days, holidays: Bools, age: Doubles, random: Random) -> Bools:
    """Open days of the depots, (depots, days): not before they open, on days off, or during
    closures."""
    depots = len(age)
    is_sunday = (dates.astype(np.int64) + 3) % 7 == SUNDAYS
    is_open = (age >= 0) & ~((random.random((depots, 1)) < traits.closed_sundays) & is_sunday)
    if traits.closed_holidays:
        is_open = is_open & ~holidays
    return np.asarray(is_open & ~occasions.closures(depots, len(dates), random))


def _counts(mean: Doubles, traits: Traits, random: Random) -> Doubles:
    """Negative-binomial counts, some of them replaced by zero, (depots, days)."""
    gamma = random.standard_gamma(traits.dispersion, mean.shape) / traits.dispersion
    counts = random.poisson(mean * gamma).astype(np.float64)
    return np.where(random.random(mean.shape) < traits.zeros, 0.0, counts)
