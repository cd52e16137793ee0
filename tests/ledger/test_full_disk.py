"""On a full disk the ledger reports the cause, and readers keep reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.errors import LedgerError
from forecaster.ledger.store import Ledger
from tests.flows.test_degraded import small_disk  # noqa: F401 (a fixture)

pytestmark = pytest.mark.long


def test_full_disk_is_reported_to_writers_while_readers_keep_reading(small_disk: Path) -> None:  # noqa: F811
    url = f"sqlite:///{small_disk / 'ledger.db'}"
    with Ledger.open(url) as ledger:
        assert ledger.runs() == ()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "rest").write_bytes(bytes(2**21))
    with pytest.raises(LedgerError, match=rf"no room left on the disk of {small_disk} \(\d+ bytes free\); make some"):
        Ledger.open(url)
    with Ledger.open_reader(url) as ledger:
        assert ledger.runs() == ()
