"""Pipelines that can be served together."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.ops.portal.served import serve_together
from dashboards.ops.reading.readers import SharedReaders
from forecaster.config import Access
from forecaster.errors import SpecError
from tests.dashboards.guests import SECRET, declared
from tests.dashboards.portal.test_app import spec_of
from tests.dashboards.seed import NOON


def test_rejects_two_pipelines_with_the_same_name(tmp_path: Path) -> None:
    specs = [spec_of(tmp_path / folder, "alpha", "sqlite:///x.db") for folder in ("here", "there")]
    with pytest.raises(SpecError, match=r"found 'alpha' in file 1 and in file 2, .*change `name` in one of them"):
        serve_together(specs, lambda: NOON, SharedReaders())


def test_rejects_pipelines_with_different_sign_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    doors = {"alpha": declared(), "bravo": declared(roles={"admin": ["bea"]}), "charlie": Access()}
    specs = [spec_of(tmp_path, name, "sqlite:///x.db", access) for name, access in doors.items()]
    assert list(serve_together(specs[:2], lambda: NOON, SharedReaders())[0]) == ["alpha", "bravo"]
    with pytest.raises(SpecError, match=r"page\.access\.sign_in: found another in charlie than in alpha"):
        serve_together(specs, lambda: NOON, SharedReaders())
