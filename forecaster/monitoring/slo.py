"""Service level objectives: the standing of each, the rest of its error budget, and its burn rate.

For objectives that count events, the error budget is the share that may fail, and a burn rate of 1
spends exactly that in the whole window (Beyer et al., *The Site Reliability Workbook*, 2018,
chapter 5). For objectives that bound a number, the budget is the distance from its ideal value to
its bound. All from the ledger, and from the counts of the pages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice, pairwise
from statistics import median
from typing import Any, Literal

import sqlalchemy as sa

from forecaster.config import Slo, Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, as_sentence, counted, joined, sentence
from forecaster.core.terminal import count
from forecaster.ledger import accuracy, records, tables
from forecaster.ledger.columns.instants import Instant
from forecaster.ledger.run_totals import TIMED_RUNS
from forecaster.ledger.store import ITSELF, Ledger
from forecaster.monitoring import page_answers
from forecaster.monitoring.readings import Reading, realised
from forecaster.operations import due_nights

NIGHTS = 90
WINDOW, RECENT = timedelta(days=28), timedelta(days=7)
WEEKS = 4
# days with actuals before accuracy is compared with its objectives: two bad days are not four weeks
LEAST_DAYS = 7
SLOWER = 1.5  # factor on the usual duration above which a night is too long
AFTER_PUBLICATION = ("record", "register")  # stages that only record a published forecast
_NO_INFERENCE = N_("only in Prometheus: inference keeps no counts in the ledger")
_NOT_YET = sentence(N_("not measured yet"))
State = Literal["kept", "burning", "broken", "unknown"]


@dataclass(frozen=True)
class Standing:
    """Standing of an objective. `budget_left` is 1 if nothing was spent, and negative if the budget
    is exceeded; `burn_rate` is that of the last week; None if unknown."""

    key: str  # S1 to S9
    name: str  # key of the section `slo`
    promise: str
    measured: str
    budget_left: float | None = None
    burn_rate: float | None = None

    @property
    def label(self) -> str:
        """Name of the objective in Prometheus, such as S1_deadline."""
        return f"{self.key}_{self.name}"

    @property
    def state(self) -> State:
        if self.budget_left is None:
            return "unknown"
        if self.budget_left < 0:
            return "broken"
        return "burning" if (self.burn_rate or 0) > 1 else "kept"


@dataclass(frozen=True)
class Freeze:
    """Reason why no night promotes a model: the violated objectives of accuracy."""

    broken: tuple[Standing, ...]

    @property
    def sentence(self) -> str:
        template = N_("{promise}, and it is {measured}")
        promises = (sentence(template, promise=row.promise, measured=row.measured) for row in self.broken)
        return sentence(N_("promotions are frozen; missed objectives: {promises}"), promises=joined(promises) or "")


def standings(spec: Spec, ledger: Ledger, now: datetime) -> list[Standing]:
    """Return all objectives in order. Raises LedgerError if the ledger cannot be read."""
    slo = spec.slo or Slo()
    with ledger.transaction() as connection:
        runs = _runs(connection, spec.name, now - timedelta(days=NIGHTS + 1))
        accurate = list(_accuracy(connection, spec.name, slo))
        first = connection.execute(
            sa.select(sa.func.min(tables.runs.c.as_of, type_=Instant)).where(
                tables.runs.c.pipeline == spec.name, tables.runs.c.kind == "night"
            )
        ).scalar()
    return [
        _deadline(spec, slo, runs, first, now),
        _tier(slo, runs, now),
        *_page(spec, slo, now),
        Standing("S5", "–", sentence(N_("inference answers, and warm within 0.2 s")), as_sentence(_NO_INFERENCE)),
        Standing("S6", "–", sentence(N_("fewer than 1 % of requests meet a cold model")), as_sentence(_NO_INFERENCE)),
        _cache(slo, runs, now),
        _night_time(slo, runs, now),
        *accurate,
    ]


def freeze(spec: Spec, ledger: Ledger, now: datetime) -> Freeze | None:
    """Return the reason why no night may promote a model. None if it may: no objective is declared
    or violated, there is no champion, or a person has promoted one within the window of the
    violation."""
    if spec.slo is None or not spec.slo.freeze or ledger.champion(spec.name) is None:
        return None
    with ledger.transaction() as connection:
        broken = tuple(status for status in _accuracy(connection, spec.name, spec.slo) if status.state == "broken")
    by_hand = [promotion.at for promotion in ledger.promotions(spec.name) if promotion.by not in ITSELF]
    if not broken or any(at > now - WINDOW for at in by_hand):
        return None
    return Freeze(broken)


@dataclass(frozen=True)
class _PastRun:
    kind: str
    night: datetime | None
    as_of: datetime
    started_at: datetime
    finished_at: datetime
    published: bool
    timings: dict[str, float]
    measures: dict[str, Any]

    @property
    def out_at(self) -> datetime:
        """Latest instant of publication of its forecast: the end of the run minus the stages after
        publication."""
        return self.finished_at - timedelta(seconds=sum(self.timings.get(stage, 0.0) for stage in AFTER_PUBLICATION))

    @property
    def seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()


def _runs(connection: sa.Connection, pipeline: str, since: datetime) -> list[_PastRun]:
    """Return the ended runs that were meant to publish, the oldest first."""
    row = tables.runs.c
    columns = (row.kind, row.night, row.as_of, row.started_at, row.finished_at, row.outcome, row.timings, row.measures)
    query = sa.select(*columns).where(
        row.pipeline == pipeline,
        row.started_at >= since,
        row.finished_at.is_not(None),
        row.kind.in_(("night", "refresh", "predict")),
        row.outcome != "busy",
    )
    return [
        _PastRun(kind, night, as_of, started, finished, outcome in ("published", "degraded"), timings, measures or {})
        for kind, night, as_of, started, finished, outcome, timings, measures in connection.execute(
            query.order_by(row.started_at)
        )
    ]


def _of_events(key: str, name: str, objective: str, share: float, events: Sequence[tuple[float, float]]) -> Standing:
    """Return the standing of an objective that counts events: (failed, all) in its window, then in
    the last week."""
    (failed, total), (failed_lately, lately) = events
    if not total:
        return Standing(key, name, objective, _NOT_YET)
    budget = 1 - share
    measured = sentence(N_("{share} of {n}"), share=amount(1 - failed / total, ".2%"), n=round(total))
    burn_rate = failed_lately / lately / budget if lately else None
    return Standing(key, name, objective, measured, 1 - failed / total / budget, burn_rate)


def _share(template: str, share: float) -> str:
    return sentence(template, share=amount(share, ".1%"))


def _against(wape: float, backtest: float) -> str:
    return sentence(N_("{wape} against {backtest}"), wape=amount(wape, ".1%"), backtest=amount(backtest, ".1%"))


def _deadline(spec: Spec, slo: Slo, runs: Sequence[_PastRun], first: datetime | None, now: datetime) -> Standing:
    """Return the standing of the deadline, over scheduled nights since the first one whose deadline
    has passed: late if no forecast was published by then."""
    late = _late_nights(spec, runs, first, now)
    recent = [is_late for night, is_late in late if night > now - RECENT]
    objective = sentence(
        N_("{share} of {n} nights published by {time}"),
        share=amount(slo.deadline, ".1%"),
        n=NIGHTS,
        time=str(spec.schedule.deadline),
    )
    if not late:
        return Standing("S1", "deadline", objective, _NOT_YET)
    # The budget is that of ninety nights, even at the start: otherwise, one late night among the
    # first ten would exceed it.
    nights_late, budget = sum(is_late for _, is_late in late), 1 - slo.deadline
    burn_rate = sum(recent) / len(recent) / budget if recent else None
    nights = counted(nights_late, "{n} night", "{n} nights")
    measured = sentence(N_("{nights} late of {n}"), nights=nights, n=len(late))
    return Standing("S1", "deadline", objective, measured, 1 - nights_late / NIGHTS / budget, burn_rate)


def _late_nights(
    spec: Spec, runs: Sequence[_PastRun], first: datetime | None, now: datetime
) -> list[tuple[datetime, bool]]:
    """Return the scheduled nights whose deadline has passed, each with True if nothing was
    published by then."""
    scheduled = list(islice(due_nights.scheduled_nights(spec, now), NIGHTS))
    bounds = due_nights.with_neighbours(spec, scheduled[::-1])
    out_at = defaultdict[datetime | None, list[datetime]](list)
    for run in runs:
        if run.published:
            out_at[due_nights.matching_night(bounds, run.night, run.as_of)].append(run.out_at)
    deadlines = {night: due_nights.deadline(spec, night) for night in scheduled}
    return [
        (night, not any(at <= due_by for at in out_at[night]))
        for night, due_by in deadlines.items()
        # the objective starts with the first night
        if first is not None and first <= due_by <= now
    ]


def _tier(slo: Slo, runs: Sequence[_PastRun], now: datetime) -> Standing:
    events = []
    for window in (WINDOW, RECENT):
        depots = [run.measures.get("depots", {}) for run in runs if run.finished_at > now - window]
        events.append((sum(tiers.get("fallback", 0) for tiers in depots), sum(sum(t.values()) for t in depots)))
    return _of_events("S2", "tier", _share(N_("{share} of depot-nights by a model"), slo.tier), slo.tier, events)


def _page(spec: Spec, slo: Slo, now: datetime) -> Iterator[Standing]:
    answers = [page_answers.between(spec.paths.page_answers, now - window, now) for window in (WINDOW, RECENT)]
    for key, name, share, objective, events in (
        (
            "S3",
            "availability",
            slo.availability,
            N_("{share} of answers no error"),
            [(a.errors, a.total) for a in answers],
        ),
        (
            "S4",
            "latency",
            slo.latency,
            N_("{share} of answers within 0.2 s"),
            [(a.slow, a.total) for a in answers],
        ),
    ):
        status = _of_events(key, name, _share(objective, share), share, events)
        if status.budget_left is None:
            status = Standing(key, name, status.promise, sentence(N_("not measured: no page counts with --metrics")))
        yield status


def _cache(slo: Slo, runs: Sequence[_PastRun], now: datetime) -> Standing:
    """Return the standing of the cache, over the programs of trainings with unchanged versions."""
    trained = [run for run in runs if "versions" in run.measures and "compile_misses" in run.measures]
    same = [run for before, run in pairwise(trained) if run.measures["versions"] == before.measures["versions"]]
    events = []
    for window in (WINDOW, RECENT):
        programs = [
            (run.measures["compile_misses"], run.measures["compile_hits"])
            for run in same
            if run.finished_at > now - window
        ]
        misses = sum(program_misses for program_misses, _ in programs)
        events.append((misses, misses + sum(hits for _, hits in programs)))
    return _of_events("S7", "cache", _share(N_("{share} of programs from the cache"), slo.cache), slo.cache, events)


def _night_time(slo: Slo, runs: Sequence[_PastRun], now: datetime) -> Standing:
    nights = [run for run in runs if run.kind == "night"]
    slow: list[tuple[datetime, bool]] = []
    for number, night in enumerate(nights):
        before = [earlier.seconds for earlier in nights[max(0, number - TIMED_RUNS) : number]]
        if before:
            slow.append((night.finished_at, night.seconds > SLOWER * median(before)))
    events = []
    for window in (WINDOW, RECENT):
        of_window = [is_slow for at, is_slow in slow if at > now - window]
        events.append((sum(of_window), len(of_window)))
    objective = sentence(
        N_("{share} of nights within {times} of their usual time"),
        share=amount(slo.night_time, ".1%"),
        times=amount(SLOWER, "g"),
    )
    return _of_events("S8", "night_time", objective, slo.night_time, events)


def _accuracy(connection: sa.Connection, pipeline: str, slo: Slo) -> Iterator[Standing]:
    """Yield WAPE relative to the champion's backtest, coverage and bias, over four weeks and over
    the last of them; unknown with fewer than `LEAST_DAYS` days."""
    newest = accuracy.newest_week(connection, pipeline)
    windows: list[accuracy.Tally | None] = [None, None]
    if newest is not None and _scored_days(connection, pipeline, newest) >= LEAST_DAYS:
        windows = [realised(connection, pipeline, newest, weeks).get(accuracy.FORECAST) for weeks in (WEEKS, 1)]
    backtest = _champion_wape(connection, pipeline)
    low, high = slo.coverage
    # distances from 80 % to the upper and to the lower bound
    half = {True: high - 0.8, False: 0.8 - low}
    objectives = {
        "error_ratio": sentence(N_("WAPE at most {ratio} of the backtest's"), ratio=amount(slo.error_ratio, "g")),
        "coverage": sentence(
            N_("{low} to {high} within the 80 % range"), low=amount(low, ".0%"), high=amount(high, ".0%")
        ),
        "bias": sentence(N_("off by at most {share} in sum"), share=amount(slo.bias, ".1%")),
    }

    def measured(tally: accuracy.Tally) -> dict[str, tuple[str, float]]:
        """Return the measured value of each objective, and the spent share of its budget."""
        measures = {}
        if tally.wape is not None and backtest:
            spent = max(tally.wape / backtest - 1, 0.0) / (slo.error_ratio - 1)
            measures["error_ratio"] = _against(tally.wape, backtest), spent
        if tally.coverage is not None:
            spent = abs(tally.coverage - 0.8) / half[tally.coverage > 0.8]
            measures["coverage"] = amount(tally.coverage, ".1%"), spent
        if tally.bias is not None:
            measures["bias"] = amount(tally.bias, "+.1%"), abs(tally.bias) / slo.bias
        return measures

    four_weeks, recent = (measured(tally) if tally else {} for tally in windows)
    for name, objective in objectives.items():
        if name not in four_weeks:
            yield Standing("S9", name, objective, _NOT_YET)
            continue
        text, used = four_weeks[name]
        yield Standing("S9", name, objective, text, 1 - used, recent[name][1] if name in recent else None)


def _scored_days(connection: sa.Connection, pipeline: str, newest: date) -> int:
    """Return the number of days with actuals of forecasts in the four weeks up to the newest."""
    table = tables.hindsight.c
    weekdays = sa.select(sa.func.count()).where(
        table.pipeline == pipeline,
        table.week.in_([newest - timedelta(weeks=number) for number in range(WEEKS)]),
        table.model == accuracy.FORECAST,
        table.part == accuracy.WEEKDAY,
        table.days > 0,
    )
    return int(connection.execute(weekdays).scalar_one())


def _champion_wape(connection: sa.Connection, pipeline: str) -> float | None:
    """Return the WAPE of the champion's own backtest when it became champion."""
    champion = records.champion(connection, pipeline)
    if champion is None:
        return None
    verdict = connection.execute(
        sa.select(tables.runs.c.verdict).where(tables.runs.c.run_id == champion.run_id)
    ).scalar()
    wape: float | None = ((verdict or {}).get("compared", {}).get("candidate") or {}).get("wape")
    return wape


