"""A small fleet with all kinds of dependencies between depots, published as a whole and by groups."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from forecaster.config import Spec, load
from forecaster.core.parallel import Fan, in_turn
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.lake import Lake
from forecaster.ledger.publication import Publication
from forecaster.ledger.store import Ledger
from forecaster.model.export import to_onnx
from forecaster.planning import service
from forecaster.planning.overrides import ProposedOverride
from forecaster.publishing.groups.publish_groups import publish_groups
from forecaster.publishing.outcome import PublishedForecast
from forecaster.publishing.predict import predict
from forecaster.serving import bundle, keys
from tests import fleets, graphs
from tests.panels import LEVELS

FIRST, DAYS = date(2024, 1, 1), 130
AS_OF = datetime(2024, 5, 10, 8, tzinfo=UTC)
AT_A_TIME = 5  # depots per group
PIPELINE = f"""
name: several
timezone: Europe/Berlin
horizon: 15
demand: {{source: {{kind: csv, path: demand.csv}}, recorded: next_day, missing: zero, rules: {{max_age_days: 5}}}}
depots:
  source: {{kind: csv, path: depots.csv}}
  columns: {{opened: opened, closed: closed, timezone: timezone}}
  static: [city, country]
  levels: [country, region]
  aliases: {{source: {{kind: csv, path: aliases.csv}}}}
calendar: {{events: {{source: {{kind: csv, path: events.csv}}}}, known_future: [promo]}}
model: {{layers: 1, hidden: 4, quantiles: {list(LEVELS)}, boosted: false}}
staffing: {{orders_per_driver: 10, cost_short: 38, cost_idle: 22}}
state: var
"""
CITIES = ("Ulm", "Bonn", "Wien", "")
SINCE = {"D02": 100, "D06": 120, "D11": 128, "old": 0}  # first days of new depots
UNTIL = {"D04": 90, "old": 60}
Outcome = tuple[PublishedForecast, Publication, Any]  # and the rows of the archive
NEVER_ON = {"D01": 6, "D05": 6, "D09": 6}  # weekdays without orders


def write(folder: Path) -> Spec:
    """Write the pipeline file and its sources, and ingest them."""
    folder.mkdir(exist_ok=True)
    depots = [f"D{number:02d}" for number in range(14)]
    rows = ["depot_id,date,demand"]
    for place, depot in enumerate([*depots, "old"]):
        for day in range(SINCE.get(depot, 0), UNTIL.get(depot, DAYS)):
            on = FIRST + timedelta(days=day)
            if on.weekday() == NEVER_ON.get(depot) or (place + day) % 41 == 0 or depot == "D13":
                continue
            if depot == "D07" and day < UNTIL["old"]:
                continue  # belongs to its former id
            count = (20 + 3 * place) * (1 + 0.1 * on.weekday()) + (day * (place + 3)) % 7
            rows.append(f"{depot},{on},{round(count)}")
    _lines(folder / "demand.csv", rows)
    listed = [
        f"{depot},{CITIES[place % 4]},{'AT' if place % 4 == 2 else 'DE'},,{'2024-03-31' if depot == 'D04' else ''},"
        f"{'America/New_York' if place in (3, 8) else ''},{'south' if place < 9 else 'north'}"
        for place, depot in enumerate(depots)
    ]
    _lines(folder / "depots.csv", ["depot_id,city,country,opened,closed,timezone,region", *listed])
    _lines(folder / "aliases.csv", ["alias,depot_id", "old,D07"])
    events = ["2024-05-11,promo,Sale,,Ulm", "2024-05-12,promo,Fair,D03,", "2024-05-10,closure,Works,D05,"]
    _lines(folder / "events.csv", ["date,kind,name,depot_id,city", *events])
    (folder / "pipeline.yaml").write_text(PIPELINE, "utf-8")
    spec = load(folder / "pipeline.yaml")
    ingest(spec, now=AS_OF)
    return spec


def build(folder: Path) -> Spec:
    """Build the fleet with a transparent champion, published once, and a later override."""
    spec = write(folder)
    panel = panels.build(read_as_of(spec, as_of=AS_OF), spec)
    candidate = fleets.untrained(panel)
    trained_on = [depot for depot in panel.depot_ids if SINCE.get(depot, 0) < 120]
    about = {**to_onnx.about(candidate), "depots": trained_on}
    graph = graphs.plain(1.0, about["lookback"], about["horizon"])
    signer = keys.signer(spec.paths.folder)
    written = bundle.write(spec.paths.bundles, graph, to_onnx.weights(candidate), about, signer)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
        ledger.promote(spec.name, run_id="first", bundle_digest=written.name, by="test", reason="the first")
    predict(spec, as_of=AS_OF, bundle=None, run_id="first", note=None)
    service.save(spec, ProposedOverride("D08", date(2024, 5, 11), 90, "weather", "Ana", "storm"), now=AS_OF)
    return spec


def whole(spec: Spec) -> Outcome:
    """Publish as a whole."""
    return _published(spec, predict(spec, as_of=AS_OF, bundle=None, run_id=_begun(spec), note="A note."))


def by_groups(spec: Spec, fan: Fan = in_turn, depots: int = AT_A_TIME) -> Outcome:
    """Publish by groups of `depots` depots, by default the size of a chunk of the totals."""
    run_id = _begun(spec)
    outcome = publish_groups(spec, as_of=AS_OF, run_id=run_id, note="A note.", fan=fan, depots=depots)
    assert isinstance(outcome, PublishedForecast), outcome
    return _published(spec, outcome)


def same(whole: Outcome, grouped: Outcome) -> None:
    """Compare publication and archive rows bit by bit, except for the run and the features that
    look back."""
    (outcome, publication, rows), (other_outcome, other, other_rows) = whole, grouped
    besides = {"run_id": "", "published_at": AS_OF, "desk": None}
    assert replace(publication, **besides) == replace(other, **besides)
    for name in ("note", "tier", "depots", "trouble"):
        assert getattr(outcome, name) == getattr(other_outcome, name)
    assert rows.equals(other_rows)


def _begun(spec: Spec) -> str:
    with Ledger.open(spec.ledger_url) as ledger:
        run_id = f"run-{len(ledger.runs(spec.name))}"
        ledger.start_run(run_id, pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
    return run_id


def _published(spec: Spec, outcome: PublishedForecast) -> Outcome:
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        assert head is not None
        publication = ledger.whole(head)
    rows = Lake.of(spec).read("forecasts", where=[("run_id", "=", publication.run_id)])
    rows = rows.sort_by([("depot_id", "ascending"), ("horizon", "ascending")])
    return outcome, publication, rows.drop_columns(["run_id", "recorded_at"])


def _lines(file: Path, lines: list[str]) -> None:
    file.write_text("\n".join([*lines, ""]), "utf-8")
