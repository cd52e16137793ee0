from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from sqlalchemy import create_engine

from forecaster.config import Spec, load
from forecaster.demand.ingest import IngestResult, ingest

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
FIRST, DAYS = date(2024, 1, 1), 60
DEPOTS = ("Alder", "Birch", "Cedar", "Dogwood")
KINDS = {
    "csv": "{kind: csv, path: demand.csv}",
    "parquet": "{kind: parquet, path: demand.parquet}",
    "delta": "{kind: delta, path: delta}",
    "sql": "{kind: sql, url: 'sqlite:///demand.db', table: demand}",
}


def table(depots: tuple[str, ...] = DEPOTS, first: int = 0, days: int = DAYS) -> pd.DataFrame:
    rows = [
        (depot, str(FIRST + timedelta(day)), 100 + 40 * place + 7 * (day % 7) + 3 * (day % 5))
        for day in range(first, first + days)
        for place, depot in enumerate(depots)
    ]
    return pd.DataFrame(rows, columns=["depot_id", "date", "demand"])


def write(folder: Path, kind: str, rows: pd.DataFrame) -> None:
    if kind == "csv":
        rows.to_csv(folder / "demand.csv", index=False)
    elif kind == "parquet":
        rows.to_parquet(folder / "demand.parquet", index=False)
    elif kind == "delta":
        import pyarrow as pa
        from deltalake import write_deltalake

        schema = pa.schema([("depot_id", pa.string()), ("date", pa.string()), ("demand", pa.int64())])
        write_deltalake(folder / "delta", pa.Table.from_pandas(rows, schema, preserve_index=False), mode="overwrite")
    else:
        engine = create_engine(f"sqlite:///{folder}/demand.db")
        rows.to_sql("demand", engine, index=False, if_exists="replace")
        engine.dispose()


def spec_of(folder: Path, source: str, more: str = "") -> Spec:
    text = f"name: t\ndemand: {{source: {source}}}\ncalendar: {{holidays: false}}\n{more}"
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


@pytest.fixture
def night(tmp_path: Path) -> Callable[..., IngestResult]:
    nights = iter(range(100))

    def run(rows: pd.DataFrame, kind: str = "csv", more: str = "", source: str = "") -> IngestResult:
        write(tmp_path, kind, rows)
        return ingest(spec_of(tmp_path, source or KINDS[kind], more), now=NOW + timedelta(days=next(nights)))

    return run


def told(result: IngestResult) -> dict[str, str]:
    rules = ("empty_feed", "fewer_rows", "other_depots", "restated")
    return {f.rule: f.message for f in result.findings if f.rule in rules}


@pytest.mark.parametrize("kind", KINDS)
def test_source_without_rows_is_reported_on_every_run(night: Callable[..., IngestResult], kind: str) -> None:
    assert told(night(table(), kind)) == {}
    for _ in range(2):
        result = night(table(days=0), kind)
        assert "found no row, where 240 came in the batch of 2024-03-06, wanted rows" in told(result)[
            "empty_feed"
        ].replace(";", ",")
        assert result.stopped is None
    assert told(night(table(), kind)) == {}


def test_first_run_and_incremental_source_may_have_no_rows(night: Callable[..., IngestResult]) -> None:
    assert told(night(table(days=0))) == {}
    incremental = "{kind: sql, url: 'sqlite:///demand.db', table: demand, watermark: date}"
    assert told(night(table(), "sql", source=incremental)) == {}
    assert told(night(table(days=0), "sql", source=incremental)) == {}


def test_reports_less_than_half_the_rows_of_a_source_that_repeats_them(night: Callable[..., IngestResult]) -> None:
    night(table())
    assert "found 80 rows, where 240 came" in told(night(table(days=20)))["fewer_rows"]
    assert told(night(table(days=20))) == {}


def test_new_days_alone_are_not_compared_with_earlier_batches(night: Callable[..., IngestResult]) -> None:
    night(table())
    assert told(night(table(first=60, days=2))) == {}


@pytest.mark.parametrize("more", ["", "depots: {source: {kind: csv, path: depots.csv}}"])
def test_readings_of_other_depots_stop_the_batch(night: Callable[..., IngestResult], tmp_path: Path, more: str) -> None:
    (tmp_path / "depots.csv").write_text("depot_id\n" + "\n".join(DEPOTS) + "\n")
    night(table(), more=more)
    result = night(table(("K1", "K2", "K3", "K4")), more=more)
    message = told(result)["other_depots"]
    assert "found 4 of 4 depots for the first time (K1, K2, K3, …), and no readings of 4 of the 4 known" in message
    assert "depots.aliases" in message
    assert result.stopped is not None
    assert result.accepted == 0


def test_few_new_or_renamed_depots_are_not_other_depots(night: Callable[..., IngestResult]) -> None:
    night(table())
    assert told(night(table(("Alder", "Birch", "Elm", "Fir", "Gorse")))) == {}
    assert told(night(table((*DEPOTS, *(f"new{number}" for number in range(40)))))) == {}


