"""Feature engineering inside the compiled graph: logs, levels, lags and holiday effects of a window of raw counts.

Days run along the last axis of a (depots, days) array. `origins` are the days from which a forecast is made; in
training a window has many, in a forecast only the last day. Nothing after an origin reaches what is computed for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

LOOKBACK = 448  # days of history that one origin may look at: a year ago, and what was usual before it
LEVEL = 28  # days of the local level
WEEKS = 4  # same weekdays that make the seasonal anchor
HOLIDAYS = 4  # the last calendar features but one: a holiday, the day before one, the day after one, a day off
LEAST_BACK, MOST_BACK = 330, 400  # days from a day near a holiday back to its counterpart, which the last one says
SEASON_WEEKS = 12  # same weekdays that make a weekday's habit
YEAR = 364
SURE = 14  # days that tell how far the anchor usually misses, at least
MOVED = 1.0  # log counts between the weeks before and after a day, from which on the level moved there
MOST_SPECIAL = 2.0  # log counts that a special day adds to the anchor or takes from it, at most
ALIKE = 0.3  # of what tells two weekdays apart, the share that goes where both are days off
DOUBT = 1.0  # ordinary days that are counted with those few special ones from which others are foretold


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


def trailing_sum(
    x: Float[Array, "depots days *more"], length: int, every: int = 1
) -> Float[Array, "depots days *more"]:
    """Sum over `length` days, each `every` days before the next, up to each day: by doubling, so that a year takes
    eight shifts, and made of shifts alone, which are exact and export.
    """
    total, summed, power, block = None, 0, 1, x
    while power <= length:
        if length & power:
            shifted = shift(block, every * summed)
            total = shifted if total is None else total + shifted
            summed += power
        power *= 2
        if power <= length:
            block = block + shift(block, every * power // 2)
    assert total is not None  # as a length is one at least
    return total


def shift(x: Float[Array, "depots days *more"], days: int) -> Float[Array, "depots days *more"]:
    """x as it was `days` earlier; zero before the window."""
    return _between(x, -days, x.shape[1] - days)


def _between(x: Array, first: int, end: int) -> Array:
    """The days from `first` until before `end`, zero outside of the window."""
    days = x.shape[1]
    inside = x[:, max(first, 0) : max(min(end, days), 0)]
    before = min(max(-first, 0), end - first)
    after = end - first - before - inside.shape[1]
    if before == after == 0:
        return inside
    return jnp.pad(inside, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))


def ahead_of(x: Array, first: int, origins: int, horizon: int, stride: int) -> Array:
    """(depots, days, …) → (depots, origins, horizon, …): the value on each day that is forecast from each origin."""
    if origins == 1:
        return x[:, None, first + 1 : first + 1 + horizon]
    span = stride * (origins - 1) + 1
    return jnp.stack([x[:, first + h : first + h + span : stride] for h in range(1, horizon + 1)], axis=2)


def make(
    window: Window,
    constants: Mapping[str, Array],
    *,
    scan: int,
    origins: int,
    horizon: int,
    stride: int = 1,
) -> Features:
    """The features of a window's last `origins` origins, with an encoder that runs over its last `scan` days.

    Origins lie `stride` days apart, the last of them on the window's last day.
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
    plain, surprise, surprising, usual = _surprises(log, observed, near_holiday[:, :days] > 0)
    # Cut afterwards: of both at once the exporter makes now one node and now another.
    holiday, day_off = window.calendar[:, :, -1 - HOLIDAYS], window.calendar[:, :, -2]
    so_far = _so_far(surprise, usual, surprising * near_holiday[:, :days] * (1.0 - holiday[:, :days]))
    unprecedented = near_holiday[:, first + 1 :] * (_counterparts(surprising, back, first + 1) == 0).astype(jnp.float32)
    start = min(first, days - scan)
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
    # year; not from a day on which demand moved to another level, as no holiday did that.
    weekday = _weekday_effect(plain, observed, level, total)
    trusted = surprising * (1.0 - _level_shifts(plain, observed))
    off_then = day_off[:, :days] * trusted
    surprise_then = jnp.clip(surprise, -MOST_SPECIAL, MOST_SPECIAL) * trusted
    surprise_then, off_then, weekday_then = (
        _counterparts(x, back, start) for x in (surprise_then, off_then, weekday[:, :days] * off_then)
    )
    usual = _between(usual, start - 7, total - 7)  # of a week before each day, which every origin knows
    days_off = _days_off(surprise + weekday[:, :days], day_off[:, :days] * surprising, start, total)
    special_day = _special_days(
        surprise_then, off_then, weekday_then, day_off[:, start:], weekday[:, start:], *days_off
    )
    special_day = _excess(special_day, usual)

    # The encoder reads a vector for each of the last `scan` days: where demand stood against its level, week and year.
    relative = jnp.clip(log - level, -4.0, 4.0) * observed
    lag7 = (log - shift(log, 7)) * observed * shift(observed, 7)
    size = (level - mean) / spread
    per_day = [relative, observed, lag7, week - level, yearly * year_count / YEAR * (level - year), size, count / LEVEL]
    per_day += [surprise, of_week, jnp.pad(special_day[:, : days - start], [(0, 0), (start, 0)])]
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
        """What x was `by` days before each day that may be forecast, those after the first origin."""
        return _between(x, first + 1 - by, total - by)

    calendar = (window.calendar * constants["calendar"][None, None])[..., :-1]

    def lately(x: Array, weeks: int) -> Array:
        """What x was in the weeks before each day that may be forecast, the last of them a week before it."""
        return _between(x, first + 1 - 7 * weeks, total - 7)

    def summed(recent: Array, weeks: int) -> Array:
        return trailing_sum(recent, weeks, every=7)[:, 7 * (weeks - 1) :]

    def weeks_before(x: Array, weeks: int) -> Array:
        return summed(lately(x, weeks), weeks)

    # The seasonal anchor: the mean of the last four same weekdays that are known, and of how many it is.
    weight = weeks_before(observed, WEEKS)
    same_weekday = weeks_before(plain, WEEKS) / jnp.maximum(weight, 1.0)
    # The habit of a weekday over a season, each week against its own level: steadier than the anchor's four.
    habit_weight = weeks_before(observed, SEASON_WEEKS)
    habit = weeks_before(jnp.clip(plain - level, -4.0, 4.0) * observed, SEASON_WEEKS) / jnp.maximum(habit_weight, 1.0)
    # What was special on the days that make the anchor: without it, last week's promotion looks like a habit.
    holidays = calendar[..., -HOLIDAYS:]
    special = jnp.concatenate([lately(window.covariates, WEEKS), lately(holidays, WEEKS)], axis=-1)
    at_anchor = summed(special * lately(observed, WEEKS)[..., None], WEEKS) / jnp.maximum(weight, 1.0)[..., None]
    # The same day a year of whole weeks ago, against the level of then.
    last_year_mask = yearly * ago(observed, YEAR)
    level_then = ago(level, YEAR + 7)
    last_year = jnp.clip(ago(log, YEAR) - level_then, -4.0, 4.0) * last_year_mask
    # Its whole week, three days before and after: one day may have been special.
    days_then = ago(week_count, YEAR - 3)
    last_week = jnp.clip(ago(week_sum, YEAR - 3) / jnp.maximum(days_then, 1.0) - level_then, -4.0, 4.0)
    last_week = yearly * last_week * (days_then > 0).astype(jnp.float32)
    special_then = yearly * ago(holidays, YEAR)

    # Side by side, in an order that the slices below know: lags and masks come first, what is special comes last.
    lags = [ago(plain, 7 * k) for k in range(1, WEEKS + 1)]
    lag_masks = [ago(observed, 7 * k) for k in range(1, WEEKS + 1)]
    single = [*lags, *lag_masks, same_weekday, weight, habit, habit_weight / SEASON_WEEKS, last_year, last_year_mask]
    single += [last_week, special_day[:, first - start : -1], special_day[:, first + 1 - start :]]
    of_day = jnp.concatenate(
        [
            jnp.stack([*single, ago(window.open, 0)], axis=-1),
            ago(calendar, 0),
            special_then,
            at_anchor,
            ago(window.covariates, 1),
            ago(window.covariates, 0),
        ],
        axis=-1,
    )
    # One gather for everything: (depots, origins, horizon, …), the value on the day that is forecast.
    day = ahead_of(of_day, -1, origins, horizon, stride)
    # Then what depends on the origin: everything is measured against the level that the origin knows.
    origin_level = level[:, first::stride, None]
    lag, mask = day[..., :WEEKS], day[..., WEEKS : 2 * WEEKS]
    seasonal, anchor_weight, other_features = day[..., 2 * WEEKS], day[..., 2 * WEEKS + 1], day[..., 2 * WEEKS + 2 :]
    anchor = jnp.where(anchor_weight > 0, seasonal, origin_level)
    # What comes after the horizon is not known of any origin, though a later origin of the window knows it.
    covariates = day[..., day.shape[-1] - window.covariates.shape[-1] :]
    tomorrow = jnp.pad(covariates[:, :, 1:], ((0, 0), (0, 0), (0, 1), (0, 0)))
    # The first holidays that a depot sees have no counterpart: what the last days near them had goes on.
    special = day[..., len(single) - 1 : len(single)]
    holiday_carry = ahead_of(unprecedented, -1, origins, horizon, stride) * so_far[:, first::stride, None]
    special_tomorrow = jnp.pad(special[:, :, 1:], ((0, 0), (0, 0), (0, 1), (0, 0)))
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
    # Where the network starts from: the anchor with what special days add.
    return Features(encoder, decoder, anchor + jnp.squeeze(special, -1) + holiday_carry, level[:, first::stride])


