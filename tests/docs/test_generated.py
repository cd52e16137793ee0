"""The generated blocks of the pages are current: every key, command, import contract and target."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import forecaster
from docs import generate
from forecaster.cli import app as cli
from forecaster.config import Spec, json_schema
from tests.docs.markdown import DOCS, PAGES, ROOT, name

SCHEMA = json_schema()
SECTIONS = {"": SCHEMA, **SCHEMA["$defs"]}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_generated_blocks_are_current(page: Path) -> None:
    text = page.read_text("utf-8")
    assert generate.filled(text) == text, "run `make docs`"


def test_every_generated_block_is_on_a_page() -> None:
    names = [block["name"] for page in PAGES for block in generate.BLOCK.finditer(page.read_text("utf-8"))]
    assert sorted(names) == sorted(generate.BLOCKS)
    at_build = [name for page in PAGES for name in re.findall(r"<!-- at build: (\w+) -->", page.read_text("utf-8"))]
    assert sorted(at_build) == sorted(generate.AT_BUILD)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_the_schema_is_documented_with_a_meaning(section: str) -> None:
    rows = [row.split(" | ") for row in block("pipeline-file", "keys").splitlines() if row.startswith("| `")]
    meanings = {(row[0].strip("| `"), row[3].strip(" |")) for row in rows}
    for key, value in SECTIONS[section]["properties"].items():
        if key != "kind" or "const" not in value:
            assert (key, generate.cell(value["description"])) in meanings


def test_every_section_has_a_heading_with_its_path() -> None:
    headings = re.findall(r"^### `([\w.]+)`$", block("pipeline-file", "keys"), re.M)
    assert set(headings) >= {path for path, _ in sections(SCHEMA, "")}
    assert set(headings) <= {path for path, _ in sections(SCHEMA, "")}


def test_every_kind_of_source_has_a_heading() -> None:
    kinds = [value["properties"]["kind"]["const"] for value in SCHEMA["$defs"].values() if constant(value)]
    assert sorted(re.findall(r"^#### `kind: (\w+)`$", block("pipeline-file", "keys"), re.M)) == sorted(kinds)


def test_every_section_of_the_file_is_in_the_overview() -> None:
    overview = (DOCS / "pipeline-file.md").read_text("utf-8").partition("## Where your counts come from")[0]
    assert [key for key in Spec.model_fields if f"`{key}`" not in overview] == ["timezone", "horizon"]


def test_every_command_is_listed_with_its_options() -> None:
    page = generate.commands()
    names = list(generate.command_names(typer.main.get_command(cli.app)))
    assert re.findall(r"^## (.*)$", page, re.M) == names
    assert {"run", "quarantine list"} <= set(names)
    assert all(f"Usage: forecaster {name} " in page for name in names)


def test_every_public_name_of_the_library_has_a_heading_and_a_meaning() -> None:
    page = generate.library_reference.reference()
    assert re.findall(r"^## (.*)$", page, re.M) == forecaster.__all__
    assert {"Forecaster.predict", "Pipeline.scores", "BacktestResult.forecasts"} <= set(
        re.findall(r"^### (.*)$", page, re.M)
    )
    for entry in re.split(r"^##+ .*$", page.strip(), flags=re.M)[1:]:
        assert re.sub(r"```.*?```", "", entry, flags=re.S).strip().endswith(".")


def test_every_contract_is_drawn() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    assert re.findall(r"^### (.*)$", block("architecture", "contracts"), re.M) == [
        contract["name"] for contract in contracts
    ]


def test_layers_are_drawn_as_a_stack_with_the_lowest_at_the_bottom() -> None:
    floors = {"name": "Floors", "type": "layers", "containers": ["a"], "layers": ["top", "left | right", "low"]}
    stack = generate._layers(floors).partition("```text\n")[2]
    assert stack == (
        "┌────────────────┐\n"
        "│ top            │\n"
        "├────────────────┤\n"
        "│ left  │  right │\n"
        "├────────────────┤\n"
        "│ low            │\n"
        "└────────────────┘\n"
        "```\n"
    )


def block(page: str, name: str) -> str:
    """Return a generated block of a page as committed."""
    text = (DOCS / f"{page}.md").read_text("utf-8")
    return text.partition(f"<!-- generated: {name} -->")[2].partition(f"<!-- end of {name} -->")[0]


def constant(section: Any) -> bool:
    return "const" in section.get("properties", {}).get("kind", {})


def sections(section: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every section below one, by its path in the file; excludes sources."""
    for key, value in section["properties"].items():
        elements = value.get("items") or value.get("additionalProperties") or {}
        for option in (value, *value.get("anyOf", ()), elements, *elements.get("anyOf", ())):
            if "$ref" in option:
                below = SCHEMA["$defs"][option["$ref"].rpartition("/")[2]]
                yield f"{path}{key}", below
                yield from sections(below, f"{path}{key}.")
