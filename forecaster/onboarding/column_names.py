"""What columns are called in the languages that files come in: words that name a depot, a day, a
count, or none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

Role = Literal[
    "depot",
    "area",
    "date",
    "demand",
    "open",
    "recorded",
    "total",
    "calendar",
    "other",
    "measure",
    "money",
    "order_number",
    "kind",
    "title",
    "actor",
]
INEXACT = 1_000.0  # the rank from which on a name only holds a word of a role

# What stands next to counts, and may rise and fall with them.
_MEASURES = """price preis prix precio prezzo preco revenue cost costs kosten temp temperature temperatur rain regen
    weather wetter lat latitude lon lng longitude plz zip postcode humidity wind snow schnee forecast prognose plan
    budget target ziel vorjahr share anteil percent prozent staff returns retouren stock bestand inventory discount
    rabatt promo promotion aktion obs"""

# The words that say it best come first.
WORDS: dict[Role, str] = {
    "depot": """depot store shop site branch location station warehouse outlet restaurant hub facility terminal sensor
        counter filiale filialnr standort lager niederlassung markt betrieb betriebsstaette haltestelle zaehlstelle
        magasin boutique entrepot agence succursale etablissement gare tienda almacen sucursal deposito local estacion
        centro negozio magazzino stabilimento sede loja armazem filial unidade estacao winkel vestiging magazijn
        filiaal butik butikk varehus sklep magazyn oddzial placowka pobocka prodejna uzlet raktar magaza sube depo
        магазин склад филиал точка 店舗 店 拠点 倉庫 门店 店铺 仓库 매장 지점
        unique_id series region area city stadt ville ciudad citta cidade ort zone""",
    "area": """series region area city stadt ville ciudad citta cidade ort zone district bezirk provincia provincie
        land country subdivision""",
    "date": """date day datum tag jour fecha dia data giorno dag dato paiva dzien nap tarih gun datetime timestamp
        zeitstempel zeitpunkt zeit time hour stunde heure hora ds ordered_at order_date bestelldatum bestellt_am
        created created_at visit_date pickup start дата день 日付 日 日期 날짜""",
    "demand": """demand orders order bestellungen auftraege commandes pedidos ordini encomendas bestellingen zamowienia
        ordrar заказы 注文数 订单 订单数 주문 parcels parcel packages pakete sendungen colis paquetes pacchi pakketten
        shipments deliveries lieferungen livraisons entregas consegne visitors visits visitors besucher visiteurs
        visitas visitatori customers kunden clients clientes clienti klanten transactions transaktionen tickets trips
        rides fahrten boardings passengers passagiere pickups footfall traffic bookings units stueck stueckzahl absatz
        quantity qty menge anzahl quantite cantidad quantita quantidade aantal ilosc antal количество 数量 销量 수량
        count counts number volume nombre numero sales verkaeufe ventes ventas vendite vendas verkoop cnt y value
        wert valeur valor valore umsatz amount""",
    "open": "open is_open geoeffnet offen ouvert abierto aperto aberto",
    "recorded": """recorded_at recorded loaded_at updated_at exported_at modified_at inserted_at changed_at last_update
        geaendert erfasst_am exportiert_am""",
    "total": "total totals sum summe gesamt insgesamt somme totale suma razem celkem all alle average mean mittelwert",
    "calendar": """weekday wochentag day_of_week dow jour_semaine dia_semana week woche kw semaine semana month monat
        mois mes year jahr annee ano quarter quartal""",
    "other": f"{_MEASURES} id nr no holiday feiertag index row",
    "measure": _MEASURES,
    "money": """eur euro usd gbp chf dollar pound pln zloty czk sek nok dkk jpy yen cny rub inr brl currency money price
        preis prix precio prezzo preco revenue turnover umsatz betrag erloes einnahmen montant importe importo bedrag
        kwota fatturato facturacion faturamento omzet obrot cost kosten выручка сумма 金额 売上 매출액""",
    "order_number": """order orders bestellung bestell auftrag auftrags receipt ticket beleg bon invoice rechnung
        rechnungs pedido pedidos commande ordine encomenda zamowienie sendung sendungs shipment parcel tracking waybill
        transaction booking buchung ref reference referenz referencia""",
    "kind": "kind type art typ typus tipo sort category kategorie",
    "actor": """driver drivers courier rider employee vehicle van truck cashier agent customer client account fahrer
        kurier mitarbeiter fahrzeug wagen kassierer kunde chauffeur livreur employe vehicule repartidor conductor
        empleado cajero cliente autista corriere dipendente cassiere koerier medewerker voertuig kierowca kurier
        pracownik""",
    "title": "name title event titel bezeichnung description beschreibung nom nombre nome holiday feiertag anlass",
}


@lru_cache(4096)
def normalized(name: str) -> str:
    """Lower case without accents, words parted by _: `Anzahl Aufträge` and `anzahlAuftraege` are
    anzahl_auftraege."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    for letter, letters in (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("Ä", "Ae"), ("Ö", "Oe"), ("Ü", "Ue"), ("ß", "ss")):
        name = name.replace(letter, letters)
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", name.lower()) if not unicodedata.combining(sign))
    return re.sub(r"[^\w]+", "_", plain.replace("ł", "l")).strip("_")


@lru_cache(64)
def _ranks(role: Role) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for place, word in enumerate(WORDS[role].split()):
        ranks.setdefault(normalized(word), place)
    return ranks


def rank(name: str, role: Role) -> float:
    """Rank of a name for a role: the lower the better, infinite where it does not.

    A whole name that is a word of the role is better than one that holds it, as `order_count` holds
    `order`.
    """
    ranks, text = _ranks(role), normalized(name)
    if text in ranks:
        return ranks[text]
    parts = text.split("_")
    places = [ranks[part] for part in _forms(parts) if part in ranks]
    return INEXACT + min(places) if places else float("inf")


def says(name: str, role: Role) -> bool:
    return rank(name, role) < float("inf")


def holds_word(name: str, role: Role) -> bool:
    """Does it hold a word of a role as it is listed, neither its singular nor its plural?"""
    return any(part in _ranks(role) for part in normalized(name).split("_"))


def is_order_number(name: str) -> bool:
    """Does it number orders, as `order_no`, `Bestellnr`, `Receipt` and `ref` do, and no customers
    or days?"""
    text, words = normalized(name), _ranks("order_number")
    if text in words:
        return True
    return is_id(name) and any(text.startswith(word) for word in words)


def is_id(name: str) -> bool:
    """Does it number things, as `order_id` and `Bestellnr` do?"""
    text = normalized(name)
    return text.endswith(("_id", "nr", "nummer", "_no", "_number", "_key", "_code", "_ref")) or text in (
        "id",
        "no",
        "key",
    )


def best(names: Sequence[str], role: Role) -> list[str]:
    """The names that say a role, the best first."""
    ranked = sorted((rank(name, role), place, name) for place, name in enumerate(names))
    return [name for value, _, name in ranked if value < float("inf")]


def _forms(parts: Sequence[str]) -> list[str]:
    """The words of a name, in the singular and the plural, and each two that follow one another."""
    singles = [form for part in parts for form in (part, part.removesuffix("s"), f"{part}s")]
    return singles + [f"{first}_{second}" for first, second in pairwise(parts)]