def _surprises(log: Array, observed: Array, near: Array) -> tuple[Array, Array, Array, Array]:
    """Log counts without what is out of the usual near holidays, what the anchor missed of each day, where that is
    known, and how far the anchor usually misses; each (depots, days).

    Days near a holiday are held to the usual before they make an anchor or a level, as Christmas says little of the
    Thursdays after it. Twice, since one holiday may lie among the days that another is measured against. What the other
    days of the last week had out of the usual is theirs as well: a depot that lost a customer near a holiday has lost
    him afterwards too.
    """
    weeks_observed = shift(trailing_sum(observed, WEEKS, every=7), 7)
    measured = observed * (weeks_observed > 0).astype(jnp.float32)
    days_measured = trailing_sum(trailing_sum(measured, 7), YEAR // 7, every=7)

    def anchor_error(plain: Array) -> Array:
        expected = shift(trailing_sum(plain, WEEKS, every=7), 7) / jnp.maximum(weeks_observed, 1.0)
        return jnp.clip(log - expected, -4.0, 4.0) * measured

    def usual_error(surprise: Array) -> Array:
        return trailing_sum(trailing_sum(jnp.abs(surprise), 7), YEAR // 7, every=7) / jnp.maximum(days_measured, 1.0)

    surprise = anchor_error(log)
    bound, bounded = usual_error(surprise), near & (days_measured >= SURE)
    ordinary = measured * (1.0 - near.astype(jnp.float32))
    of_others = jnp.maximum(shift(trailing_sum(ordinary, 7), 1), 1.0)
    plain = log
    for _ in range(2):
        lately = _excess(shift(trailing_sum(surprise * ordinary, 7), 1) / of_others, usual_error(surprise))
        plain = jnp.where(bounded, log - (surprise - jnp.clip(surprise, lately - bound, lately + bound)), log)
        surprise = anchor_error(plain)
    return plain, surprise, measured, usual_error(surprise)


def _level_shifts(plain: Array, observed: Array) -> Array:
    """1 on days between four weeks and four that are not alike: there demand moved to another level, as where a depot
    opened again, and no holiday did it. What came after a day is known of one that lies a year back.
    """
    weeks_observed = trailing_sum(observed, WEEKS, every=7)
    mean = trailing_sum(plain, WEEKS, every=7) / jnp.maximum(weeks_observed, 1.0)
    days, ahead = observed.shape[1], 7 * WEEKS
    moved = jnp.abs(_between(mean, ahead, days + ahead) - shift(mean, 7)) > MOVED
    return (moved & (_between(weeks_observed, ahead, days + ahead) > 0)).astype(jnp.float32)


def _weekday_effect(plain: Array, observed: Array, level: Array, total: int) -> Array:
    """How far above the level the same weekdays were, both as they were known a week before, (depots, total)."""
    weeks_observed = trailing_sum(observed, WEEKS, every=7)
    above = trailing_sum(plain, WEEKS, every=7) / jnp.maximum(weeks_observed, 1.0) - level
    return _between(jnp.where(weeks_observed > 0, above, 0.0), -7, total - 7)


def _days_off(height: Array, off: Array, start: int, total: int) -> tuple[Array, Array]:
    """How far above the level the days off of a year were in the mean, and the share of it to be trusted, each as
    known a week before each day from `start` on, (depots, days).
    """
    height = jnp.clip(height, -MOST_SPECIAL, MOST_SPECIAL) * off
    sums = (trailing_sum(trailing_sum(x, 7), YEAR // 7, every=7) for x in (height, off))
    height, count = (_between(x, start - 7, total - 7) for x in sums)
    return height / jnp.maximum(count, 1.0), count / (count + DOUBT)


def _special_days(
    surprise: Array, free: Array, free_weekday: Array, off: Array, weekday: Array, height: Array, trust: Array
) -> Array:
    """What is out of the usual on each day by its counterpart and by the days off of a year, each (depots, days).

    `surprise` is the counterpart's, 0 where there is none, and no more of it, as the rest is last year's weather, by
    which a network would know the date. `free` marks that it was a day off, of which `free_weekday` says how far above
    the level its weekday was. `off` and `weekday` are the day's own, `height` and `trust` those of `_days_off`.
    Of two days off a part of what tells their weekdays apart goes. A day off whose counterpart was none has beside it
    what days off have as a rule; a day like others whose counterpart was a day off has what is left without that.
    """
    of_off = trust * (height - jnp.where(off > 0, weekday, free_weekday))  # as a rule, on such a weekday
    as_then = surprise + ALIKE * (free_weekday - weekday)
    left = jnp.where(
        surprise > 0,
        jnp.maximum(surprise - jnp.maximum(of_off, 0.0), 0.0),
        jnp.minimum(surprise - jnp.minimum(of_off, 0.0), 0.0),
    )
    when_off = jnp.where(free > 0, as_then, surprise + of_off)
    return jnp.clip(jnp.where(off > 0, when_off, jnp.where(free > 0, left, surprise)), -MOST_SPECIAL, MOST_SPECIAL)


def _so_far(surprise: Array, usual: Array, near: Array) -> Array:
    """What the days near holidays of the last week, those of `near`, had out of the usual in the mean, (depots, days).

    It goes on until the holidays are over, as from Christmas to the new year: that is all that is known of the first
    ones that a depot sees. Of a holiday itself nothing follows for the days after it.
    """
    usual = shift(usual, 7)  # of a week before
    beyond = _excess(jnp.clip(surprise, -MOST_SPECIAL, MOST_SPECIAL), usual) * near
    return trailing_sum(beyond, 7) / (trailing_sum(near, 7) + DOUBT)


def _excess(surprise: Array, usual: Array) -> Array:
    """What of a surprise is more than usual."""
    beyond = jnp.maximum(jnp.abs(surprise) - usual, 0.0)
    return jnp.where(surprise > 0, beyond, -beyond)


def _counterparts(x: Array, back: Array, start: int) -> Array:
    """What x was so many days back (depots, days and horizon) from each day from `start` on; 0 where that is 0.

    As a sum over all days that may be meant, as a gather would be one of the few operations that are no product or sum.
    """
    end = back.shape[1]
    first, last = start - MOST_BACK, end - LEAST_BACK
    back = back[:, start:]
    counterpart = jnp.where(back > 0, jnp.arange(start, end, dtype=back.dtype)[None] - back, -1.0)
    matches = counterpart[..., None] == jnp.arange(first, last, dtype=back.dtype)[None, None]
    return jnp.where(matches, _between(x, first, last)[:, None], 0.0).sum(axis=-1)


def encoder_width(covariates: int) -> int:
    return 11 + covariates


def decoder_width(covariates: int, calendar: int) -> int:
    return 2 * WEEKS + 13 + 4 * covariates + calendar + 2 * HOLIDAYS
