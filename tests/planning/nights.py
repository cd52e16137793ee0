"""Two published nights of a small fleet, and helpers to read them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

from forecaster.config import Spec, load
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.ledger.publication import Publication, PublishedDay
from forecaster.ledger.store import Ledger
from forecaster.model.export import to_onnx
from forecaster.planning.overrides import ProposedOverride
from forecaster.publishing.outcome import PublishedForecast
from forecaster.publishing.predict import predict
from forecaster.serving import bundle, keys
from tests import fleets, graphs, shared
from tests.fleets import AS_OF, Fleet

STAFFING = "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22, vans: {total: 30}}\n"
THURSDAY = date(2024, 4, 11)
PROPOSED = ProposedOverride("A", THURSDAY, 90, "weather", "Ana", "storm")
DAY = timedelta(days=1)


def publish_as_of(spec: Spec, as_of: datetime, folder: Path | None = None) -> PublishedForecast:
    return predict(spec, as_of=as_of, bundle=folder, run_id=None, note=None)


def publish_nights(
    folder: Path, rows: list[str], cities: dict[str, str] = fleets.CITIES, staffing: str = STAFFING, people: str = ""
) -> Fleet:
    """Return a fleet with two published nights; `people` is the content of people.csv."""
    name = f"nights-{shared.digest(rows, cities, staffing, people)}"
    shared.copy(name, partial(_publish, rows=rows, cities=cities, staffing=staffing, people=people), folder)
    return fleets.found(folder)


def _publish(folder: Path, rows: list[str], cities: dict[str, str], staffing: str, people: str) -> None:
    (folder / "people.csv").write_text(people, "utf-8")
    file = folder / "pipeline.yaml"
    file.write_text(fleets.PIPELINE + staffing, "utf-8")
    spec = load(file)
    fleets.fill(spec, rows, cities)
    bundle_folder = write_bundle(spec, 1.0)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
        ledger.promote(spec.name, run_id="first", bundle_digest=bundle_folder.name, by="test", reason="the first")
    publish_as_of(spec, AS_OF - DAY)
    publish_as_of(spec, AS_OF)


def write_bundle(spec: Spec, factor: float) -> Path:
    """Write a bundle with a transparent graph, and the parameters of an untrained network."""
    candidate = fleets.untrained(panels.build(read_as_of(spec, as_of=AS_OF), spec))
    about = {**to_onnx.about(candidate), "depots": list("ABCD")}
    graph = graphs.plain(factor, about["lookback"], about["horizon"])
    parent = spec.paths.bundles
    return bundle.write(parent, graph, to_onnx.weights(candidate), about, keys.signer(spec.paths.folder))


def current(spec: Spec) -> Publication:
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        return ledger.whole(head)


def day(publication: Publication, depot: str = "A", on: date = THURSDAY) -> PublishedDay:
    days = next(published.days for published in publication.depots if published.depot_id == depot)
    return next(published for published in days if published.target_date == on)


def parts(publication: Publication) -> dict[str, int]:
    """Sums of the absolute parts of all changes, by cause."""
    moved: dict[str, int] = {}
    for published_day in (
        published_day for depot in publication.depots for published_day in depot.days if published_day.change
    ):
        assert published_day.change is not None
        assert published_day.change.before + published_day.change.total == round(published_day.quantiles[1])
        for name, orders in published_day.change.parts:
            moved[name] = moved.get(name, 0) + abs(orders)
    return moved
