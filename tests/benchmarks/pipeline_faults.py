"""What a failure of the ledger's PostgreSQL or of the lake's object store does to a night of one pipeline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import sqlalchemy as sa

from forecaster.ledger import connect, tables
from tests.benchmarks.pipelines import Ending, Place, place_of_all, run, write
from tests.benchmarks.report import working_folder
from tests.databases import Postgres
from tests.stores import Gateway

Hurt = Callable[[Postgres, Gateway], None]
WATCHED = 0.05  # seconds between looks


@dataclass(frozen=True)
class Scenario:
    """What is done, and when: before the night begins, or once its run stands in the ledger."""

    name: str
    hurt: Hurt
    before: bool = False


def main() -> None:
    scenarios = (
        Scenario("nothing", lambda server, way: None),
        Scenario("PostgreSQL restarted, away for 5 s", lambda server, way: _away(server, 5)),
        Scenario("PostgreSQL away for 5 s as the night begins", lambda server, way: _away(server, 5), before=True),
        Scenario("PostgreSQL away for 90 s", lambda server, way: _away(server, 90)),
        Scenario("each call to the store a second late", lambda server, way: setattr(way, "delay", 1.0), before=True),
        Scenario("the store answers 503 for 20 s", lambda server, way: _refuses(way, 20), before=True),
    )
    print("| what fails | night | seconds | requests to the store | outcome in the ledger | last words |")
    print("|---|---|---|---|---|---|")
    with working_folder(None, "pipeline-faults-") as folder, place_of_all(folder) as (place, server):
        for number, scenario in enumerate(scenarios):
            print(_row(scenario, place, server, number), flush=True)


def _row(scenario: Scenario, place: Place, server: Postgres, number: int) -> str:
    way = Gateway(str(place.store))
    through = replace(place, store=way.address)
    write(place, number)
    ends: list[Ending] = []
    try:
        run(through, number, 0, trains=False)  # a night before it, whose forecast is out
        asked = way.requests
        night = threading.Thread(target=lambda: ends.append(run(through, number, 1, trains=False)))
        hurt = threading.Thread(target=lambda: scenario.hurt(server, way))
        if scenario.before:
            hurt.start()
            time.sleep(0.5)
        night.start()
        if not scenario.before:
            _until_begun(place, number)
            hurt.start()
        night.join()
        hurt.join()
    finally:
        way.close()
    (end,) = ends
    outcome = _outcomes(place, number)
    return f"| {scenario.name} | {end.code} | {end.seconds:.0f} | {way.requests - asked} | {outcome} | {end.said} |"


def _until_begun(place: Place, number: int) -> None:
    """Wait until the second run of a pipeline stands in the ledger."""
    runs = tables.runs.c
    query = sa.select(sa.func.count()).where(runs.pipeline == f"fleet-{number}")
    engine = connect.reader(str(place.ledger))
    while True:
        with engine.begin() as connection:
            if (connection.execute(query).scalar() or 0) > 1:
                break
        time.sleep(WATCHED)
    engine.dispose()


def _outcomes(place: Place, number: int) -> str:
    runs = tables.runs.c
    query = sa.select(runs.outcome).where(runs.pipeline == f"fleet-{number}").order_by(runs.started_at.desc())
    engine = connect.reader(str(place.ledger))
    with engine.begin() as connection:
        rows = connection.execute(query).scalars().all()
    engine.dispose()
    return str(rows[0]) if len(rows) > 1 else "no row"


def _away(server: Postgres, seconds: float) -> None:
    server.stop()
    time.sleep(seconds)
    server.start()


def _refuses(way: Gateway, seconds: float) -> None:
    way.status, way.fails = "503 Slow Down", lambda method, path: True
    time.sleep(seconds)
    way.fails = lambda method, path: False


if __name__ == "__main__":
    main()
