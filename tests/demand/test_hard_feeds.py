from __future__ import annotations

import csv
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build
from forecaster.errors import ForecasterError
from forecaster.lake import NOT_THERE, Lake

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
VALID = b'depot_id,date,demand\nA,2024-03-01,1\nA,2024-03-02,2\nB,2024-03-01,3\n"B",2024-03-02,\nB,2024-03-03,5\n'


def spec_of(folder: Path, kind: str = "csv") -> Spec:
    text = f"name: t\ndemand: {{source: {{kind: {kind}, path: demand.{kind}}}}}\ncalendar: {{holidays: false}}\n"
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


def takes_all_or_nothing(spec: Spec, content: bytes) -> None:
    """Ingest a file of any content: an error that names it, or every row accounted for; never half
    a batch."""
    source = spec.demand.source
    Path(spec.folder / source.path).write_bytes(content)  # type: ignore[union-attr]
    lake = Lake(spec.lake_url)
    before = lake.versions()
    try:
        result = ingest(spec, now=NOW)
    except ForecasterError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert f"demand.{source.kind}" in message
        assert lake.versions() == before
        return
    assert result.read == result.accepted + result.unchanged + result.quarantined
    account = lake.read("batches").to_pylist()
    assert result.batch in {row["batch"] for row in account}
    if before["demand"] == NOT_THERE:
        assert len(lake.read("demand")) == result.accepted
        assert len(lake.read("quarantine")) == result.quarantined
    assert ingest(spec, now=NOW).accepted == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=120) | st.text(max_size=60).map(lambda text: b"depot_id,date,demand\n" + text.encode())
)
def test_any_bytes_as_csv_give_an_error_or_quarantined_rows(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    takes_all_or_nothing(spec_of(tmp_path_factory.mktemp("lake")), content)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=6), cut=st.integers(0))
def test_a_csv_file_with_damaged_bytes_gives_an_error_or_quarantined_rows(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], cut: int
) -> None:
    content = bytearray(VALID)
    for place, byte in changes:
        content[place] = byte
    takes_all_or_nothing(spec_of(tmp_path_factory.mktemp("lake")), bytes(content[: len(VALID) - cut % 30]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=8), cut=st.integers(0))
def test_a_parquet_file_with_damaged_bytes_gives_an_error_or_quarantined_rows(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    days = pd.to_datetime(["2024-03-01", "2024-03-02"] * 20)
    frame = pd.DataFrame({"depot_id": [f"D{i // 2}" for i in range(40)], "date": days, "demand": range(40)})
    frame.to_parquet(folder / "demand.parquet")
    content = bytearray((folder / "demand.parquet").read_bytes())
    for place, byte in changes:
        content[place % len(content)] = byte
    takes_all_or_nothing(spec_of(folder, "parquet"), bytes(content[: len(content) - cut % 3 * 40]))


NAMES = {
    "Main, St.": True,
    'the "old" one': True,
    "o'clock": True,
    "🚚 Ünïcode": True,
    "<script>alert(1)</script>": True,
    "=cmd()": True,
    "+1": True,
    "../../etc": True,
    "a\\b": True,
    "100%": True,
    "two\nlines": False,
    "tab\there": False,
    "..": False,
    "x" * 10_000: False,
}


def test_depots_may_have_unusual_single_line_names(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    with (tmp_path / "demand.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["depot_id", "date", "demand"])
        rows.writerows([name, "2024-03-05", 7] for name in NAMES)
    result = ingest(spec, now=NOW)
    assert [(f.rule, f.count) for f in result.findings] == [("depot_form", 4)]
    assert max(len(finding.message) for finding in result.findings) < 500
    refused = Lake(spec.lake_url).read("quarantine").to_pylist()
    assert sorted(row["depot_id"] for row in refused) == sorted(name for name, fine in NAMES.items() if not fine)
    panel = build.build(read_as_of(spec, as_of=NOW), spec)
    assert sorted(panel.depot_ids) == sorted(name for name, fine in NAMES.items() if fine)
    assert (panel.demand == 7).all()


@pytest.mark.long
@pytest.mark.parametrize("kind", [("random", "8"), ("boundaries",)], ids=lambda kind: kind[0])
def test_lake_is_consistent_after_any_kill_and_the_next_run_completes_it(tmp_path: Path, kind: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.demand.killed_ingests", str(tmp_path), *kind]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    killed = int(process.stdout.split()[0])
    assert killed >= (3 if kind[0] == "random" else 9), process.stdout
