"""Feature engineering inside the compiled graph: logs, levels, lags and holiday effects of a window of raw counts.

Days run along the last axis of a (depots, days) array. `origins` are the days from which a forecast is made; in
training a window has many, in a forecast only the last day. Nothing after an origin reaches what is computed for it:
where a day of the first week ahead takes something from a week before, one of the second takes it from two weeks
before, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from forecaster.model.network import further_inputs, level_moves, special_days
from forecaster.model.network.day_sums import ahead_of, between, shift, trailing_sum
from forecaster.model.network.further_inputs import Origins, Series
from forecaster.model.network.special_days import DOUBT, MOST_SPECIAL, WEEKS, YEAR

LOOKBACK = 448  # days of history that one origin may look at: a year ago, and what was usual before it
LEVEL = 28  # days of the local level
HOLIDAYS = 4  # the last calendar features but one: a holiday, the day before one, the day after one, a day off
LONGEST_HORIZON = 61  # days, so that the counterpart of any day and the weeks after it were known at the origin
SEASON_WEEKS = 12  # same weekdays that make a weekday's habit
SPECIAL = 2 * WEEKS + 8  # where in a day's vector stands what is special on it


class Window(NamedTuple):
    """Raw input of the network: counts with NaN for "not known", what is known of the future, and the static codes."""

    demand: Float[Array, "depots days"]
    open: Float[Array, "depots days_and_horizon"]
    covariates: Float[Array, "depots days_and_horizon covariates"]
    calendar: Float[Array, "depots days_and_horizon features"]
    statics: Int[Array, "depots attributes"]


class Features(NamedTuple):
    """Feature tensors that encoder and decoder read. d is the day that is forecast, t the origin."""

    encoder: Float[Array, "depots scan encoder_features"]
    decoder: Float[Array, "depots origins horizon decoder_features"]
    anchor: Float[Array, "depots origins horizon"]  # log count to which the network adds
    level: Float[Array, "depots origins"]
    missed: Float[Array, "depots origins"]  # log counts by which the anchor missed the last week's days, in the mean
    moved: Float[Array, "depots origins"]  # log counts by which the last week lies off the anchor (`level_moves`)
    trust: Float[Array, "depots origins"]  # share of it that is to be followed
    # Where they are asked for: what boosted trees read, and the share of their weight that a depot's known days earn.
    trees: Float[Array, "depots origins horizon tree_features"] | None = None
    tree_trust: Float[Array, "depots origins"] | None = None


def make(
    window: Window,
    constants: Mapping[str, Array],
    *,
    scan: int,
    origins: int,
    horizon: int,
    stride: int = 1,
    trees: bool = False,
) -> Features:
    """The features of a window's last `origins` origins, with an encoder that runs over its last `scan` days.

    Origins lie `stride` days apart, the last of them on the window's last day. `trees` asks for what boosted trees
    read, in the order of `tree_inputs`.
    `constants` are what training measured: `mean` and `spread` of log counts, for depots of which nothing else is
    known, and how far the yearly cycle can be trusted: `calendar` (features,) is 0 for features of the calendar that
    are left out and else 1, `yearly` () the same for what was a year ago, but for days near a holiday: what was out of
    the usual on these is expected again as soon as it was seen once.
    """
    mean, spread, yearly = constants["mean"], constants["spread"], constants["yearly"]
    days = window.demand.shape[1]
    # Log counts, 0 where a day is not known or the depot was closed; `observed` masks them in every sum below.
    usable = jnp.isfinite(window.demand) & (window.open[:, :days] > 0)
    observed = usable.astype(jnp.float32)
    log = jnp.where(usable, jnp.log1p(jnp.where(usable, window.demand, 0.0)), 0.0)

    first = days - 1 - stride * (origins - 1)  # index of the first origin
    total = days + horizon

    # What holidays did is taken out of the series (`plain`), so that levels and lags are of ordinary days, and kept by
    # itself (`surprise`), so that it can be expected again. `surprising` masks the days of which it could be measured.
    back = window.calendar[:, :, -1]
    near_holiday = (back > 0).astype(jnp.float32)
    plain, surprise, surprising, usual = special_days.surprises(log, observed, near_holiday[:, :days] > 0)
    # Cut afterwards: of both at once the exporter makes now one node and now another.
    holiday, day_off = window.calendar[:, :, -1 - HOLIDAYS], window.calendar[:, :, -2]
    so_far = special_days.of_last_holidays(
        surprise, usual, surprising * near_holiday[:, :days] * (1.0 - holiday[:, :days])
    )
    unprecedented = near_holiday[:, first + 1 :] * (special_days.counterparts(surprising, back, first + 1) == 0).astype(
        jnp.float32
    )
    start = min(first - 6, days - scan)  # what was missed of the week up to the first origin is told of it, too
    of_week = trailing_sum(surprise, 7) / jnp.maximum(trailing_sum(surprising, 7), 1.0)

    # The local level: the mean of four weeks, else of a year, else of all depots. Against it the rest is measured, so
    # that large and small depots share one network. It is made of whole weeks, whose sums are there already.
    week_count, week_sum, plain_sum = (trailing_sum(x, 7) for x in (observed, log, plain))
    count, year_count = (trailing_sum(week_count, length // 7, every=7) for length in (LEVEL, YEAR))
    recent = trailing_sum(plain_sum, LEVEL // 7, every=7) / jnp.maximum(count, 1.0)
    year = trailing_sum(plain_sum, YEAR // 7, every=7) / jnp.maximum(year_count, 1.0)
    level = jnp.where(count > 0, recent, jnp.where(year_count > 0, year, mean))
    week = jnp.where(week_count > 0, week_sum / jnp.maximum(week_count, 1.0), level)

    # What each day near a holiday will add, foretold from its counterpart of last year and from the days off of the
    # year; not from a day on which demand moved to another level, as no holiday did that, nor from one before which
    # nothing was usual.
    weekday = special_days.weekday_effect(plain, observed, level)
    trusted = surprising * (1.0 - special_days.level_shifts(plain, observed))
    trusted = trusted * (1.0 - special_days.swings(plain, observed))
    weekday_known = between(weekday, -7, days - 7)
    off_then = day_off[:, :days] * trusted
    surprise_then = jnp.clip(surprise, -MOST_SPECIAL, MOST_SPECIAL) * trusted
    surprise_then, off_then, weekday_then = (
        special_days.counterparts(x, back, start) for x in (surprise_then, off_then, weekday_known * off_then)
    )
    sums_off = special_days.days_off_of_year(surprise + weekday_known, day_off[:, :days] * surprising)

    def special_ahead_of(weeks_ahead: int) -> Array:
        """Special days from `start` on, as known so many weeks and one before the day."""
        known = 7 * (weeks_ahead + 1)

        def as_known(x: Array) -> Array:
            return between(x, start - known, total - known)

        height, off_count = (as_known(x) for x in sums_off)
        special = special_days.out_of_the_usual(
            surprise_then,
            off_then,
            weekday_then,
            day_off[:, start:],
            as_known(weekday),
            height / jnp.maximum(off_count, 1.0),
            off_count / (off_count + DOUBT),
        )
        return special_days.excess(special, as_known(usual))

    special_day = special_ahead_of(0)

    # How far anchor and holidays missed the days of the last week, of those that can be measured.
    special_so_far = jnp.pad(special_day[:, : days - start], [(0, 0), (start, 0)])
    missed = trailing_sum(jnp.abs(surprise - special_so_far) * surprising, 7)
    missed = missed / jnp.maximum(trailing_sum(surprising, 7), 1.0)

    moved, trust = level_moves.of_last_week(plain, observed)

    # The encoder reads a vector for each of the last `scan` days: where demand stood against its level, week and year.
    relative = jnp.clip(log - level, -4.0, 4.0) * observed
    lag7 = (log - shift(log, 7)) * observed * shift(observed, 7)
    size = (level - mean) / spread
    per_day = [relative, observed, lag7, week - level, yearly * year_count / YEAR * (level - year), size, count / LEVEL]
    per_day += [surprise, of_week, special_so_far]
    # Not the calendar: where all depots share their days, a run of dates is enough to know what came by heart.
    encoder = jnp.concatenate(
        [
            jnp.stack([part[:, days - scan :] for part in per_day], axis=-1),
            window.open[:, days - scan : days, None],
            window.covariates[:, days - scan : days],
        ],
        axis=-1,
    )

    # The decoder reads a vector for each day of the horizon. First what does not depend on the origin: lags of whole
    # weeks, the anchor's parts, the same day a year ago, the day's own calendar and covariates.
    def ago(x: Array, by: int) -> Array:
        """Values of x `by` days before each day that may be forecast, those after the first origin."""
        return between(x, first + 1 - by, total - by)

    calendar = (window.calendar * constants["calendar"][None, None])[..., :-1]
    holidays = calendar[..., -HOLIDAYS:]
    special = jnp.concatenate([window.covariates, holidays], axis=-1)
    habits = jnp.clip(plain - level, -4.0, 4.0) * observed
    # The same day a year of whole weeks ago, against the level of then.
    last_year_mask = yearly * ago(observed, YEAR)
    level_then = ago(level, YEAR + 7)
    last_year = jnp.clip(ago(log, YEAR) - level_then, -4.0, 4.0) * last_year_mask
    # Its whole week, three days before and after: one day may have been special.
    days_then = ago(week_count, YEAR - 3)
    last_week = jnp.clip(ago(week_sum, YEAR - 3) / jnp.maximum(days_then, 1.0) - level_then, -4.0, 4.0)
    last_week = yearly * last_week * (days_then > 0).astype(jnp.float32)
    special_then = yearly * ago(holidays, YEAR)

    def of_week_ahead(weeks_ahead: int, special_day: Array) -> Array:
        """The vectors of days that lie so many weeks after an origin's first one: what they take from the weeks before
        them is what that origin knows."""
        skipped = 7 * weeks_ahead

        def lately(x: Array, weeks: int) -> Array:
            """Values of x in the last weeks that are known of each day that may be forecast."""
            return between(x, first + 1 - 7 * weeks - skipped, total - 7 - skipped)

        def summed(recent: Array, weeks: int) -> Array:
            return trailing_sum(recent, weeks, every=7)[:, 7 * (weeks - 1) :]

        # The seasonal anchor: the mean of the last four same weekdays that are known, and of how many it is.
        weight = summed(lately(observed, WEEKS), WEEKS)
        same_weekday = summed(lately(plain, WEEKS), WEEKS) / jnp.maximum(weight, 1.0)
        # The habit of a weekday over a season, each week against its own level: steadier than the anchor's four.
        habit_weight = summed(lately(observed, SEASON_WEEKS), SEASON_WEEKS)
        habit = summed(lately(habits, SEASON_WEEKS), SEASON_WEEKS) / jnp.maximum(habit_weight, 1.0)
        # What was special on the days that make the anchor: without it, last week's promotion looks like a habit.
        at_anchor = summed(lately(special, WEEKS) * lately(observed, WEEKS)[..., None], WEEKS)
        # Side by side, in an order that the slices below know: lags and masks come first, what is special comes last.
        single = [ago(x, skipped + 7 * k) for x in (plain, observed) for k in range(1, WEEKS + 1)]
        single += [same_weekday, weight, habit, habit_weight / SEASON_WEEKS, last_year, last_year_mask, last_week]
        single += [special_day[:, first - start : -1], special_day[:, first + 1 - start :]]
        return jnp.concatenate(
            [
                jnp.stack([*single, ago(window.open, 0)], axis=-1),
                ago(calendar, 0),
                special_then,
                at_anchor / jnp.maximum(weight, 1.0)[..., None],
                ago(window.covariates, 1),
                ago(window.covariates, 0),
            ],
            axis=-1,
        )

    # One gather for each week: (depots, origins, days of the week, …), the value on the day that is forecast.
    by_week = []
    for week_ahead in range(-(-horizon // 7)):
        of_day = of_week_ahead(week_ahead, special_ahead_of(week_ahead) if week_ahead else special_day)
        skipped = 7 * week_ahead
        by_week.append(ahead_of(of_day, skipped - 1, origins, min(7, horizon - skipped), stride))
    day = by_week[0] if len(by_week) == 1 else jnp.concatenate(by_week, axis=2)
    # Then what depends on the origin: everything is measured against the level that the origin knows.
    origin_level = level[:, first::stride, None]
    lag, mask = day[..., :WEEKS], day[..., WEEKS : 2 * WEEKS]
    seasonal, anchor_weight, other_features = day[..., 2 * WEEKS], day[..., 2 * WEEKS + 1], day[..., 2 * WEEKS + 2 :]
    anchor = jnp.where(anchor_weight > 0, seasonal, origin_level)
    # What comes after the horizon is not known of any origin, though a later origin of the window knows it.
    covariates = day[..., day.shape[-1] - window.covariates.shape[-1] :]
    tomorrow = jnp.pad(covariates[:, :, 1:], ((0, 0), (0, 0), (0, 1), (0, 0)))
    # The first holidays that a depot sees have no counterpart: what the last days near them had goes on.
    special_ahead = day[..., SPECIAL : SPECIAL + 1]
    holiday_carry = ahead_of(unprecedented, -1, origins, horizon, stride) * so_far[:, first::stride, None]
    special_tomorrow = jnp.pad(special_ahead[:, :, 1:], ((0, 0), (0, 0), (0, 1), (0, 0)))
    against_level = jnp.clip(lag - origin_level[..., None], -4.0, 4.0) * mask
    # How far below and above the anchor the four same weekdays reach.
    least = jnp.where(mask > 0, lag, jnp.inf).min(axis=-1)
    most = jnp.where(mask > 0, lag, -jnp.inf).max(axis=-1)
    extremes = jnp.where(
        anchor_weight[..., None] > 0, jnp.clip(jnp.stack([least - anchor, most - anchor], axis=-1), -4.0, 4.0), 0.0
    )
    surprised = jnp.broadcast_to(of_week[:, first::stride, None, None], (*anchor.shape, 1))
    decoder = jnp.concatenate(
        [
            against_level,
            mask,
            (anchor - origin_level)[..., None],
            extremes,
            surprised,
            special_tomorrow,
            holiday_carry[..., None],
            other_features,
            tomorrow,
        ],
        axis=-1,
    )
    of_trees = tree_trust = None
    if trees:
        series = Series(log, plain, observed, surprise, surprising, level, size)
        known_ahead = jnp.concatenate([window.open[..., None], holidays, window.covariates], axis=-1)
        origin_places = Origins(first, origins, stride, horizon)
        by_origin = [further_inputs.lags(series, origin_places), window.statics.astype(jnp.float32)[:, None]]
        by_origin = [jnp.broadcast_to(x[:, :, None], (*anchor.shape, x.shape[-1])) for x in by_origin]
        further = further_inputs.make(series, known_ahead, anchor, yearly, origin_places)
        of_trees = jnp.concatenate([decoder, further, *by_origin], axis=-1)
        tree_trust = jnp.minimum(count[:, first::stride] / further_inputs.ENOUGH, 1.0)
    # Where the network starts from: the anchor with what special days add.
    anchor = anchor + jnp.squeeze(special_ahead, -1) + holiday_carry
    level, missed, moved, trust = (x[:, first::stride] for x in (level, missed, moved, trust))
    return Features(encoder, decoder, anchor, level, missed, moved, trust, of_trees, tree_trust)


def encoder_inputs(covariates: Sequence[str]) -> tuple[str, ...]:
    """Names of what the encoder reads of a day, in the order of `Features.encoder`."""
    own = "relative observed lag7 week year size level_days surprise surprise_week special open"
    return (*own.split(), *(f"covariate {name}" for name in covariates))


def decoder_inputs(covariates: Sequence[str], calendar: Sequence[str]) -> tuple[str, ...]:
    """Names of what the decoder reads of a day that is forecast, in the order of `Features.decoder`; the last of the
    calendar says which day a counterpart is, and is no input."""
    names = [f"{name} {week}" for name in ("lag", "known") for week in range(1, WEEKS + 1)]
    names += ["anchor", "least", "most", "surprise_week", "special_tomorrow", "holiday_carry"]
    names += ["habit", "habit_weeks", "last_year", "last_year_known", "last_year_week"]
    names += ["special_yesterday", "special", "open"]
    names += [f"calendar {name}" for name in calendar[:-1]]
    holidays = [f"calendar {name}" for name in calendar[:-1][-HOLIDAYS:]]
    names += [f"last_year {name}" for name in holidays]
    names += [f"at_anchor {name}" for name in (*(f"covariate {name}" for name in covariates), *holidays)]
    return (*names, *(f"covariate {name} {day}" for day in ("yesterday", "today", "tomorrow") for name in covariates))


def tree_inputs(covariates: Sequence[str], calendar: Sequence[str], statics: Sequence[str]) -> tuple[str, ...]:
    """Names of what boosted trees read of a day that is forecast, in the order of `Features.trees`."""
    further = further_inputs.names(covariates, calendar[:-1][-HOLIDAYS:])
    return (*decoder_inputs(covariates, calendar), *further, *(f"static {name}" for name in statics))


def encoder_width(covariates: int) -> int:
    return 11 + covariates


def decoder_width(covariates: int, calendar: int) -> int:
    return 2 * WEEKS + 13 + 4 * covariates + calendar + 2 * HOLIDAYS