def test_depots_renamed_through_aliases_are_the_same(night: Callable[..., IngestResult], tmp_path: Path) -> None:
    night(table())
    new = tuple(depot.upper() + "1" for depot in DEPOTS)
    (tmp_path / "depots.csv").write_text("depot_id\n" + "\n".join(new) + "\n")
    pairs = [f"{old},{renamed}" for old, renamed in zip(DEPOTS, new, strict=True)]
    (tmp_path / "renamed.csv").write_text("alias,depot_id\n" + "\n".join(pairs) + "\n")
    more = "depots: {source: {kind: csv, path: depots.csv}, aliases: {source: {kind: csv, path: renamed.csv}}}"
    assert told(night(table(new), more=more)) == {}


def test_short_history_of_some_depots_can_be_followed_by_other_depots(night: Callable[..., IngestResult]) -> None:
    night(table(("Alder",), days=13))
    assert told(night(table(("Birch", "Cedar"), days=13))) == {}


RESTATEMENTS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "thousands": lambda rows: rows.assign(demand=rows["demand"] * 1000),
    "doubled": lambda rows: rows.assign(demand=rows["demand"] * 2),
    "zeros": lambda rows: rows.assign(demand=0),
    "nothing": lambda rows: rows.assign(demand=""),
    "swapped": lambda rows: rows.assign(depot_id=rows["depot_id"].map(dict(zip(DEPOTS, DEPOTS[::-1], strict=True)))),
}


@pytest.mark.parametrize("how", RESTATEMENTS)
def test_other_counts_on_most_past_days_stop_the_batch(night: Callable[..., IngestResult], how: str) -> None:
    night(table())
    again = RESTATEMENTS[how](table())
    for _ in range(2):
        result = night(again)
        assert "found a different count, or none, on 46 of 46 days" in told(result)["restated"]
        assert "and likewise on most days of 4 of 4 depots; wanted past days as reported" in told(result)["restated"]
        assert (result.accepted, result.stopped is None) == (0, False)
    declared = "{kind: csv, path: demand.csv}, rules: {severity: {restated: warn}}"
    assert night(again, source=declared).accepted == 240
    assert told(night(again)) == {}


def test_window_of_newest_days_stays_stopped_while_it_includes_known_days(
    night: Callable[..., IngestResult],
) -> None:
    source = "{kind: csv, path: demand.csv}, rules: {max_gap_days: 100}"
    night(table(first=-90, days=90), source=source)
    for after in (1, 10, 20, 30, 38):
        window = table(first=after - 45, days=45)
        result = night(window.assign(demand=window["demand"] * 2), source=source)
        assert "restated" in told(result)
        assert result.accepted == 0
    assert told(night(table(first=-7, days=45), source=source)) == {}


def test_small_counts_that_change_by_one_or_two_are_corrections(night: Callable[..., IngestResult]) -> None:
    few = table().assign(demand=lambda rows: 3 + rows["demand"] % 5)
    night(few)
    assert told(night(few.assign(demand=few["demand"] + 1))) == {}
    assert "restated" in told(night(few.assign(demand=0)))


def test_other_counts_of_one_depot_of_many_are_reported_and_accepted(night: Callable[..., IngestResult]) -> None:
    night(table())
    rows = table()
    rows.loc[rows["depot_id"] == "Birch", "demand"] *= 2
    result = night(rows)
    assert "on most days of 1 of 4 depots" in told(result)["restated"]
    assert (result.accepted, result.stopped) == (60, None)


def test_corrections_and_preliminary_days_are_not_a_restatement(night: Callable[..., IngestResult]) -> None:
    night(table())
    rows = table()
    assert told(night(rows.assign(demand=(rows["demand"] * 0.95).round(1)))) == {}  # all of them slightly
    rows = table()
    rows.loc[rows["date"] > str(FIRST + timedelta(DAYS - 15)), "demand"] *= 2  # recent days
    assert told(night(rows)) == {}
    rows = table()
    rows.loc[rows["date"].str.endswith("7"), "demand"] *= 2  # scattered days
    assert told(night(rows)) == {}


def test_source_with_only_corrections_restates_nothing(night: Callable[..., IngestResult]) -> None:
    night(table(days=160))
    some = table(days=120).assign(demand=lambda rows: rows["demand"] * 2)
    some = some[pd.to_datetime(some["date"]).dt.day % 3 == 0]
    assert told(night(some)) == {}


def test_other_counts_with_their_own_instants_stop_the_batch_as_well(night: Callable[..., IngestResult]) -> None:
    at = ", columns: {recorded_at: at}"
    source = f"{{kind: csv, path: demand.csv}}{at}"
    rows = table().assign(at="2024-03-05T03:00:00Z")
    night(rows, source=source)
    later = rows.assign(demand=0, at="2024-03-06T03:00:00Z")
    assert "restated" in told(night(pd.concat([rows, later]), source=source))
