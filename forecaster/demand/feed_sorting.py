"""A feed put to the contract: block by block here, or files by files on workers (fan-out).

What a block tells of the whole feed (which covariates are numbers, whether a day's rows have times of day) the first
one tells, wherever the others are sorted. What is accepted and refused, and in which order, is the same to the bit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa

from forecaster.config import Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import of_error, sentence
from forecaster.core.parallel import FanOpener
from forecaster.demand import readings, sources
from forecaster.demand.validation.contract import Contract, FeedTraits
from forecaster.errors import ForecasterError

SHARES = 32  # of the files, at most
WORTH_SHARING = 64_000_000  # bytes, whose reading takes longer than a cluster takes to come up
Progress = Callable[[int], None]
Remark = Callable[[str], None]


@dataclass(frozen=True)
class SortedFeed:
    """Every row of a feed, once: accepted, or refused with the rule it broke."""

    accepted: pd.DataFrame  # as `readings` describes
    refused: pd.DataFrame  # as `quarantine` describes
    read: int  # rows
    ending: sources.Ending
    contract: Contract  # which has seen all of them


@dataclass
class _SortedShare:
    """Some files of a feed, sorted, and what they tell of it."""

    accepted: pd.DataFrame
    refused: pd.DataFrame
    read: int
    digests: Sequence[str]
    traits: FeedTraits


def columns_of(spec: Spec) -> tuple[list[str], list[str]]:
    """The columns that the demand source must have, and those that it may have."""
    columns, future = spec.demand.columns, list(spec.calendar.known_future)
    count = [] if spec.demand.aggregate == "count" else [columns.demand]
    must = [columns.depot_id, columns.date, *count, columns.open, columns.recorded_at]
    # without an events source every known-future covariate has to be a column
    needed = [name for name in must if name]
    return (needed, future) if spec.calendar.events else ([*needed, *future], [])


def is_worth_sharing(spec: Spec) -> bool:
    """Whether the demand source has several files, and enough in them. Raises as `sources.open_feed` does."""
    sizes = sources.file_sizes(spec.demand.source, spec)
    return len(sizes) > 1 and sum(sizes.values()) >= WORTH_SHARING


def sort_feed(
    contract: Contract,
    *,
    since: str | None = None,
    on_rows: Progress | None = None,
    open_fan: FanOpener | None = None,
    remark: Remark = lambda _: None,
) -> SortedFeed:
    """All rows of the demand source, sorted by the contract.

    With `open_fan` the files are shared out where `is_worth_sharing`; what keeps them from being so is remarked, and
    all is done here. `since` is a watermark and `on_rows` is told how many rows were read so far. Raises as
    `sources.open_feed` does.
    """
    if open_fan is not None and is_worth_sharing(contract.spec):
        try:
            return _sort_shares(copy.deepcopy(contract), open_fan, on_rows)
        except Exception as error:  # of whatever kind a worker or its cluster may raise
            why = of_error(error) if isinstance(error, ForecasterError) else f"{type(error).__name__}: {error}"
            remark(sentence(N_("files were read one after the other, not on workers: {why}"), why=why))
    return _sort_blocks(contract, _feed(contract.spec, since=since), on_rows)


def _sort_shares(contract: Contract, open_fan: FanOpener, on_rows: Progress | None) -> SortedFeed:
    """The rows of all files, by shares of about as many bytes."""
    contract.begin(next(_feed(contract.spec).blocks))
    sizes = sources.file_sizes(contract.spec.demand.source, contract.spec)
    share_of = np.cumsum([*sizes.values()]) * SHARES // (sum(sizes.values()) + 1)
    paths = pd.Series([*sizes]).groupby(share_of).agg(tuple)
    with open_fan() as fan:
        shares = fan(partial(sort_share, contract, only) for only in paths)
    refused, digests, read = list[pd.DataFrame](), list[str](), 0

    def accepted_parts() -> Iterator[pd.DataFrame]:  # nobody else holds a share, so that its memory is given up early
        nonlocal read
        while shares:
            share = shares.pop(0)
            contract.add(share.traits)
            refused.append(share.refused)
            digests.extend(share.digests)
            read += share.read
            if on_rows:
                on_rows(read)
            yield share.accepted

    accepted = readings.concatenate(accepted_parts())
    return SortedFeed(accepted, pd.concat(refused, ignore_index=True), read, sources.Ending.of(digests), contract)


def sort_share(contract: Contract, only: Sequence[str]) -> _SortedShare:
    """The rows of the files of some paths; on a worker, for a contract that has begun."""
    # threads share the contract that they are given
    share = _sort_blocks(copy.deepcopy(contract), _feed(contract.spec, only=only), None)
    return _SortedShare(share.accepted, share.refused, share.read, share.ending.of_files, share.contract.traits)


def _feed(spec: Spec, *, since: str | None = None, only: Sequence[str] | None = None) -> sources.Feed:
    return sources.open_feed(spec.demand.source, spec, *columns_of(spec), since=since, only=only)


def _sort_blocks(contract: Contract, feed: sources.Feed, on_rows: Progress | None) -> SortedFeed:
    """All blocks of a feed, one after the other."""
    read, refused = 0, list[pd.DataFrame]()

    def accepted_parts() -> Iterator[pd.DataFrame]:  # nobody else holds a block, so that its memory is given up early
        nonlocal read
        for block in feed.blocks:
            sorted_block = contract.sort(block)
            refused.append(sorted_block.refused)
            read += len(block)
            if on_rows:
                on_rows(read)
            yield sorted_block.accepted

    accepted = readings.concatenate(accepted_parts())
    pa.default_memory_pool().release_unused()  # of the blocks, before more is asked for
    return SortedFeed(accepted, pd.concat(refused, ignore_index=True), read, feed.ending, contract)
