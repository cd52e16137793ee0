"""Reference implementation of the forward pass in plain NumPy, from `weights.npz` and the manifest.

What the graph computes, written to be read, and computed independently of JAX.
It takes the same raw inputs as `model.onnx` and gives the same quantiles. All of it is in double precision, so that
what differs from it is the rounding of the others. Arrays are (depots, days, …); days are the `lookback` days up to the
cutoff and then the horizon; what is forecast lies on the last `horizon` of them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from forecaster.core.arrays import Doubles, Floats
from forecaster.serving import numpy_further, numpy_trees
from forecaster.serving.day_arrays import near, shift, trailing
from forecaster.serving.numpy_further import DaySeries

MAX_LOG_COUNT = 20.0  # log counts


class ModelInputs(NamedTuple):
    """Features computed from raw inputs, before anything that is learned."""

    encoder: Doubles  # (depots, days, …)
    decoder: Doubles  # (depots, horizon, …)
    anchor: Doubles  # (depots, horizon), log counts
    missed: Doubles  # (depots,): what was missed of the last week
    moves: tuple[Doubles, Doubles]  # each (depots,): how the last week's level moved, and the share to be followed
    level: Doubles  # (depots,), log counts
    trusted: Doubles  # (depots,): share of the trees' weight, 1 where enough of the last days are known
    trees: Doubles  # (depots, horizon, …), what trees read; nothing without trees


class ReferenceModel:
    """The network in NumPy: a bundle's parameters, called with raw inputs."""

    def __init__(self, weights: bytes, manifest: Mapping[str, Any]) -> None:
        with np.load(io.BytesIO(weights), allow_pickle=False) as arrays:
            self.weights: dict[str, Doubles] = {name: arrays[name].astype(float) for name in arrays.files}
        self.sizes, self.lengths = manifest["architecture"], manifest["features"]

    def __call__(self, inputs: Mapping[str, Any]) -> Floats:
        """Quantiles of counts, (depots, horizon, levels): the members' mean, calibrated, zero on closed days."""
        read = self.features(inputs)
        statics, members = inputs["statics"], len(self.weights["members.out.bias"])
        predicted = np.stack([self.member(i, read.encoder, read.decoder, read.anchor, statics) for i in range(members)])
        mean = np.tensordot(self.weights["blend.members"], predicted, axes=1)
        median = self.sizes["levels"].index(0.5)
        middle = mean[..., [median]]
        drawn = middle[..., 0] + self.weights["blend.anchor"] * (read.anchor - middle[..., 0])
        weight, said = self.trees(read)
        drawn = drawn + weight * (said - drawn)
        open_ = inputs["open"][:, -self.sizes["horizon"] :]
        center = followed(drawn, read.anchor, open_, *read.moves)[..., None]
        log = center + self.surprised(mean - middle, read.missed) * self.weights["calibration"]
        # Calibration may reverse close neighbours, of which the one nearer the median holds.
        log[..., median:] = np.maximum.accumulate(log[..., median:], axis=-1)
        log[..., median::-1] = np.minimum.accumulate(log[..., median::-1], axis=-1)
        log = np.minimum(log, self.bound(inputs)[..., None])
        open_ = inputs["open"][:, -self.sizes["horizon"] :, None] > 0
        quantiles: Floats = np.where(open_, np.expm1(np.clip(log, 0, MAX_LOG_COUNT)), 0.0).astype(np.float32)
        return quantiles

    def trees(self, read: ModelInputs) -> tuple[Doubles, Doubles]:
        """The weight of boosted trees (depots, 1) and the log counts that they say (depots, horizon); 0 without any."""
        if "trees.leaf" not in self.weights:
            return np.zeros((len(read.level), 1)), np.zeros_like(read.anchor)
        feature, threshold, leaf = (self.weights[f"trees.{name}"] for name in ("feature", "threshold", "leaf"))
        said = numpy_trees.predict(feature, threshold, leaf, read.trees, self.lengths["ramp"]) + read.level[:, None]
        return self.weights["blend.trees"] * read.trusted[:, None], np.maximum(said, 0)

    def surprised(self, distance: Doubles, missed: Doubles) -> Doubles:
        """Distances to the median, grown where they are short for the last week's misses; not by bundles of before."""
        of = self.lengths
        if "follows" not in of:
            return distance
        normal = NormalDist()
        asked = np.sqrt(np.pi / 2) * np.array([abs(normal.inv_cdf(level)) for level in self.sizes["levels"]])
        ratio = asked * missed[:, None, None] / np.maximum(np.abs(distance), of["shortest"])
        grown: Doubles = distance * np.clip(ratio, 1, of["farthest_asked"]) ** of["follows"]
        return grown

    def bound(self, inputs: Mapping[str, Any]) -> Doubles:
        """The largest log count that a day's quantiles may say, (depots, horizon), by the largest one that a depot
        knows; not of depots that know few days, nor of bundles of before."""
        of, horizon = self.lengths, self.sizes["horizon"]
        depots, days = inputs["demand"].shape
        if "times_most" not in of:
            return np.full((depots, horizon), MAX_LOG_COUNT)
        known = np.isfinite(inputs["demand"]) & (inputs["open"][:, :days] > 0)
        most = np.log1p(np.max(inputs["demand"], axis=1, where=known, initial=0.0).astype(float))
        covariates, where = inputs["covariates"], known[..., None]
        ahead = covariates[:, days:]
        least = np.min(covariates[:, :days], axis=1, where=where, initial=np.inf)[:, None]
        highest = np.max(covariates[:, :days], axis=1, where=where, initial=-np.inf)[:, None]
        unseen = np.any((ahead < least) | (ahead > highest), axis=-1)
        growth = np.log(of["times_most"] + np.arange(horizon) // 7)
        supported = most[:, None] + growth + of["most_unseen"] * unseen
        return np.where(known.sum(axis=1)[:, None] >= of["enough_days"], supported, MAX_LOG_COUNT)

    def moves(self, plain: Doubles, observed: Doubles) -> tuple[Doubles, Doubles]:
        """Distance of the last week from the anchor of the next one, and which share of it is
        followed, each (depots,): as far as its days lie on one side, and farther than weeks do;
        nothing by bundles of before."""
        of, weeks, year = self.lengths, self.lengths["weeks"], self.lengths["year"]
        if "most_moved" not in of:
            return np.zeros(len(plain)), np.zeros(len(plain))
        known = trailing(observed, weeks, 7)
        comparable = observed * (known > 1)
        distance = (plain - trailing(plain, weeks, 7) / np.maximum(known, 1)) * comparable
        days = trailing(comparable, 7)
        moved = trailing(distance, 7) / np.maximum(days, 1)
        weeks_known = trailing((days > 0).astype(float), year)[:, -1]
        usual = trailing(np.abs(moved), year)[:, -1] / np.maximum(weeks_known, 1)
        sides = trailing(distance / (np.abs(distance) + of["least_distance"]), 7)[:, -1]
        days, moved = days[:, -1], moved[:, -1]
        trust = (days >= of["least_days"]) * ramp(np.abs(sides) / np.maximum(days, 1), *of["one_sided"])
        trust = trust * ramp(np.abs(moved) / np.maximum(usual, of["least_usual"]), *of["unusual"])
        return np.clip(moved, -of["most_moved"], of["most_moved"]), trust

    def features(self, inputs: Mapping[str, Any]) -> ModelInputs:
        """Inputs of encoder, decoder and trees, and what the forecast starts from."""
        of = self.lengths
        weeks, season, year = of["weeks"], of["season_weeks"], of["year"]
        scan, horizon = self.sizes["scan"], self.sizes["horizon"]
        mean, spread, yearly = (self.weights[f"constants.{name}"] for name in ("mean", "spread", "yearly"))
        covariates = inputs["covariates"].astype(float)
        calendar = (inputs["calendar"] * self.weights["constants.calendar"])[..., :-1]
        back = inputs["calendar"][..., -1].astype(int)
        demand, open_ = inputs["demand"].astype(float), inputs["open"].astype(float)
        days = demand.shape[1]

        usable = np.isfinite(demand) & (open_[:, :days] > 0)
        observed, log = usable.astype(float), np.log1p(np.where(usable, demand, 0.0))  # 0 where it is not known

        # The surprise: what the last same weekdays did not tell of a day. Near a holiday a day is held to the usual
        # before it tells of others; twice, as one holiday may lie among the days that another is measured against. What
        # the other days of the week before had out of the usual is no holiday's doing.
        same_weekdays = shift(trailing(observed, weeks, 7), 7)
        surprising = observed * (same_weekdays > 0)
        counted = trailing(surprising, year)

        def extend(x: Doubles) -> Doubles:
            return np.pad(x, [(0, 0), (0, horizon)])

        def of_counterpart(x: Doubles) -> Doubles:
            """Values of x on the counterpart of each day, 0 where there is none."""
            place = np.arange(days + horizon) - back
            return np.where((back > 0) & (place >= 0), np.take_along_axis(x, np.clip(place, 0, days - 1), axis=1), 0.0)

        def bounded(x: Doubles) -> Doubles:
            return np.clip(x, -of["most_special"], of["most_special"])

        def missed(plain: Doubles) -> tuple[Doubles, Doubles]:
            """The surprise against an anchor of these log counts, and how large it is as a rule."""
            surprise: Doubles = (
                near(log - shift(trailing(plain, weeks, 7), 7) / np.maximum(same_weekdays, 1)) * surprising
            )
            return surprise, trailing(np.abs(surprise), year) / np.maximum(counted, 1)

        surprise, usual = missed(log)
        bound, limited = usual, (back[:, :days] > 0) & (counted >= of["sure"])
        others = surprising * (back[:, :days] == 0)
        count_others = np.maximum(shift(trailing(others, 7), 1), 1)
        for _ in range(2):
            lately = more_than(usual, shift(trailing(surprise * others, 7), 1) / count_others)
            plain = np.where(limited, log - surprise + np.clip(surprise, lately - bound, lately + bound), log)
            surprise, usual = missed(plain)

        of_week = trailing(surprise, 7) / np.maximum(trailing(surprising, 7), 1)

        # The first holidays that a depot sees: what the days near one had out of the usual in the last week goes on, on
        # days near one whose counterpart is not known.
        here = surprising * (back[:, :days] > 0) * (1 - inputs["calendar"][:, :days, -1 - of["holidays"]])
        beyond = more_than(shift(usual, 7), bounded(surprise)) * here
        so_far = trailing(beyond, 7)[:, -1:] / (trailing(here, 7)[:, -1:] + of["doubt"])
        goes_on = np.where((back > 0) & (of_counterpart(surprising) == 0), so_far, 0.0)[:, days:]

        # The level: the mean log count of four weeks, else of a year, else of what training saw.
        count, year_count = trailing(observed, of["level"]), trailing(observed, year)
        of_year = trailing(plain, year) / np.maximum(year_count, 1)
        level = np.where(year_count > 0, of_year, mean)
        level = np.where(count > 0, trailing(plain, of["level"]) / np.maximum(count, 1), level)

        # How far above the level the same weekdays are, and the days off of a year.
        same_weekday_count = trailing(observed, weeks, 7)
        same = trailing(plain, weeks, 7) / np.maximum(same_weekday_count, 1)
        above = extend(np.where(same_weekday_count > 0, same - level, 0.0))
        weekday_known = shift(above, 7)[:, :days]
        off = inputs["calendar"][:, :, -2]
        off_observed = off[:, :days] * surprising
        heights = bounded(surprise + weekday_known) * off_observed

        # A special day: what was out of the usual on its counterpart, the same day of the same holiday a year before,
        # unless demand moved to another level there, or nothing was usual before it. Of two days off a part of what
        # tells their weekdays apart goes; where only one of them is a day off, what days off have as a rule comes on
        # top or is left out.
        later, later_count = (np.pad(x[:, 7 * weeks :], [(0, 0), (0, 7 * weeks)]) for x in (same, same_weekday_count))
        settled = surprising * ~((np.abs(later - shift(same, 7)) > of["moved"]) & (later_count > 0))
        lagged, known_then = (np.stack([shift(x, 7 * week) for week in range(1, weeks + 1)]) for x in (plain, observed))
        highest, lowest = (
            np.where(known_then > 0, lagged, 0).max(axis=0),
            np.where(known_then > 0, lagged, np.inf).min(axis=0),
        )
        settled = settled * ~(highest - lowest > of.get("swing", np.inf))
        of_last_year, off_then = of_counterpart(bounded(surprise) * settled), of_counterpart(off[:, :days] * settled)
        weekday_then = of_counterpart(weekday_known * off[:, :days] * settled)

        def special_as_known(of_days_before: int) -> Doubles:
            """Special days, by what is known so many days before them."""
            weekday = shift(above, of_days_before)
            off_count = shift(extend(trailing(off_observed, year)), of_days_before)
            height = shift(extend(trailing(heights, year)), of_days_before) / np.maximum(off_count, 1)
            of_off = off_count / (off_count + of["doubt"]) * (height - np.where(off > 0, weekday, weekday_then))
            both = of_last_year + of["alike"] * (weekday_then - weekday)
            left = np.where(of_last_year * of_off > 0, more_than(np.abs(of_off), of_last_year), of_last_year)
            when_off = np.where(off_then > 0, both, of_last_year + of_off)
            special = bounded(np.where(off > 0, when_off, np.where(off_then > 0, left, of_last_year)))
            return more_than(shift(extend(usual), of_days_before), special)

        special_day = special_as_known(7)
        missed_lately = trailing(np.abs(surprise - special_day[:, :days]) * surprising, 7)[:, -1]
        missed_lately /= np.maximum(trailing(surprising, 7)[:, -1], 1)

        week_count = trailing(observed, 7)
        week = np.where(week_count > 0, trailing(log, 7) / np.maximum(week_count, 1), level)
        relative = near(log - level) * observed
        lag7 = (log - shift(log, 7)) * observed * shift(observed, 7)

        per_day = [relative, observed, lag7, week - level, yearly * year_count / year * (level - of_year)]
        per_day += [(level - mean) / spread, count / of["level"], surprise, of_week, special_day[:, :days]]
        per_day += [open_[:, :days]]
        encoder = np.concatenate([np.stack(per_day, axis=-1), covariates[:, :days]], axis=-1)[:, -scan:]

        log_, plain_, observed_ = extend(log), extend(plain), extend(observed)
        holidays = calendar[:, :, -of["holidays"] :]
        special = np.concatenate([covariates, holidays], axis=-1) * observed_[..., None]
        habits = extend(near(plain - level) * observed)

        # A year ago: that day, and its whole week, against the level of then.
        year_observed = yearly * shift(observed_, year)
        then = shift(extend(level), year + 7)
        last_year = near(shift(log_, year) - then) * year_observed
        close = shift(trailing(observed_, 7), year - 3)
        last_week = yearly * near(shift(trailing(log_, 7), year - 3) / np.maximum(close, 1) - then) * (close > 0)
        now = level[:, -1:]

        def ahead(first: int) -> tuple[Doubles, Doubles, Doubles]:
            """Inputs of the decoder, the anchor, and what is special, of the days ahead from
            `first` on, a week at most: of the weeks before them what is known on the last day of
            history."""
            these, skipped = slice(days + first, days + min(first + 7, horizon)), first

            def before(x: Doubles, count: int) -> Doubles:
                """The sum over the same weekdays of the last so many weeks that are known."""
                return shift(trailing(x, count, 7), 7 + skipped)[:, these]

            special_then = special_as_known(7 + skipped)
            weight, habit_weight = before(observed_, weeks), before(observed_, season)
            same_weekday = before(plain_, weeks) / np.maximum(weight, 1)
            lag = np.stack([shift(plain_, 7 * k + skipped)[:, these] for k in range(1, weeks + 1)], axis=-1)
            mask = np.stack([shift(observed_, 7 * k + skipped)[:, these] for k in range(1, weeks + 1)], axis=-1)
            anchor = np.where(weight > 0, same_weekday, now)
            least, most = np.where(mask > 0, lag, np.inf).min(-1), np.where(mask > 0, lag, -np.inf).max(-1)
            extremes = [np.where(weight > 0, near(bound - anchor), 0.0) for bound in (least, most)]
            surprised = np.broadcast_to(of_week[:, -1:], anchor.shape)
            habit = before(habits, season) / np.maximum(habit_weight, 1)
            of_day = [anchor - now, *extremes, surprised]
            of_day += [np.zeros_like(anchor), goes_on[:, first : first + 7], habit, habit_weight / season]
            of_day += [x[:, these] for x in (last_year, year_observed, last_week, shift(special_then, 1), special_then)]
            several = [x[:, these] for x in (calendar, yearly * shift(holidays, year))]
            several += [before(special, weeks) / np.maximum(weight, 1)[..., None]]
            several += [x[:, these] for x in (shift(covariates, 1), covariates)]
            decoder = [near(lag - now[..., None]) * mask, mask, np.stack([*of_day, open_[:, these]], axis=-1)]
            return np.concatenate([*decoder, *several], axis=-1), anchor, special_then[:, these]

        by_week = [ahead(first) for first in range(0, horizon, 7)]
        decoder, anchor, special_ahead = (np.concatenate(parts, axis=1) for parts in zip(*by_week, strict=True))
        # Of the day after the last one nothing is known.
        decoder[:, :-1, 2 * weeks + 4] = special_ahead[:, 1:]
        tomorrow = np.pad(covariates[:, days + 1 :], [(0, 0), (0, 1), (0, 0)])
        decoder = np.concatenate([decoder, tomorrow], axis=-1)
        trees, trusted = np.zeros((*anchor.shape, 0)), np.ones(len(level))
        if "trees.leaf" in self.weights:
            series = DaySeries(log, plain, observed, surprise, surprising, level, (level - mean) / spread)
            known_ahead = np.concatenate([open_[..., None], holidays, covariates], axis=-1)
            further = numpy_further.inputs(series, known_ahead, anchor, float(yearly), of)
            statics = np.broadcast_to(inputs["statics"][:, None], (*anchor.shape, inputs["statics"].shape[1]))
            trees = np.concatenate([decoder, further, statics], axis=-1)
            trusted = np.minimum(count[:, -1] / of["enough"], 1)
        anchor = anchor + special_ahead + goes_on
        return ModelInputs(
            encoder, decoder, anchor, missed_lately, self.moves(plain, observed), level[:, -1], trusted, trees
        )

    def member(self, number: int, encoder: Doubles, decoder: Doubles, anchor: Doubles, statics: Any) -> Doubles:
        """Quantiles of log(1 + count) of one member, (depots, horizon, levels)."""
        weights = {name: x[number] for name, x in self.weights.items() if name.startswith("members.")}

        def of(name: str) -> Doubles:
            array: Doubles = weights[f"members.{name}"]
            return array

        tables = [of(f"embeddings.{i}.embedding") for i in range(len(self.sizes["labels"]))]
        embedded = [table[statics[:, i]] for i, table in enumerate(tables)]

        def beside(x: Doubles) -> Doubles:
            """With what never changes in a depot on each of its days."""
            parts = [np.broadcast_to(vector[:, None], (*x.shape[:2], vector.shape[1])) for vector in embedded]
            return np.concatenate([x, *parts], axis=-1)

        x = beside(encoder)
        for i in range(self.sizes["layers"]):
            cell = f"cells.{i}."
            x = gru(x, of(cell + "dense_i.kernel"), of(cell + "dense_i.bias"), of(cell + "dense_h.kernel"))
        state = x[:, -1] @ of("state.kernel") + of("state.bias")
        hidden = np.maximum(beside(decoder) @ of("day.kernel") + state[:, None] + of("step.embedding"), 0)
        hidden = hidden + np.maximum(hidden @ of("mix.kernel") + of("mix.bias"), 0)
        out = hidden @ of("out.kernel") + of("out.bias")

        # The median adds to the anchor; the levels step away from it, and so never cross.
        median = self.sizes["levels"].index(0.5)
        center = anchor[..., None] + out[..., [median]]
        down = reach(out[..., :median][..., ::-1], self.lengths["farthest_down"])[..., ::-1]
        up = reach(out[..., median + 1 :], self.lengths["farthest_up"])
        return np.concatenate([center - down, center, center + up], axis=-1)


def followed(center: Doubles, anchor: Doubles, open_: Any, moved: Doubles, trust: Doubles) -> Doubles:
    """Medians (depots, horizon) in log counts that went as far from the anchor as the last week says; what they went by
    themselves that way, in the mean over the open days of a week, counts."""
    gone = _gone(center, anchor, open_)
    rest = moved - np.clip(gone, np.minimum(moved, 0), np.maximum(moved, 0))
    followed_center: Doubles = center + (trust * rest)[:, None]
    return followed_center


def before_following(followed_center: Doubles, anchor: Doubles, open_: Any, moved: Doubles, trust: Doubles) -> Doubles:
    """The medians that `followed` had; where they follow wholly, one of those that it may have had."""
    side = np.where(moved < 0, -1.0, 1.0)
    now, most = _gone(followed_center, anchor, open_) * side, np.abs(moved)
    inside = (now - trust * most) / np.maximum(1 - trust, 1e-9)
    was = np.where(now > most, now, np.where(now < trust * most, now - trust * most, np.clip(inside, 0, most)))
    center: Doubles = followed_center - ((now - was) * side)[:, None]
    return center


def _gone(center: Doubles, anchor: Doubles, open_: Any) -> Doubles:
    """Mean distance from the anchor over the open days of a week, (depots,)."""
    week = open_[:, :7].astype(float)
    gone: Doubles = ((center - anchor)[:, :7] * week).sum(axis=1) / np.maximum(week.sum(axis=1), 1)
    return gone


def ramp(x: Doubles, low: float, high: float) -> Doubles:
    """0 up to `low`, 1 from `high` on."""
    return np.clip((x - low) / (high - low), 0, 1)


def more_than(usual: Doubles, surprise: Doubles) -> Doubles:
    """Part of a surprise that is more than usual."""
    return np.sign(surprise) * np.maximum(np.abs(surprise) - usual, 0.0)


def gru(x: Doubles, kernel_i: Doubles, bias: Doubles, kernel_h: Doubles) -> Doubles:
    """The states of a GRU layer after each day (Cho et al. 2014, arXiv:1406.1078), from a zero state; gates r, z, n."""
    h = np.zeros((len(x), len(kernel_h)))
    states = []
    for projected in np.swapaxes(x @ kernel_i + bias, 0, 1):
        (xr, xz, xn), (hr, hz, hn) = np.split(projected, 3, axis=-1), np.split(h @ kernel_h, 3, axis=-1)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        n = np.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        states.append(h)
    return np.stack(states, axis=1)


def sigmoid(x: Doubles) -> Doubles:
    """The logistic function, without overflow."""
    return 0.5 * np.tanh(0.5 * x) + 0.5


def reach(steps: Doubles, farthest: float) -> Doubles:
    """Distance of each level from the median, the nearest first; never as far as `farthest`."""
    return farthest * np.tanh(np.cumsum(np.logaddexp(0, steps), axis=-1) / farthest)
