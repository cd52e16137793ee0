"""Names of columns in the languages of the files: words that denote a depot, a day, a count, or
none of these."""

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
    "capped",
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
    "part",
    "article",
    "metric",
    "quantity",
    "property",
    "stock",
    "scenario",
    "snapshot",
    "cancelled",
    "cancelled_flag",
    "actual",
    "planned",
    "thing",
    "weekdays",
    "yes_or_no",
    "closed_word",
    "unknown_word",
]
INEXACT = 1_000.0  # rank from which on a name only contains a word of a role

# Values often found next to counts, and possibly correlated with them.
_MEASURES = """price preis prix precio prezzo preco revenue cost costs kosten temp temperature temperatur rain regen
    weather wetter lat latitude lon lng longitude plz zip postcode humidity wind snow schnee forecast prognose plan
    budget target ziel vorjahr share anteil percent prozent staff returns retouren stock bestand inventory discount
    rabatt promo promotion aktion obs"""

# The most specific words come first.
WORDS: dict[Role, str] = {
    "depot": """depot store shop site branch location station warehouse outlet restaurant hub facility terminal sensor
        counter filiale filialnr standort lager niederlassung markt betrieb betriebsstaette haltestelle zaehlstelle
        magasin boutique entrepot agence succursale etablissement gare tienda almacen sucursal deposito local estacion
        centro negozio magazzino stabilimento sede loja armazem filial unidade estacao winkel vestiging magazijn
        filiaal butik butikk varehus sklep magazyn oddzial placowka pobocka prodejna uzlet raktar magaza sube depo
        магазин склад филиал точка 店舗 店 拠点 倉庫 门店 店铺 仓库 매장 지점
        house hotel haus casa maison huis garage library clinic hospital klinik pool hall halle museum school
        schule place lieu lugar luogo plek venue park cafe bar pharmacy apotheke cinema kino theatre gym plant
        kitchen office buero beach port airport
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
    "capped": """capped censored sold_out soldout is_sold_out sold_out_at sold_out_time soldout_at soldout_time
        out_of_stock stockout stock_out stockout_time full_at ausverkauft ausverkauft_um ausverkauft_ab agotado
        agotado_a rupture rupture_de_stock epuise esaurito esgotado uitverkocht wyprzedane""",
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
    "part": """channel kanal canal canale product produkt produit producto prodotto item items article artikel article
        articulo articolo sku category kategorie categorie categoria segment customer_type payment zahlungsart shift
        schicht slot daypart hour stunde heure hora ora weather wetter status state zustand stato estado etat type typ
        kind art gender geschlecht nationality country_of_residence patient patients initials name remark comment note
        bemerkung tariff tarif metric measure kpi kennzahl indicator variable scenario version""",
    "article": "product produkt produit producto prodotto item items article artikel articulo articolo sku category",
    "metric": "metric measure kpi kennzahl indicator indikator variable messgroesse mesure misura metrica",
    "quantity": """quantity qty menge quantite cantidad quantita quantidade aantal ilosc antal adet pieces pcs units
        stueck stueckzahl orders bestellungen auftraege parcels packages pakete""",
    "property": """age alter edad eta idade leeftijd nights naechte nuits noches notti duration dauer duree duracion
        durata minutes minuten seconds hours stunden heures horas ore km kilometer kilometers kilometre miles distance
        distanz strecke lead_time leadtime score rating weight gewicht poids peso kg birth birthday geburt year_of_birth
        party_size length height size zip lat lng""",
    "stock": """stock bestand inventory inventar capacity kapazitaet capacite capacidad capacita free frei libre libres
        available verfuegbar remaining rest occupancy occupied besetzt belegt belegung auslastung level fuellstand
        docks""",
    "scenario": "scenario szenario version typ type kind plan_actual planist data_type werttyp",
    "snapshot": """snapshot snapshot_date version revision rev as_of asof extracted extract_date export_date exported
        report_date reported published stand datenstand load_date""",
    "cancelled": """cancelled canceled cancelada cancelado cancelled_by_customer annulliert storniert storno abgesagt
        annule annulee annullato annullata geannuleerd anulowane void voided refunded refund erstattet rembourse no_show
        noshow deleted geloescht test draft entwurf return returned returns retoure rueckgabe reso devolucion devolution
        chargeback rejected abgelehnt failed declined expired abandoned""",
    "cancelled_flag": """cancelled canceled is_cancelled is_canceled storniert storno voided is_void refunded
        is_refunded deleted is_deleted""",
    "actual": "actual actuals ist real realised realized reel reale istwert observed",
    "planned": "plan planned forecast budget target soll prognose planwert prevision previsto",
    "thing": """adults adult children child kids members member casual registered men women male female cars car bikes
        bike bicycles trucks pedestrians buses pcs desks seats rooms loans returns renewals calls emails chats web shop
        online phone app breakfast lunch dinner erwachsene kinder mitglieder autos raeder lkw fussgaenger anrufe
        maenner frauen hommes femmes hombres mujeres uomini donne senioren seniors students schueler ausleihen
        rueckgaben adultes enfants voitures velos adultos ninos coches bicis adulti bambini auto bici new
        repeat takeaway delivery""",
    "weekdays": """mon tue wed thu fri sat sun monday tuesday wednesday thursday friday saturday sunday mo di mi do fr
        sa so montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi mercredi jeudi vendredi samedi
        dimanche lun mar mie jue vie sab dom lunes martes miercoles jueves viernes sabado domingo""",
    "yes_or_no": "0 1 yes no true false y n ja nein oui non si t f",
    "closed_word": """closed geschlossen zu ferme fermee cerrado cerrada chiuso chiusa gesloten fechado fechada
        zamkniete lukket stengt stangt suljettu kapali zavreno holiday feiertag ruhetag""",
    "unknown_word": "n/a na nan null none - -- ? . unknown unbekannt k.a. k.a",
    "actor": """driver drivers courier rider employee vehicle van truck cashier agent customer client account fahrer
        kurier mitarbeiter fahrzeug wagen kassierer kunde chauffeur livreur employe vehicule repartidor conductor
        empleado cajero cliente autista corriere dipendente cassiere koerier medewerker voertuig kierowca kurier
        pracownik""",
    "title": "name title event titel bezeichnung description beschreibung nom nombre nome holiday feiertag anlass",
}


@lru_cache(4096)
def normalized(name: str) -> str:
    """Lower case without accents, words separated by _: `Anzahl Aufträge` and `anzahlAuftraege`
    become anzahl_auftraege."""
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
    """Rank of a name for a role: the lower the better, infinite if it does not fit.

    A name that is a word of the role ranks before one that contains it, as `order_count` contains
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


def is_word(text: str, role: Role) -> bool:
    """True if a text is a word of a role as a whole."""
    return normalized(text) in _ranks(role)


def holds_word(name: str, role: Role) -> bool:
    """True if a name contains a word of a role as listed, not its singular or plural."""
    return any(part in _ranks(role) for part in normalized(name).split("_"))


def is_order_number(name: str) -> bool:
    """True if a name denotes order numbers, such as `order_no`, `Bestellnr`, `Receipt` and `ref`,
    and not numbers of customers or days."""
    text, ranks = normalized(name), _ranks("order_number")
    if text in ranks:
        return True
    return is_id(name) and any(text.startswith(word) for word in ranks)


def is_id(name: str) -> bool:
    """True if a name denotes numbers of things, such as `order_id` and `Bestellnr`."""
    text = normalized(name)
    return text.endswith(("_id", "nr", "nummer", "_no", "_number", "_key", "_code", "_ref")) or text in (
        "id",
        "no",
        "key",
    )


def best(names: Sequence[str], role: Role) -> list[str]:
    """Names that fit a role, the best first."""
    ranked = sorted((rank(name, role), place, name) for place, name in enumerate(names))
    return [name for value, _, name in ranked if value < float("inf")]


def _forms(parts: Sequence[str]) -> list[str]:
    """Words of a name, in singular and plural, and each pair of consecutive words."""
    singles = [form for part in parts for form in (part, part.removesuffix("s"), f"{part}s")]
    return singles + [f"{first}_{second}" for first, second in pairwise(parts)]
