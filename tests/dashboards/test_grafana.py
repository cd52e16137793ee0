"""Grafana's dashboards: the JSON files parse, fill their grid, and query existing metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from forecaster.config import Slo
from forecaster.core.metric_names import MEASURES
from tests.e2e.panels import RIGHTLY_EMPTY

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dashboards" / "grafana"
FILES = sorted(FOLDER.glob("*.json"))
BOARDS = {file.stem: json.loads(file.read_text("utf-8")) for file in FILES}
PANELS = [(name, panel) for name, board in BOARDS.items() for panel in board["panels"]]
ASKING = [(name, panel) for name, panel in PANELS if panel["type"] not in ("row", "text")]
QUERIES = [(panel, target["expr"]) for _, panel in ASKING for target in panel["targets"]]
BY_NAME = {measure.prometheus: measure for measure in MEASURES.values()}
OF_OTHERS = re.compile(r"(process|python_gc|scrape)_\w+|up")  # metrics of Python's client, and of Prometheus itself
UNITS = {"percentunit", "s", "short", "bytes", "reqps", "sci"}  # names of units in Grafana
CODES = re.compile(r"\$__\w+")  # variables that Grafana replaces by a time


def selectors(expression: Any) -> Iterator[Any]:
    """Yield every selector of a parsed query."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        if (part := getattr(expression, name, None)) is not None:
            yield from selectors(part)
    for part in getattr(expression, "args", None) or ():
        yield from selectors(part)


def parsed(query: str) -> Any:
    return promql_parser.parse(CODES.sub("5m", query))


def test_the_parser_rejects_a_broken_query() -> None:
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        parsed("sum(rate(x[5m])")


def test_every_query_uses_existing_metrics_and_labels_of_the_chosen_pipeline() -> None:
    assert len(QUERIES) > 50
    for panel, query in QUERIES:
        found = list(selectors(parsed(query)))
        assert set(re.findall(r"\bforecaster_\w+", query)) <= {selector.name for selector in found}
        chosen = 0
        for selector in found:
            bare = re.sub(r"_(bucket|count|sum)$", "", selector.name)
            if OF_OTHERS.fullmatch(selector.name):
                continue
            assert bare in BY_NAME, (panel["title"], selector.name)
            labels = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
            assert labels.pop("pipeline") == "$pipeline", panel["title"]
            assert labels.keys() <= set(BY_NAME[bare].labels), (panel["title"], labels)
            chosen += 1
        assert chosen, panel["title"]  # process metrics, too, are selected by the pipeline's process


def test_legends_and_groups_use_existing_labels() -> None:
    known = {label for measure in MEASURES.values() for label in measure.labels} | {"instance", "generation"}
    for _, panel in ASKING:
        for target in panel["targets"]:
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert legend <= known, panel["title"]
            grouped = re.findall(r"\b(?:max|sum|count) by \(([^)]*)\)", target["expr"])
            if grouped and legend:
                assert legend <= set(re.split(r",\s*", grouped[0])), panel["title"]


def test_counters_are_queried_by_rate_or_increase_except_totals_of_runs() -> None:
    for panel, query in QUERIES:
        counters = {name for name, measure in BY_NAME.items() if measure.kind == "counter" and name in query}
        if counters - {"forecaster_runs_total"}:
            assert re.search(r"\b(rate|increase)\(", query), panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_panels_fill_the_columns_and_do_not_overlap(name: str) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in BOARDS[name]["panels"]:
        place = panel["gridPos"]
        for row in range(place["y"], place["y"] + place["h"]):
            for column in range(place["x"], place["x"] + place["w"]):
                assert (row, column) not in taken, (panel["title"], taken[row, column])
                taken[row, column] = panel["title"]
    height = max(row for row, _ in taken) + 1
    assert len(taken) == 24 * height  # no hole, nothing beyond the last column
    assert {column for _, column in taken} == set(range(24))


def test_names_are_unique_and_every_panel_has_a_description_unit_and_data_source() -> None:
    boards = list(BOARDS.values())
    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == len(boards) == 3
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids)
        titles = [panel["title"] for panel in board["panels"]]
        assert all(title and here != title for here, title in pairwise(["", *sorted(titles)]))
        variables = {variable["name"]: variable for variable in board["templating"]["list"]}
        assert {name: variable["type"] for name, variable in variables.items()} == {
            "datasource": "datasource",
            "pipeline": "query",
            "runbooks": "textbox",
        }
    for _, panel in ASKING:
        assert panel["description"].endswith("."), panel["title"]
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in UNITS, panel["title"]
        assert defaults["noValue"], panel["title"]
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters))
        assert all(letters)
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_links_point_to_existing_runbooks() -> None:
    addresses = [link["url"] for _, panel in PANELS for link in panel.get("links", ())]
    addresses += [address for _, panel in PANELS for address in re.findall(r"\((\$\S+?)\)", _text(panel))]
    assert len(addresses) > 20
    names = {address.removeprefix("${runbooks}/").removesuffix(".html") for address in addresses}
    assert names <= {file.stem for file in (ROOT / "dashboards" / "runbooks").glob("*.md")}
    assert {"stale-forecast", "page-down", "page-errors", "out-of-memory"} <= names


def _text(panel: Mapping[str, Any]) -> str:
    return str(panel["options"]["content"]) if panel["type"] == "text" else ""


def test_the_executive_dashboard_shows_every_measurable_objective() -> None:
    asked = {label for _, query in QUERIES for label in re.findall(r'slo="S\d_(\w+)"', query)}
    assert asked >= set(Slo.model_fields) - {"freeze"}


def test_only_queries_of_devices_and_long_drift_may_be_empty_after_a_small_run() -> None:
    metrics = {name for _, query in QUERIES for name in re.findall(r"\bforecaster_\w+", query)}
    assert set(RIGHTLY_EMPTY) <= metrics
    assert {name for name in metrics if "_device_" in name} <= set(RIGHTLY_EMPTY)


def test_grafana_finds_the_files_by_its_provisioning() -> None:
    content = yaml.safe_load((FOLDER / "provisioning.yaml").read_text("utf-8"))
    assert content["apiVersion"] == 1
    [provider] = content["providers"]
    assert (provider["type"], provider["options"]["path"]) == ("file", "/var/lib/grafana/dashboards/forecaster")
