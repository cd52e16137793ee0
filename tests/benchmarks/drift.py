"""How often drift is told where there is none, and how often a quarter more or less is found within fourteen days.

`python -m tests.benchmarks.drift [dataset …]` prints the tables of `docs/results.md`. Each dataset is forecast a day
ahead by a level that follows what came (exponentially, a share of `FOLLOWS` a day), weekdays of the last eight weeks,
and quantiles of what that missed over the last 91 days, all in logs: nothing is trained. The last 182 days are judged
night by night.

False: a depot and week in which any night tells a level, or a spread, with nothing planted. Real data drift of
themselves (a station that works stop, a street that is dug up), so that over all weeks these are bounds from above.
Quiet are the weeks whose raw counts say so: at no time in the seven weeks around had a depot's mean of fourteen days,
over that of the eight weeks before them and over the network's median of this, moved by as much as what is planted.

Found: of a tenth of the depots each day's count becomes a quarter larger or smaller from a day on (binomially, so
that small counts move too), and one of fourteen nights tells that level. Once the forecasts do not see it, as of a
model whose inputs lag; and once they follow, which takes most of the shift off within a week, and is right not to be
told then.

Rates and bounds were chosen on `CHOSEN_ON`, and are judged by the others.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from forecaster.core.arrays import Bools, Doubles
from forecaster.evaluation import drift, pit
from tests.benchmarks.real import NAMES, panel_of

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
LOW, MEDIAN, HIGH = 1, 3, 5  # places in LEVELS
JUDGED, FOUND_WITHIN, SHIFT, APART = 182, 14, 0.25, 21  # days; of counts; days between planted shifts
FOLLOWS, ERRORS, WARM_UP = 0.15, 91, 170
CHOSEN_ON = ("favorita_transactions", "chicago_l_stations", "bayarea_bikeshare14", "rossmann")
WIDTHS = (0.0, 0.12, 0.2, 0.35, 0.6, np.inf)  # half of the 80 % range, over the median


@dataclass(frozen=True, eq=False)
class Past:
    """Counts, forecasts and scores of a dataset, (depots, days, …)."""

    counts: Doubles
    quantiles: Doubles
    scores: Doubles
    before: Doubles  # counts of the days before them, from which forecasts start

    @property
    def median(self) -> Doubles:
        return self.quantiles[..., MEDIAN]


@dataclass(frozen=True)
class Planted:
    """A shift, and whether it was found."""

    direction: int
    width: float
    unseen: bool  # found where forecasts do not see it
    followed: bool  # and where they follow


def forecasts(counts: Doubles, first: int) -> Doubles:
    """Quantiles a day ahead of the days from `first` on, (depots, days, levels)."""
    logs = np.log1p(counts)
    season, level = _weekdays(logs), np.full(len(logs), np.nan)
    errors, points = np.full(logs.shape, np.nan), np.full(logs.shape, np.nan)
    quantiles = np.full((len(logs), logs.shape[1] - first, len(LEVELS)), np.nan)
    for day in range(logs.shape[1]):
        points[:, day] = level + season[:, day]
        errors[:, day] = logs[:, day] - points[:, day]
        now = logs[:, day] - season[:, day]
        followed = np.where(np.isnan(level), now, level + FOLLOWS * np.clip(now - level, -1, 1))
        level = np.where(np.isfinite(now), followed, level)
    for day in range(first, logs.shape[1]):
        missed = errors[:, max(day - ERRORS, 0) : day]
        enough = np.isfinite(missed).sum(axis=1) >= 28
        if enough.any():
            around = np.nanquantile(missed[enough], LEVELS, axis=1).T
            quantiles[enough, day - first] = np.maximum(np.expm1(points[enough, day, None] + around), 0)
    return quantiles


def _weekdays(logs: Doubles) -> Doubles:
    """What a weekday is above the mean of the 28 days before it, over its last eight weeks."""
    known, days = np.isfinite(logs), np.arange(logs.shape[1])
    sums, numbers = (np.cumsum(np.pad(of, [(0, 0), (1, 0)]), axis=1) for of in (np.nan_to_num(logs), known))
    start = np.maximum(days - 28, 0)
    count = numbers[:, days] - numbers[:, start]
    mean = np.where(count >= 7, (sums[:, days] - sums[:, start]) / np.maximum(count, 1), np.nan)
    season = np.full(logs.shape, np.nan)
    for day in range(7, logs.shape[1]):
        same = (logs - mean)[:, day % 7 : day : 7][:, -8:]
        enough = np.isfinite(same).sum(axis=1) >= 2
        season[enough, day] = np.nanmean(same[enough], axis=1)
    return season


def scores(counts: Doubles, quantiles: Doubles) -> Doubles:
    flat = pit.pit_scores(counts.ravel(), quantiles.reshape(-1, len(LEVELS)), LEVELS)
    return flat.reshape(counts.shape)


def past_of(name: str) -> Past:
    panel = panel_of(name)
    counts = np.where(panel.open[:, : panel.history], panel.demand, np.nan).astype(float)[:, -700:]
    first = max(counts.shape[1] - JUDGED - drift.DAYS - FOUND_WITHIN, 56)
    quantiles = forecasts(counts, first)
    return Past(counts[:, first:], quantiles, scores(counts[:, first:], quantiles), counts[:, :first])


def quiet_weeks(past: Past) -> Bools:
    """The weeks (depots, weeks) around which raw counts keep their level."""
    counts = np.concatenate([past.before, past.counts], axis=1)
    lately, before = _mean_of(counts, 14, 0), _mean_of(counts, 56, 14)
    ratio = np.log(np.maximum(lately, 0.1) / np.maximum(before, 0.1))
    moved = ~(np.abs(ratio - np.nanmedian(ratio, axis=0)) < np.log1p(SHIFT))
    quiet = np.zeros((len(counts), JUDGED // 7), bool)
    for week in range(JUDGED // 7):
        end = counts.shape[1] - JUDGED + 7 * (week + 1)
        quiet[:, week] = ~moved[:, max(end - 28, 0) : end + 21].any(axis=1)
    return quiet


def _mean_of(counts: Doubles, days: int, before: int) -> Doubles:
    """Means of so many days that end so many days before each day, (depots, days); NaN where half are unknown."""
    padded = np.pad(counts, [(0, 0), (days + before, 0)], constant_values=np.nan)
    sums, numbers = (np.cumsum(of, axis=1) for of in (np.nan_to_num(padded), np.isfinite(padded)))
    end = np.arange(counts.shape[1]) + days
    number = numbers[:, end] - numbers[:, end - days]
    mean: Doubles = np.where(number >= days / 2, (sums[:, end] - sums[:, end - days]) / np.maximum(number, 1), np.nan)
    return mean


def false_alarms(past: Past) -> tuple[int, float, float, int, float, float]:
    """Depot-weeks, and the shares of them in which a level or a spread is told: of all weeks, and of quiet ones."""
    last = past.counts.shape[1]
    level, spread, tested = (np.zeros((len(past.counts), JUDGED), bool) for _ in range(3))
    for night in range(JUDGED):
        end = last - JUDGED + night + 1
        told = drift.judge(past.scores[:, :end], past.counts[:, :end], past.median[:, :end])
        level[:, night], spread[:, night], tested[:, night] = told.level != 0, told.spread != 0, told.testable

    def weeks(nights: Bools) -> Bools:
        any_night: Bools = nights.reshape(len(nights), -1, 7).any(axis=2)
        return any_night

    judged, quiet = weeks(tested), weeks(tested) & quiet_weeks(past)
    all_told = [float((weeks(told) & judged).sum() / judged.sum()) for told in (level, spread)]
    quiet_told = [float((weeks(told) & quiet).sum() / max(quiet.sum(), 1)) for told in (level, spread)]
    return int(judged.sum()), *all_told, int(quiet.sum()), *quiet_told


def planted(past: Past, seed: int = 1) -> Iterator[Planted]:
    random, (depots, days) = np.random.default_rng(seed), past.counts.shape
    with np.errstate(invalid="ignore"):
        half = (past.quantiles[..., HIGH] - past.quantiles[..., LOW]) / 2 / np.maximum(past.median, 1)
    for start in range(days - JUDGED, days - FOUND_WITHIN + 1, APART):
        before = drift.judge(past.scores[:, :start], past.counts[:, :start], past.median[:, :start])
        for direction in (1, -1):
            chosen = random.permutation(depots)[: max(depots // 10, 1)]
            chosen = chosen[before.testable[chosen] & (before.level[chosen] == 0)]
            if len(chosen):
                found = [_found(past, chosen, start, direction, random, follow) for follow in (False, True)]
                for depot, unseen, followed in zip(chosen, *found, strict=True):
                    yield Planted(direction, float(np.nanmedian(half[depot])), bool(unseen), bool(followed))


def _found(
    past: Past, chosen: np.ndarray, start: int, direction: int, random: np.random.Generator, follow: bool
) -> Bools:
    """Which of the chosen depots' shifts a night of fourteen tells."""
    end = start + FOUND_WITHIN
    counts, shown, median = past.counts[:, :end].copy(), past.scores[:, :end].copy(), past.median[:, :end].copy()
    came = counts[chosen, start:]
    moved = random.binomial(np.nan_to_num(came).astype(int), SHIFT)
    counts[chosen, start:] = came + direction * np.where(np.isfinite(came), moved, 0)
    quantiles = past.quantiles[chosen, start:end]
    if follow:
        whole = np.concatenate([past.before[chosen], counts[chosen]], axis=1)[:, -(WARM_UP + FOUND_WITHIN) :]
        quantiles = forecasts(whole, whole.shape[1] - FOUND_WITHIN)
    shown[chosen, start:], median[chosen, start:] = scores(counts[chosen, start:], quantiles), quantiles[..., MEDIAN]
    found = np.zeros(len(chosen), bool)
    for night in range(start + 1, end + 1):
        told = drift.judge(shown[:, :night], counts[:, :night], median[:, :night])
        found |= told.level[chosen] == direction
    return found


