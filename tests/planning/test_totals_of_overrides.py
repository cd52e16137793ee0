"""An override updates the totals of all levels and weeks that include its day, as the next run
would publish them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np

from forecaster.ledger import soundness
from forecaster.ledger.publication import Publication, PublishedTotal
from forecaster.ledger.store import Ledger
from tests.publishing.groups import fleet


def test_override_updates_totals_exactly_as_the_next_run_does(tmp_path: Path) -> None:
    spec = fleet.build(tmp_path)  # publishes, and then saves an override of depot D08 on the day
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        refreshed = ledger.whole(head)
        with ledger.transaction() as connection:
            soundness.require_unchanged(connection, head.publication_id)
    _, night, _ = fleet.whole(spec)
    assert [_key(total) for total in refreshed.totals] == [_key(total) for total in night.totals]
    for shown, expected in zip(refreshed.totals, night.totals, strict=True):
        np.testing.assert_allclose(shown.quantiles, expected.quantiles, rtol=1e-5, err_msg=str(_key(shown)))
    assert _weeks(refreshed).keys() == _weeks(night).keys()
    for depot_id, weeks in _weeks(refreshed).items():
        np.testing.assert_allclose(weeks, _weeks(night)[depot_id], rtol=1e-5, err_msg=depot_id)


def _key(total: PublishedTotal) -> tuple[str, str, date, int]:
    return (total.level, total.name, total.target_date, total.days)


def _weeks(publication: Publication) -> dict[str, tuple[tuple[float, ...], ...]]:
    return {depot.depot_id: depot.weeks for depot in publication.depots}
