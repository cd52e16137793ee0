"""Sessions, and their validity while their ledger is unavailable."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dashboards.ops.access import sessions
from dashboards.ops.access.sessions import Sessions
from forecaster.errors import LedgerError
from tests.dashboards.guests import SECRET, declared, house
from tests.dashboards.seed import NOON, fill, publication


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Return the sessions of a page whose ledger is a file."""
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    monkeypatch.setattr(sessions, "REREAD_SECONDS", 0.0)
    url = f"sqlite:///{folder / 'ledger.db'}"
    fill(url, publication(1))
    return house(url, declared()).state.access_context.sessions


def take_away(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("no folder", "utf-8")


def give_back(folder: Path) -> None:
    folder.unlink()
    folder.with_name("elsewhere").rename(folder)


def test_known_sessions_stay_valid_without_the_ledger_until_their_next_check(known: Sessions, folder: Path) -> None:
    cookie = known.begin("vic", ("dispatch",), 8, NOON)
    stranger = {**cookie, "id": "another"}
    assert (known.holder(cookie, 8, NOON), known.holder(stranger, 8, NOON)) != (None, None)
    take_away(folder)
    session = known.holder(cookie, 8, NOON + timedelta(minutes=119))
    assert session is not None
    assert (session.name, session.groups) == ("vic", ("dispatch",))
    assert known.holder(cookie, 8, NOON + timedelta(hours=2)) is None
    with pytest.raises(LedgerError):
        known.holder(stranger, 8, NOON)
    give_back(folder)
    known.end(cookie)
    assert known.holder(cookie, 8, NOON) is None


def test_a_sign_in_without_the_ledger_is_valid_until_the_ledger_returns(known: Sessions, folder: Path) -> None:
    take_away(folder)
    cookie = known.begin("vic", (), 8, NOON)
    session = known.holder(cookie, 8, NOON)
    assert session is not None
    assert session.name == "vic"
    give_back(folder)
    assert known.holder(cookie, 8, NOON) is None
