from __future__ import annotations

import pytest

from forecaster.onboarding import column_names


@pytest.mark.parametrize(
    ("depot", "day", "count"),
    [
        ("Filiale", "Datum", "Anzahl Aufträge"),
        ("Magasin", "Jour", "Colis livrés"),
        ("Tienda", "Fecha", "Pedidos"),
        ("storeId", "orderDate", "order_count"),
        ("店舗", "日付", "注文数"),
    ],
)
def test_recognizes_column_names_in_several_languages(depot: str, day: str, count: str) -> None:
    names = ["Bemerkung", count, depot, day]
    assert column_names.best(names, "depot")[0] == depot
    assert column_names.best(names, "date")[0] == day
    assert column_names.best(names, "demand")[0] == count


def test_order_number_is_not_a_count() -> None:
    assert column_names.is_id("order_id")
    assert column_names.is_id("BestellNr")
    assert not column_names.is_id("orders")
