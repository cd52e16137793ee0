"""The sample as a source: its file, then simulated days; no other file is continued."""

from __future__ import annotations

import hashlib
from datetime import date, timedelta
from pathlib import Path

import pandas as pd
import pytest

from forecaster.config import SampleSource, Spec, load
from forecaster.demand.sources import open_feed, sample
from forecaster.errors import SourceError

DATA = Path(__file__).parents[3] / "data" / "harbor_fleet"
COLUMNS = ["depot", "day", "orders", "recorded_at"]


@pytest.fixture(scope="module")
def spec() -> Spec:
    return load(DATA / "pipeline.yaml")


def _rows(spec: Spec, **declared: object) -> tuple[pd.DataFrame, str]:
    source = SampleSource.model_validate({"kind": "sample", "path": "demand.csv", **declared})
    feed = open_feed(source, spec, COLUMNS)
    return pd.concat(list(feed.blocks)), feed.digest


def test_file_comes_first_and_later_rows_are_marked_as_simulated(spec: Spec) -> None:
    rows, _ = _rows(spec, until=date(2026, 11, 3))
    written = pd.read_csv(DATA / "demand.csv", dtype=str, keep_default_na=False)
    assert rows[COLUMNS].head(len(written)).to_numpy().tolist() == written[COLUMNS].to_numpy().tolist()
    later = rows.iloc[len(written) :]
    assert {*later[":file"]} == {"simulated days of demand.csv"}
    assert {*later["day"]} == {"2026-11-01", "2026-11-02", "2026-11-03"}
    assert later["row"].tolist() == list(range(len(written) + 2, len(written) + 2 + len(later)))


def test_digest_covers_the_rows_read(spec: Spec) -> None:
    first, same, other = (_rows(spec, until=date(2026, 11, day))[1] for day in (3, 3, 4))
    assert first == same != other


def test_last_day_defaults_to_the_clock(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "last_exported", lambda now: date(2026, 11, 2))
    assert _rows(spec)[0]["day"].iloc[-1] == "2026-11-02"


def test_rejects_another_file(spec: Spec, tmp_path: Path) -> None:
    changed = tmp_path / "demand.csv"
    changed.write_text((DATA / "demand.csv").read_text("utf-8").replace(",109,", ",108,", 1), "utf-8")
    with pytest.raises(SourceError, match="not a file of the Harbor Fleet sample; wanted an unchanged file"):
        _rows(spec, path=str(changed), until=date(2026, 11, 1) + timedelta(days=1))


def test_digests_equal_those_of_the_committed_files() -> None:
    names = {"demand.csv": sample.DEMAND, "events.csv": sample.EVENTS}
    for name, digest in names.items():
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest()[:12] == digest