def numbers(spec: Spec, ledger: Ledger, now: datetime) -> Iterator[Reading]:
    """Yield the standings of objectives for Prometheus, without those that cannot be measured."""
    rows = standings(spec, ledger, now)
    for status in rows:
        if status.budget_left is not None:
            yield Reading("slo_budget_left", status.budget_left, (status.label,))
        if status.burn_rate is not None:
            yield Reading("slo_burn_rate", status.burn_rate, (status.label,))
    broken = any(status.key == "S9" and status.state == "broken" for status in rows)
    yield Reading("promotions_frozen", float(broken and freeze(spec, ledger, now) is not None))


def line(status: Standing) -> str:
    """Return a line for people: key, state, objective, measured value, budget and burn rate."""
    budget = "–" if status.budget_left is None else f"{status.budget_left:.0%} left"
    burn = "" if status.burn_rate is None else f", burns at {status.burn_rate:.1f}"
    return f"{status.key}  {status.state:8}  {status.promise}: {status.measured}; budget {budget}{burn}"


def verdict(standing_list: Sequence[Standing]) -> str:
    """Return a summary in one sentence."""
    broken = [status.key for status in standing_list if status.state == "broken"]
    return f"{count(len(broken), 'promise')} broken: {', '.join(broken)}" if broken else "every promise is kept"
