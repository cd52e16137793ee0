"""Tables of counts in shapes found in practice, each with its truth: the count by site and day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np

FIRST = date(2026, 1, 5)
DAYS = [FIRST + timedelta(days=place) for place in range(84)]
WEEK = (1.0, 0.95, 1.0, 1.05, 1.3, 1.5, 0.7)
Truth = dict[tuple[str, date], float]


@dataclass(frozen=True)
class Shape:
    """A table and its truth; `is_clear` marks tables that need no question. The site of a single
    series is ""."""

    name: str
    text: str
    truth: Truth
    is_clear: bool = True


def panel(sites: Iterable[str], level: int = 60, seed: int = 1) -> Truth:
    rng = np.random.default_rng(seed)
    return {
        (site, day): float(rng.poisson(level * (1 + place / 2) * WEEK[day.weekday()]))
        for place, site in enumerate(sites)
        for day in DAYS
    }


def table(header: str, rows: Iterable[str]) -> str:
    return "\n".join([header, *rows]) + "\n"


def total(truth: Truth) -> Truth:
    """Sum over sites, as one series."""
    return {("", day): sum(value for (_, other), value in truth.items() if other == day) for day in DAYS}


LONG = {
    "en": ("store,date,orders", ",", "%Y-%m-%d", ("Alder", "Birch", "Cedar")),
    "us": ("Location,Order Date,Packages", ",", "%m/%d/%Y", ("Boston", "Dallas", "Reno")),
    "de": ("Filiale;Datum;Anzahl Bestellungen", ";", "%d.%m.%Y", ("Köln", "Mainz", "Ulm")),
    "fr": ("magasin;jour;colis", ";", "%d/%m/%Y", ("Lyon", "Nantes", "Lille")),
    "es": ("tienda,fecha,pedidos", ",", "%d-%m-%Y", ("Sur", "Norte", "Centro")),
    "it": ("negozio;data;clienti", ";", "%d/%m/%y", ("Lido", "Posta", "Stazione")),
    "nl": ("winkel\tdatum\tbestellingen", "\t", "%d-%m-%Y", ("Breda", "Tiel", "Goes")),
    "pl": ("sklep,data,zamowienia", ",", "%Y.%m.%d", ("Gdynia", "Sopot", "Hel")),
    "pt": ("loja|dia|encomendas", "|", "%Y/%m/%d", ("Braga", "Faro", "Beja")),
    "plain": ("unique_id,ds,y", ",", "%Y-%m-%d", ("a1", "a2", "a3")),
    "number": ("site,day,count", ",", "%Y%m%d", ("101", "102", "103")),
}


def long_tables() -> Iterator[Shape]:
    for name, (header, mark, form, sites) in LONG.items():
        truth = panel(sites)
        rows = [mark.join((site, day.strftime(form), f"{value:.0f}")) for (site, day), value in truth.items()]
        yield Shape(f"long {name}", table(header, rows), truth)
    truth = panel(("Alder", "Birch", "Cedar"))
    regions = {"Alder": "North", "Birch": "North", "Cedar": "South"}
    rows = [f"{regions[site]},{site},{day},{value:.0f}" for (site, day), value in truth.items()]
    yield Shape("long with regions", table("region,depot,date,parcels", rows), truth)
    rows = [f"{site},{day},{value:.0f},{value * 12.5:.2f},{value / 9:.1f}" for (site, day), value in truth.items()]
    yield Shape("long with money and hours", table("store,date,orders,revenue,staff_hours", rows), truth)
    rows = [f"{site},{day},{value:.0f},{2 * value + day.day % 3:.0f}" for (site, day), value in truth.items()]
    yield Shape("long of two counts", table("store,date,orders,visitors", rows), truth, is_clear=False)
    rows = [
        f"{site},{day},{value // 3:.0f},{value - value // 3:.0f},{value:.0f}" for (site, day), value in truth.items()
    ]
    yield Shape("long of members and others", table("station,date,casual,registered,cnt", rows), truth)
    rows = [f"{site},{day},{value:.0f},{40},{40 - value % 40:.0f}" for (site, day), value in truth.items()]
    yield Shape("long beside a stock", table("station,date,rentals,capacity,free", rows), truth)
    rows = [f"{site},{day},{value:.0f},{value * 1.1 + day.day % 5:.0f}" for (site, day), value in truth.items()]
    yield Shape("long beside a plan", table("depot,date,orders,plan", rows), truth)
    rows = [f"{day},{value:.0f}" for (site, day), value in truth.items() if site == "Alder"]
    yield Shape("one series", table("date,visitors", rows), {("", d): v for (s, d), v in truth.items() if s == "Alder"})
    everything = [*truth.items(), *total(truth).items()]
    rows = [f"{site or 'All depots'},{day},{value:.0f}" for (site, day), value in everything]
    yield Shape("long with a total as site", table("depot,date,orders", rows), truth)


def wide_tables() -> Iterator[Shape]:
    for name, header, form, mark, sites in (
        ("wide en", "date", "%Y-%m-%d", ",", ("Alder", "Birch", "Cedar")),
        ("wide de", "Datum", "%d.%m.%Y", ";", ("Köln", "Mainz", "Ulm")),
        ("wide fr", "jour", "%d/%m/%Y", ";", ("Lyon", "Nantes", "Lille")),
    ):
        truth = panel(sites)
        rows = [mark.join([day.strftime(form), *(f"{truth[site, day]:.0f}" for site in sites)]) for day in DAYS]
        yield Shape(name, table(mark.join([header, *sites]), rows), truth)
        rows = [f"{row}{mark}{total(truth)['', day]:.0f}" for row, day in zip(rows, DAYS, strict=True)]
        text = table(mark.join([header, *sites, "Total"]), rows)
        yield Shape(f"{name} with a total", f"Counts of all sites{mark * 4}\n{mark * 4}\n{text}", truth)
    sites = ("Alder", "Birch", "Cedar")
    truth = panel(sites)
    rows = [",".join([site, *(f"{truth[site, day]:.0f}" for day in DAYS)]) for site in sites]
    yield Shape("wide days", table(",".join(["site", *map(str, DAYS)]), rows), truth)
    yield from measures()


def measures() -> Iterator[Shape]:
    whole = total(panel(("a",)))
    counts = {day: value for (_, day), value in whole.items()}
    rows = [
        f"{day:%d/%m/%Y},{n:.0f},{13 + day.day % 5 / 7:.2f},{166 + day.day % 9 / 3:.1f}" for day, n in counts.items()
    ]
    yield Shape("measures it", table("Data,Passeggeri,Ore di servizio,Km percorsi", rows), whole)
    rows = [f"{day},{n:.0f},{n * 13.5:.2f},{7 + day.day % 3}" for day, n in counts.items()]
    yield Shape("measures en", table("date,orders,revenue,drivers", rows), whole)
    rows = [f"{day},{n // 4:.0f},{n - n // 4:.0f},{n:.0f}" for day, n in counts.items()]
    yield Shape("adults and children", table("date,adults,children,total", rows), whole, is_clear=False)
    parts = [(day, n, n // 3, n // 4) for day, n in counts.items()]
    rows = [f"{day},{n:.0f},{a:.0f},{n - a:.0f},{b:.0f},{n - b:.0f}" for day, n, a, b in parts]
    header = "Date,Total,Mode: Train,Mode: Road,Reason: Commute,Reason: Other"
    yield Shape("two partitions with their total", table(header, rows), whole)
    rows = [f"{day},{a:.0f},{n - a:.0f},{b:.0f},{n - b:.0f}" for day, n, a, b in parts]
    header = "Date,Mode: Train,Mode: Road,Reason: Commute,Reason: Other"
    truth = {
        (name, day): value for day, n, a, _ in parts for name, value in (("Mode: Train", a), ("Mode: Road", n - a))
    }
    yield Shape("two partitions", table(header, rows), truth, is_clear=False)
    truth = panel(("Alder", "Birch"))
    rows = [
        f"{site},{day},{name},{value * factor:.{places}f}"
        for (site, day), value in truth.items()
        for name, factor, places in (("orders", 1, 0), ("items", 3, 0), ("revenue", 21.4, 2))
    ]
    yield Shape("metric column", table("site,day,metric,value", rows), truth)
    rows = [
        f"{site},{day},{kind},{value + extra:.0f}"
        for (site, day), value in truth.items()
        for kind, extra in (("actual", 0), ("plan", day.day % 7))
    ]
    yield Shape("plan and actual", table("depot,date,scenario,parcels", rows), truth)
    rows = [
        f"{site},{day},{day + timedelta(days=back)},{value - lag:.0f}"
        for (site, day), value in truth.items()
        for back, lag in ((1, 9), (2, 3), (3, 0))
    ]
    yield Shape("snapshots", table("site,day,snapshot_date,orders", rows), truth)


def parts() -> Iterator[Shape]:
    truth = panel(("Alder", "Birch", "Cedar"), level=90)
    hours = (9, 12, 15, 18)
    pieces = {
        (site, day, hour): value // 4 + (value % 4 if hour == 18 else 0)
        for (site, day), value in truth.items()
        for hour in hours
    }
    rows = [f"{site},{day} {hour:02d}:00,{value:.0f}" for (site, day, hour), value in pieces.items()]
    yield Shape("hours in the stamp", table("site,timestamp,visitors", rows), truth)
    rows = [f"{site},{day},{hour},{value:.0f}" for (site, day, hour), value in pieces.items()]
    yield Shape("hours in a column", table("store,date,hour,orders", rows), truth)
    rows = [f"{site};{day.year};{day.month};{day.day};{hour};{v:.0f}" for (site, day, hour), v in pieces.items()]
    yield Shape("day in three columns", table("place;year;month;day;hour;visitors", rows), truth)
    rows = [f"{day} {hour:02d}:00,{value:.0f}" for (site, day, hour), value in pieces.items() if site == "Alder"]
    one = {("", day): value for (site, day), value in truth.items() if site == "Alder"}
    yield Shape("hours of one series", table("date_time,vehicles", rows), one)
    rows = [
        f"{weather},{day} {hour:02d}:00,{value:.0f}"
        for (site, day, hour), value in pieces.items()
        if site == "Alder"
        for weather in (("Clear", "Mist") if (day.day + hour) % 5 == 0 else ("Rain",))
    ]
    yield Shape("an hour for each weather", table("weather,date_time,vehicles", rows), one)
    channels = ("web", "shop", "phone")
    rows = [
        f"{site},{day},{name},{value // 3 + (value % 3 if name == 'phone' else 0):.0f}"
        for (site, day), value in truth.items()
        for name in channels
    ]
    yield Shape("channels", table("store,date,channel,orders", rows), truth)
    rows += [f"{site},{day},all,{value:.0f}" for (site, day), value in truth.items()]
    yield Shape("channels and their total", table("store,date,channel,orders", rows), truth)


def more_parts() -> Iterator[Shape]:
    truth = panel(("Alder", "Birch"), level=120)
    items = range(100, 170)  # products, of which each day has some
    pieces: dict[tuple[str, date, int], float] = {}
    for site, day in truth:
        sold = [item for item in items if (item + day.day) % 3]
        pieces |= {(site, day, item): 1.0 + (item * day.day) % 4 for item in sold}
    rows = [f"{day},{site},{item},{value:.0f}" for (site, day, item), value in pieces.items()]
    summed: Truth = {}
    for (site, day, _), value in pieces.items():
        summed[site, day] = summed.get((site, day), 0) + value
    yield Shape("products", table("date,store_nbr,item_nbr,unit_sales", rows), summed)
    rows = [f"{site},{day},{n},{value + n:.0f}" for (site, day), value in truth.items() for n in (1, 2, 3)]
    yield Shape("numbered versions", table("site,day,version,orders", rows), truth, is_clear=False)
    rows = [
        f"{site},{day},{kind},{value + n:.0f}"
        for (site, day), value in truth.items()
        for n, kind in enumerate(("m", "f", "all"))
    ]
    yield Shape("a part called a total", table("store,date,gender,visitors", rows), truth, is_clear=False)
    rows = [f"{day},{item},{value:.0f}" for (item, day), value in panel(("Bread", "Roll", "Cake")).items()]
    yield Shape("articles without a site", table("date,product,qty", rows), truth, is_clear=False)
    rows = [
        f"{day},{hour}:{minute},{site},{2 + (day.day + hour) % 5}"
        for site, day in truth
        for hour in range(17, 22)
        for minute in ("00", "15", "30", "45")
        if (day.day * hour + int(minute)) % 4 == 0
    ]
    yield Shape("reservations of tables", table("date,time,restaurant,guests", rows), truth, is_clear=False)


@dataclass(frozen=True)
class Event:
    number: int
    site: str
    at: datetime


def events(sites: Iterable[str] = ("Alder", "Birch"), level: int = 25, hours: tuple[int, ...] = tuple(range(9, 20))):
    rng = np.random.default_rng(5)
    number = 1000
    for day in DAYS:
        for site in sites:
            for _ in range(int(rng.poisson(level * WEEK[day.weekday()]))):
                hour = int(rng.choice(hours))
                at = datetime(day.year, day.month, day.day) + timedelta(hours=hour, minutes=int(rng.integers(60)))
                number += 1
                yield Event(number, site, at)


def counted(chosen: Iterable[Event], of_day: Callable[[Event], date] = lambda event: event.at.date()) -> Truth:
    truth: Truth = {}
    for event in chosen:
        key = (event.site, of_day(event))
        truth[key] = truth.get(key, 0) + 1
    return truth


def event_tables() -> Iterator[Shape]:
    all_events = [*events()]
    truth = counted(all_events)
    rows = [f"{e.number},{e.site},{e.at:%Y-%m-%d %H:%M}" for e in all_events]
    yield Shape("orders", table("order_id,store,ordered_at", rows), truth)
    rows = [f"{e.at:%Y-%m-%dT%H:%M:%S},{e.site},{8 + e.number % 90}.{e.number % 10}0" for e in all_events]
    yield Shape("orders with amounts", table("created_at,store,amount_eur", rows), truth)
    rows = [f"{e.number};{e.at:%d.%m.%Y %H:%M};{e.site};{1 + e.number % 4}" for e in all_events]
    summed: Truth = {}
    for e in all_events:
        summed[e.site, e.at.date()] = summed.get((e.site, e.at.date()), 0) + 1 + e.number % 4
    yield Shape("order lines", table("Bestellnr;Zeitpunkt;Filiale;Menge", rows), summed)
    state = {0: "cancelled", 1: "refunded"}
    rows = [f"{e.number},{e.site},{e.at:%Y-%m-%d %H:%M},{state.get(e.number % 10, 'paid')}" for e in all_events]
    paid = counted(e for e in all_events if e.number % 10 > 1)
    yield Shape("orders with states", table("order_id,store,ordered_at,status", rows), paid)
    rows = [f"{e.number},{e.site},{e.at:%Y-%m-%d},{int(e.number % 9 == 0)}" for e in all_events]
    yield Shape(
        "bookings with a flag",
        table("booking_id,hotel,arrival_date,is_canceled", rows),
        counted(e for e in all_events if e.number % 9),
    )
    rows = [
        f"{e.site},{int(e.number % 9 == 0)},{e.number % 200},{e.at.year},{e.at:%B},{e.at.day},{1 + e.number % 5},"
        f"{1 + e.number % 2},{('ESP', 'IRL', 'PRT', 'CHE')[e.number % 4]},{int(e.number % 33 == 0)},"
        f"{'Canceled' if e.number % 9 == 0 else 'Out'},{e.at.date() + timedelta(days=1 + e.number % 5)}"
        for e in all_events
    ]
    header = (
        "house,is_canceled,lead_time,arrival_year,arrival_month,arrival_day,nights,adults,country,"
        "previous_bookings_not_canceled,status,status_date"
    )
    bookings = counted(e for e in all_events if e.number % 9)
    yield Shape("bookings with two days", table(header, rows), bookings, is_clear=False)
    one = [*events(("",), 60)]
    rows = [
        f"{'ABCDEFGHJK'[e.number % 10]}.{'KLMNPRST'[e.number % 8]}.,{20 + e.number % 60},{e.at:%d/%m/%Y %H:%M}"
        for e in one
    ]
    yield Shape("visits of patients", table("patient,age,admitted", rows), counted(one), is_clear=False)
    rows = [f"{('CH', 'DE', 'FR', 'IT')[e.number % 4]},{e.at:%Y-%m-%d},{1 + e.number % 6}" for e in one]
    yield Shape("guests by country", table("country,date,nights", rows), counted(one), is_clear=False)
    rows = [f"{e.at:%Y-%m-%d %H:%M},{('Espresso', 'Latte', 'Tea')[e.number % 3]},{2 + e.number % 3}.50" for e in one]
    yield Shape("sales of a bar", table("time,item,price", rows), counted(one), is_clear=False)
    night = [*events(("Alder", "Birch"), 40, (18, 19, 20, 21, 22, 23, 24, 25))]
    rows = [f"{e.number},{e.site},{e.at:%Y-%m-%d %H:%M}" for e in night]
    business = counted(night, lambda e: (e.at - timedelta(hours=4)).date())
    yield Shape("orders past midnight", table("order_no,site,ordered_at", rows), business)
    rows = [f"{e.number},{e.site},{('Alder', 'Birch')[e.number % 2]},{e.at:%Y-%m-%d %H:%M}" for e in all_events]
    yield Shape("trips", table("trip_id,start_station,end_station,started_at", rows), truth, is_clear=False)
    rows = [f"{e.number},{e.site},{e.at:%Y-%m-%d},{e.at.date() + timedelta(days=e.number % 4)}" for e in all_events]
    yield Shape("orders and deliveries", table("order_id,depot,order_date,delivery_date", rows), truth, is_clear=False)


def notations() -> Iterator[Shape]:
    sites = ("Alder", "Birch", "Cedar")
    truth = panel(sites, level=900)
    rows = [f'{site},{day},"{value:,.0f}"' for (site, day), value in truth.items()]
    yield Shape("thousands on peaks", table("site,day,orders", rows), truth)
    rows = [f'{site},{day},"${value:,.2f}"' for (site, day), value in truth.items()]
    yield Shape("a mark before counts", table("site,day,orders", rows), truth)
    rows = [f'{site};{day:%d.%m.%Y};"{f"{value:,.0f}".replace(",", ".")}"' for (site, day), value in truth.items()]
    yield Shape("thousands with a point", table("Standort;Tag;Pakete", rows), truth)
    rows = [f"{site};{day:%d.%m.%Y};{value:.0f},0" for (site, day), value in truth.items()]
    yield Shape("decimal comma", table("Standort;Tag;Pakete", rows), truth)
    rows = [f'="{place:03d}",{day},{truth[site, day]:.0f}' for place, site in enumerate(sites) for day in DAYS]
    numbered = {(f"{sites.index(site):03d}", day): value for (site, day), value in truth.items()}
    yield Shape("ids as formulas", table("site,day,orders", rows), numbered)
    rows = [f"{site},{day:%A} {day.day} {day:%B %Y},{value:.0f}" for (site, day), value in truth.items()]
    yield Shape("long dates", table("site,day,orders", rows), truth)
    rows = [f"{site},{day:%G-W%V-%u},{value:.0f}" for (site, day), value in truth.items()]
    yield Shape("weeks of ISO 8601", table("site,day,orders", rows), truth)
    rows = [f"{site},{day} 00:00:00 UTC,{value:.0f}" for (site, day), value in truth.items()]
    yield Shape("stamps of midnight in UTC", table("site,day,orders", rows), truth)
    rows = [f"{site if day == DAYS[0] else ''},{day},{truth[site, day]:.0f}" for site in sites for day in DAYS]
    yield Shape("site on its first row", table("site,day,orders", rows), truth, is_clear=False)
    rows = [
        f"{site},{day},{'CLOSED' if day.weekday() == 6 else f'{value:.0f}'}" for (site, day), value in truth.items()
    ]
    opened = {(site, day): value for (site, day), value in truth.items() if day.weekday() < 6}
    yield Shape("closed in words", table("site,day,orders", rows), opened)
    rows = [f"{site},{day},{value:.0f},{'yes' if value else 'no'}" for (site, day), value in truth.items()]
    yield Shape("an open column", table("site,day,orders,open", rows), truth)


def shapes() -> list[Shape]:
    """All tables."""
    return [*long_tables(), *wide_tables(), *parts(), *more_parts(), *event_tables(), *notations()]
