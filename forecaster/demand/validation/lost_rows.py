"""Share of a batch that does not count: rows in quarantine, and depots without any other row."""

from __future__ import annotations

import pandas as pd

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import joined, sentence
from forecaster.demand.validation.batch import Batch
from forecaster.demand.validation.feed_shape import FEW_ROWS, batch_finding
from forecaster.demand.validation.quarantine import first_message

MOST_ROWS = 2 / 3  # share of rows in quarantine
MOST_DEPOTS = 3 / 4  # share of depots without a row that counts
DEPOT_SHARE = 0.2  # share of a depot's rows in quarantine
MOST_NAMED = 3  # depots
_ANOTHER_COUNTS = ("superseded", "duplicate_row")


def findings(batch: Batch, read: int, spec: Spec) -> list[Finding]:
    """Findings about a batch that loses most of its rows or depots, and about depots that lose a
    fifth of their rows; `read` is the number of all rows."""
    lost_count = batch.size(batch.refused)
    if lost_count <= FEW_ROWS:
        return []
    if lost_count > MOST_ROWS * read:
        detail = sentence(
            N_("found {n} of {all} rows in quarantine ({rules})"), n=lost_count, all=read, rules=_rules(batch)
        )
        return [batch_finding("lost_rows", lost_count, detail, first_message(batch.refused), spec)]
    if batch.unchanged:  # known depots have few new rows
        return []
    rows = _rows_by_depot(batch)
    lost_depots = rows.index[rows["accepted"] == 0]
    if len(lost_depots) and len(lost_depots) >= MOST_DEPOTS * len(rows):
        values = {"n": len(lost_depots), "all": len(rows), "depot": str(lost_depots[0])}
        detail = sentence(N_("found no row that counts of {n} of {all} depots, as of {depot}"), **values)
        return [batch_finding("lost_rows", lost_count, detail, first_message(batch.refused), spec)]
    share = rows["refused"] / rows.sum(axis=1)
    most = rows[(share >= DEPOT_SHARE) & (rows["refused"] > FEW_ROWS)].sort_values("refused", ascending=False)
    worst_depots = most.head(MOST_NAMED)
    pairs = zip(worst_depots.index.astype("str"), worst_depots["refused"], worst_depots["accepted"], strict=True)
    return [_of_depot(depot, refused, accepted, batch, spec) for depot, refused, accepted in pairs]


def _rows_by_depot(batch: Batch) -> pd.DataFrame:
    """Rows of each depot in quarantine and accepted, without rows replaced by another row that
    counts."""
    refused_rows = batch.refused[~batch.refused["rule"].isin(_ANOTHER_COUNTS)]
    parts = {"refused": refused_rows, "accepted": batch.accepted}
    counts = {
        name: (part["rows"].fillna(1) if "rows" in part else pd.Series(1.0, index=part.index))
        .groupby(part["depot_id"].astype("str"))
        .sum()
        for name, part in parts.items()
        if len(part)
    }
    table = pd.DataFrame(counts, columns=[*parts]).fillna(0)
    return table[table.index != ""]


def _of_depot(depot: str, refused: float, accepted: float, batch: Batch, spec: Spec) -> Finding:
    template = N_("depot {depot}: found {n} of {all} rows in quarantine")
    detail = sentence(template, depot=depot, n=int(refused), all=int(refused + accepted))
    first = first_message(batch.refused[batch.refused["depot_id"] == depot])
    return batch_finding("lost_depot_rows", int(refused), detail, first, spec)


def _rules(batch: Batch) -> str:
    counts = batch.refused["rule"].value_counts()
    return joined((sentence(N_("{rule} {n}"), rule=rule, n=int(n)) for rule, n in counts.items()), ", ") or ""