def main(names: list[str]) -> None:
    print(
        "| dataset | half of the 80 % range | depot-weeks | level, spread told | quiet | told | up | down | followed |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    by_width: dict[bool, list[Planted]] = {True: [], False: []}
    for name in names or list(NAMES):
        begun, past = time.perf_counter(), past_of(name)
        number, level, spread, quiet, level_then, spread_then = false_alarms(past)
        shifts = list(planted(past))
        by_width[name in CHOSEN_ON] += shifts
        up, down = ([one.unseen for one in shifts if one.direction == sign] for sign in (1, -1))
        cells = [name, f"±{100 * np.median([one.width for one in shifts]):.0f} %"]
        cells += [f"{number:,}", f"{level:.2%}, {spread:.2%}", f"{quiet:,}", f"{level_then:.2%}, {spread_then:.2%}"]
        cells += [f"{np.mean(up):.0%} of {len(up)}", f"{np.mean(down):.0%} of {len(down)}"]
        print("|", " | ".join([*cells, f"{np.mean([one.followed for one in shifts]):.0%}"]), "|")
        print(f"{name}: {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    print("\n| half of the 80 % range | chosen on these: found, followed | judged on these: found, followed |")
    print("|---|---|---|")
    for least, most in pairwise(WIDTHS):
        cells = []
        for chosen in (True, False):
            of_width = [one for one in by_width[chosen] if least <= one.width < most]
            shares = [np.mean([getattr(one, name) for one in of_width]) for name in ("unseen", "followed") if of_width]
            cells.append(f"{', '.join(f'{share:.0%}' for share in shares)} of {len(of_width)}" if of_width else "–")
        print(f"| {100 * least:.0f} to {100 * most:.0f} % | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # of depots without any day
    main(sys.argv[1:])
