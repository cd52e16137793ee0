"""The lake in an object store: the same tables, and concurrent writers lose nothing."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from forecaster.config import load
from forecaster.demand.ingest import ingest
from forecaster.lake import TABLES, Lake
from forecaster.ledger.store import Ledger
from forecaster.operations.backup import backup
from forecaster.operations.restore import restore
from tests.flows.tiny import NIGHT, pipeline, pipeline_for_prefect
from tests.stores import Gateway, gateway, s3  # noqa: F401 (fixtures)

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
EACH = 12
WRITER = f"""
import sys
from datetime import UTC, datetime
import pyarrow as pa
from forecaster.lake import TABLES, Lake
lake, who = Lake(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range({EACH}):
    row = {{"alias": f"{{who}}{{number}}", "depot_id": who, "retracted": False, "recorded_at": datetime.now(UTC)}}
    lake.append("aliases", pa.Table.from_pylist([row], schema=TABLES["aliases"]))
"""


@pytest.fixture
def bucket(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: F811
    """Bucket for one test, with its address in the environment."""
    variables = {"ACCESS_KEY_ID": "testing-key", "SECRET_ACCESS_KEY": "testing-secret", "ENDPOINT_URL": s3}
    for name, value in {**variables, "REGION": "us-east-1", "ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    store = fsspec.filesystem("s3", key="testing-key", secret="testing-secret", endpoint_url=s3)
    name = tmp_path.name.strip("_").replace("_", "-")
    store.mkdir(name)
    return f"s3://{name}"


def test_append_is_stored_once_when_its_response_is_lost(
    bucket: str,
    gateway: Gateway,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", gateway.address)
    lake, lost = Lake(f"{bucket}/lake", window=7200.0), list[str]()

    def row(alias: str) -> pa.Table:
        values = {"alias": alias, "depot_id": "a", "retracted": False, "recorded_at": datetime.now(UTC)}
        return pa.Table.from_pylist([values], schema=TABLES["aliases"])

    def loses(method: str, path: str) -> bool:
        if method != "PUT" or "_delta_log" not in path or lost:
            return False
        lost.append(path)
        return True

    lake.append("aliases", row("before"))
    gateway.loses, gateway.status = loses, "503 Slow Down"
    lake.append("aliases", row("after"))
    assert len(lost) == 1
    assert sorted(lake.read("aliases").column("alias").to_pylist()) == ["after", "before"]


def test_concurrent_appends_of_two_processes_lose_nothing(bucket: str) -> None:
    url = f"{bucket}/lake"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, url, who], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for who in "ab"
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=120)
    assert [writer.returncode for writer in writers] == [0, 0]
    aliases = Lake(url).read("aliases")["alias"].to_pylist()
    assert sorted(aliases) == sorted(f"{who}{number}" for who in "ab" for number in range(EACH))
    assert Lake(url).version("aliases") == 2 * EACH - 1


def test_nightly_run_keeps_tables_in_the_store_and_state_in_the_folder(bucket: str, tmp_path: Path) -> None:
    file = pipeline_for_prefect(tmp_path, f"lake: {bucket}/nights/\n")
    command = [sys.executable, "-m", "forecaster", "predict-only", str(file), "--as-of", NIGHT.isoformat(), "--plain"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 3, process.stderr  # no champion yet: the fallback forecasts
    spec = load(file)
    lake = Lake(spec.lake_url)
    assert (len(lake.read("demand")), len(lake.read("forecasts"))) == (4 * 130, 4 * 7)
    assert not (spec.paths.lake).exists()
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current("tiny")
        [run] = ledger.runs()
    assert head is not None
    assert (head.run_id, head.tier, run.lake_versions["demand"]) == (run.run_id, "fallback", 0)
    assert "testing-secret" not in process.stderr + str(run)


def test_lake_in_a_bucket_is_backed_up_to_a_folder_and_restored(bucket: str, tmp_path: Path) -> None:
    file = pipeline(tmp_path, f"lake: {bucket}/kept\n", days=20)
    spec = load(file)
    Ledger.open(spec.ledger_url).close()
    ingest(spec, now=NIGHT)
    lake = Lake(spec.lake_url)
    before, versions = lake.read("demand").sort_by("row"), lake.versions()
    copy = backup(spec, tmp_path / "copy")
    assert copy.lake_versions == versions
    later = tmp_path / "demand.csv"
    later.write_text(later.read_text("utf-8").replace("D0,2026-01-20,", "D0,2026-01-20,1"), "utf-8")
    ingest(spec, now=NIGHT + timedelta(days=1))
    assert lake.versions()["demand"] == versions["demand"] + 1  # unknown to the backup
    restore(spec, tmp_path / "copy", replace=True)
    assert (lake.versions(), lake.read("demand").sort_by("row")) == (versions, before)
    assert ingest(spec, now=NIGHT + timedelta(days=1)).accepted == 1
