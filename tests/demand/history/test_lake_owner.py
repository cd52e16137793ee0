from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from forecaster.check import dry_run
from forecaster.config import Spec, load
from forecaster.demand.history import lake_owner
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.errors import ForeignLake, SpecError
from forecaster.lake import TABLES, Lake
from forecaster.operations import backup, doctor, quarantine, restore, retention

NOW = datetime(2024, 3, 5, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def pipeline(folder: Path, name: str, *, depot: str = "A", fleet: str | None = None) -> Spec:
    """Pipeline file with its own state and the lake shared by all of them."""
    place = folder / name
    place.mkdir(exist_ok=True)
    rows = [f"{depot},2024-02-{day:02},{day}" for day in range(1, 29)]
    (place / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows]) + "\n", "utf-8")
    text = f"name: {name}\nlake: ../lake\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\n"
    (place / "pipeline.yaml").write_text(text + (f"fleet: {fleet}\n" if fleet else ""), "utf-8")
    return load(place / "pipeline.yaml")


def depots(spec: Spec) -> set[str]:
    return {*read_as_of(spec, as_of=NOW + DAY).demand["depot_id"]}


def test_second_fleet_can_neither_write_nor_read_the_lake(tmp_path: Path) -> None:
    one, two = pipeline(tmp_path, "one"), pipeline(tmp_path, "two", depot="B")
    ingest(one, now=NOW)
    before = Lake(one.lake_url).versions()
    saved = tmp_path / "saved"
    for command in (
        lambda: ingest(two, now=NOW),
        lambda: read_as_of(two, as_of=NOW),
        lambda: dry_run.check(two, now=NOW),
        lambda: quarantine.quarantined_rows(two),
        lambda: backup.backup(two, saved),
        lambda: retention.tidy(two, now=NOW, keep=""),
    ):
        with pytest.raises(ForeignLake, match=r"the demand of fleet 'one', wanted that of 'two': .*`fleet: one`"):
            command()
    assert not saved.exists()
    assert Lake(one.lake_url).versions() == before
    assert depots(one) == {"A"}
    ingest(one, now=NOW + DAY)
    assert Lake(one.lake_url).version("owners") == 0


def test_doctor_reports_the_owner_of_the_lake(tmp_path: Path) -> None:
    ingest(pipeline(tmp_path, "one"), now=NOW)
    [sign] = [*doctor._lake(pipeline(tmp_path, "two"))]
    assert (sign.state, "fleet 'one'" in sign.text) == ("broken", True)


def test_renamed_pipeline_continues_with_its_lake_by_setting_fleet(tmp_path: Path) -> None:
    ingest(pipeline(tmp_path, "one"), now=NOW)
    renamed = pipeline(tmp_path, "first", fleet="one")
    outcome = ingest(renamed, now=NOW + DAY)
    assert (outcome.accepted, outcome.unchanged) == (0, 28)
    with pytest.raises(SpecError):
        ingest(pipeline(tmp_path, "one", fleet="two"), now=NOW)


def test_lake_without_an_owner_belongs_to_the_first_fleet_that_ingests(tmp_path: Path) -> None:
    one, two = pipeline(tmp_path, "one"), pipeline(tmp_path, "two", depot="B")
    ingest(one, now=NOW)
    shutil.rmtree(Path(one.lake_url) / "owners")
    assert depots(two) == {"A"}  # the owner is not recorded
    assert ingest(one, now=NOW + DAY).unchanged == 28
    assert lake_owner.owner(Lake(one.lake_url)) == "one"
    with pytest.raises(ForeignLake):
        depots(two)


def test_oldest_row_decides_between_simultaneous_owners(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for fleet, hour in (("two", 2), ("one", 1), ("three", 1)):
        row = {"fleet": fleet, "recorded_at": NOW + timedelta(hours=hour)}
        lake.append("owners", pa.Table.from_pylist([row], schema=TABLES["owners"]))
    assert lake_owner.owner(lake) == "one"


def test_stopped_or_unreadable_batch_does_not_claim_the_lake(tmp_path: Path) -> None:
    one = pipeline(tmp_path, "one")
    (one.folder / "demand.csv").unlink()
    with pytest.raises(Exception, match="no such file"):
        ingest(one, now=NOW)
    assert ingest(pipeline(tmp_path, "two", depot="B"), now=NOW).accepted == 28


def test_backup_restores_the_owner_and_does_not_replace_another_fleets_lake(tmp_path: Path) -> None:
    from forecaster.ledger.store import Ledger

    one = pipeline(tmp_path, "one")
    ingest(one, now=NOW)
    with Ledger.open(one.ledger_url):
        pass
    backup.backup(one, tmp_path / "saved")
    shutil.rmtree(one.lake_url)
    two = pipeline(tmp_path, "two", depot="B")
    ingest(two, now=NOW)
    with pytest.raises(ForeignLake):
        restore.restore(one, tmp_path / "saved", replace=True)
    assert depots(two) == {"B"}
    shutil.rmtree(one.lake_url)
    restore.restore(one, tmp_path / "saved", replace=True)
    assert lake_owner.owner(Lake(one.lake_url)) == "one"
