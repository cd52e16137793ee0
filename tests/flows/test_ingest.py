"""The first task of a run on a real Prefect: its secrets, its retries, and its report of a failed
source."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from sqlalchemy import create_engine, text

from forecaster.config import credentials, load
from forecaster.errors import MissingExtra, NoUsableData, SourceError, SourceUnreachable, SpecError

pytestmark = pytest.mark.usefixtures("prefect")

SECRET = "1e5"
"""A JSON parser would read it as a number."""


@pytest.fixture
def night(tmp_path: Path) -> Callable[[str], tuple[str, str]]:
    """Return a function that executes a run up to its ingest; it returns outcome and message of the
    run row."""
    from prefect import flow

    from flows import tasks
    from flows.night import Night

    def run(source: str) -> tuple[str, str]:
        file = tmp_path / "pipeline.yaml"
        columns = "columns: {depot_id: depot, date: day, demand: orders}"
        file.write_text(f"name: t\ndemand: {{source: {source}, {columns}}}\n", "utf-8")

        @flow(name="ingest-only")
        def ingest_only() -> None:
            begun = Night.begin(str(file), None)
            with begun.ends_in_an_outcome():
                with begun.goes_on("the sources could not be read"):
                    tasks.ingest(begun)
                begun.exit_code = 3 if begun._troubles else 0

        ingest_only()
        with create_engine(load(file).ledger_url).connect() as ledger:
            row = ledger.execute(text("select outcome, message from runs order by started_at desc")).first()
        assert row is not None
        return row[0], row[1] or ""

    return run


def test_reads_a_secret_from_prefects_block_of_the_same_name(night: Callable[[str], tuple[str, str]]) -> None:
    from prefect.blocks.system import Secret

    Secret(value=SECRET).save("store-token", overwrite=True)  # type: ignore[unused-coroutine]
    fsspec.filesystem("memory").pipe("/night/demand.csv", b"depot,day,orders\nD1,2024-03-05,7\n")
    source = "{kind: csv, path: 'memory://night/demand.csv', options: {token: '${secret:store-token}'}}"
    assert night(source) == ("published", "")
    assert credentials.fill("${secret:store-token}") == SECRET
    assert credentials.hide(f"said {SECRET}") == "said ***"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody-made-it", "Prefect has no Secret block 'nobody-made-it'; .*Secret.*save"),
        ("NOT_PREFECTS", "wanted a name as Prefect's blocks have them"),
    ],
)
def test_the_outcome_names_a_missing_secret(night: Callable[[str], tuple[str, str]], name: str, message: str) -> None:
    outcome, sentence = night("{kind: csv, path: 'memory://a.csv', options: {token: '${secret:" + name + "}'}}")
    assert outcome == "degraded"
    assert sentence.startswith("the sources could not be read: the pipeline file names ${secret:" + name)
    assert re.search(message, sentence)


def test_the_outcome_names_an_unreachable_source(night: Callable[[str], tuple[str, str]]) -> None:
    outcome, sentence = night("{kind: csv, path: gone.csv}")
    assert outcome == "degraded"
    assert sentence.startswith("the sources could not be read: ")
    assert "gone.csv: no such file" in sentence


def reached_at_try(number: int, error: Exception, tries: list[int]) -> Callable[..., Any]:
    from forecaster.demand.ingest import ingest

    def attempt(*arguments: Any, **keywords: Any) -> Any:
        tries.append(len(tries) + 1)
        if len(tries) < number:
            raise error
        return ingest(*arguments, **keywords)

    return attempt


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (SourceUnreachable("no answer"), 3),
        (OSError("disk busy"), 3),
        (SourceError("lacks a column"), 1),
        (NoUsableData("nothing"), 1),
        (SpecError("wrong"), 1),
        (MissingExtra("no driver"), 1),
    ],
)
def test_retries_transient_errors(
    night: Callable[[str], tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    tries: int,
) -> None:
    (tmp_path / "demand.csv").write_text("depot,day,orders\nD1,2024-03-05,7\n")
    attempts: list[int] = []
    monkeypatch.setattr("flows.steps.demand_ingest.ingest", reached_at_try(3, error, attempts))
    outcome, sentence = night("{kind: csv, path: demand.csv}")
    assert len(attempts) == tries
    assert outcome == ("published" if tries == 3 else "degraded")
    assert sentence == ("" if tries == 3 else f"the sources could not be read: {error}")
