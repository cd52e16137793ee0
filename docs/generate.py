"""Write generated blocks into the pages: pipeline file keys, command options, import contracts, make targets.

A page holds a generated block between `<!-- generated: NAME -->` and `<!-- end of NAME -->`, so that it can be read on
a code host as well. `make docs` writes the blocks anew; a test fails where one is stale.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from docs import dependencies, library_reference
from flows import protocol
from forecaster import plugins
from forecaster.cli import app as cli
from forecaster.core import metric_names

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
BLOCK = re.compile(r"(?P<start><!-- generated: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end of (?P=name) -->)", re.S)
Schema = Mapping[str, Any]


def cell(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return re.sub(r"\s*\n\s*", " ", text.strip()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`"


def anchor(heading: str) -> str:
    """Return the anchor of a heading on a code host and on the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# --- the keys of the pipeline file ------------------------------------------------------------------------------------

SOURCE = "a source"
HEADER = ["key", "type", "default", "meaning"]


def pipeline_schema() -> Schema:
    """Return the JSON Schema as `forecaster schema` prints it."""
    result = CliRunner().invoke(cli.app, ["schema"])
    schema: Schema = json.loads(result.stdout)
    return schema


def keys() -> str:
    """Return one table per section: each key, its type, its default and its meaning."""
    schema = pipeline_schema()
    definitions: Schema = schema["$defs"]
    parts = ["### The whole file\n", _section_table(schema, "", definitions)]
    sources: dict[str, Schema] = {}
    for path, section in _sections(schema, "", definitions):
        parts += [f"### `{path}`\n", _described(section), _section_table(section, path, definitions)]
    for section in _source_kinds(schema, definitions):
        sources[section["properties"]["kind"]["const"]] = section
    return "\n".join(part for part in [*parts, *_source_tables(sources, definitions)] if part)


def _source_tables(sources: Mapping[str, Schema], definitions: Schema) -> list[str]:
    """Return a table of keys shared by several source kinds, then one per kind for its own keys."""
    rows = {kind: _rows(section, "", definitions, without=("kind",)) for kind, section in sources.items()}
    kinds_of: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for kind, of_kind in rows.items():
        for row in of_kind:
            kinds_of[tuple(row)].append(kind)
    shared = [[*row, _listed(kinds)] for row, kinds in kinds_of.items() if len(kinds) > 1]
    parts = [
        "### A source\n",
        "The keys of a source depend on its `kind`. Keys of several kinds:\n",
        table(["key", "type", "default", "meaning", "kinds"], shared),
    ]
    for kind, section in sources.items():
        own = [row for row in rows[kind] if len(kinds_of[tuple(row)]) == 1]
        meaning = section["properties"]["kind"]["description"]
        parts.append(f"#### `kind: {kind}`\n\n{meaning}\n\n{table(HEADER, own) if own else ''}")
    return parts


def _sections(section: Schema, path: str, definitions: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield every section below one, with its path in the file, depth first; excludes sources."""
    for key, value in section["properties"].items():
        if (name := _reference(value) or _reference(_elements(value))) is not None:
            below, inside = definitions[name], f"{path}.{key}" if path else key
            yield inside, below
            yield from _sections(below, inside, definitions)


def _elements(value: Schema) -> Schema:
    """Return the schema of the elements of a list or mapping; empty if it is neither, or has mixed
    types."""
    elements = value.get("items") or value.get("additionalProperties")
    return elements if isinstance(elements, dict) else {}


def _reference(value: Schema) -> str | None:
    for option in (value, *value.get("anyOf", ())):
        if "$ref" in option:
            return str(option["$ref"].rpartition("/")[2])
    return None


def _is_source(value: Schema) -> bool:
    return value.get("discriminator", {}).get("propertyName") == "kind"


def _source_kinds(schema: Schema, definitions: Schema) -> Iterator[Schema]:
    """Return the schemas of all source kinds, in the order of the schema."""
    options: list[Schema] = next(
        value["oneOf"]
        for section in (schema, *definitions.values())
        for value in section.get("properties", {}).values()
        if _is_source(value)
    )
    return (definitions[option["$ref"].rpartition("/")[2]] for option in options)


def _described(section: Schema) -> str:
    return f"{section['description'].strip()}\n" if section.get("description") else ""


def _section_table(section: Schema, path: str, definitions: Schema) -> str:
    return table(HEADER, _rows(section, path, definitions))


def _rows(section: Schema, path: str, definitions: Schema, *, without: tuple[str, ...] = ()) -> list[list[str]]:
    """Return the cells of each key: name, type, default and meaning."""
    required = section.get("required", ())
    return [
        [code(key), _kind(value, f"{path}.{key}" if path else key), _default(key, value, required), _meaning(value)]
        for key, value in section["properties"].items()
        if key not in without
    ]


def _meaning(value: Schema) -> str:
    return cell(value.get("description", ""))


def _default(key: str, value: Schema, required: tuple[str, ...]) -> str:
    if key in required:
        return "**required**"
    default = value.get("default")
    if default is None or default in ([], {}) or _reference(value) is not None:
        return "–"
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return code(default if isinstance(default, str) else cell(json.dumps(default, ensure_ascii=False)))


def _kind(value: Schema, path: str) -> str:
    """Describe the type, with its limits."""
    if _is_source(value):
        return f"[{SOURCE}](#a-source)"
    if _reference(value) is not None:
        return f"[section](#{anchor(path)})"
    if "anyOf" in value:
        return " or ".join(_kind(option, path) for option in value["anyOf"] if option.get("type") != "null")
    if "enum" in value:
        return ", ".join(code(option) for option in value["enum"])
    if "const" in value:
        return code(value["const"])
    return _type(value, path)


def _type(value: Schema, path: str) -> str:
    """Describe a plain JSON type."""
    match value["type"]:
        case "array" if "prefixItems" in value:
            kind = _kind(value["prefixItems"][0], path)
            return f"list of {len(value['prefixItems'])} {'numbers' if kind.startswith('number') else kind}"
        case "array" if _reference(_elements(value)) is not None:
            return f"list of [sections](#{anchor(path)})"
        case "array":
            return f"list of {_kind(value['items'], path)}" if "type" in value["items"] else "list"
        case "object":
            of = value.get("additionalProperties")
            return f"mapping to {_kind(of, path)}" if isinstance(of, dict) else "mapping"
        case "boolean":
            return "`true` or `false`"
        case "string":
            return "one character" if value.get("maxLength") == 1 else "text"
        case kind:
            return {"integer": "whole number"}.get(kind, kind) + _limits(value)


def _limits(value: Schema) -> str:
    if {"minimum", "maximum"} <= value.keys():
        return f", {value['minimum']} to {value['maximum']}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {value[name]}" for name, sign in signs.items() if name in value]
    return f" {' and '.join(limits)}" if limits else ""


# --- commands and targets ---------------------------------------------------------------------------------------------


def commands() -> str:
    """Return the help of each command."""
    return "\n".join(
        f"## {name}\n\n```text\n{_help(name).strip()}\n```\n" for name in command_names(typer.main.get_command(cli.app))
    )


def command_names(group: Any, path: str = "") -> Iterator[str]:
    """Yield the full name of every command, such as `quarantine list`."""
    for name, command in group.commands.items():
        whole = f"{path} {name}".strip()
        yield from command_names(command, whole) if hasattr(command, "commands") else (whole,)


def _help(name: str) -> str:
    result = CliRunner().invoke(cli.app, [*name.split(), "--help"], prog_name="forecaster", env={"COLUMNS": "80"})
    return "\n".join(line.rstrip() for line in result.stdout.splitlines() if line.split()[:1] != ["--help"])


def targets() -> str:
    """Return the targets of `make`, from the comments of the Makefile."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    rows = re.findall(r"^([a-z-]+):.*?## (.*)$", makefile, re.M)
    return table(["target", "does"], [[code(f"make {name}"), cell(text)] for name, text in rows])


# --- the steps of the line --------------------------------------------------------------------------------------------


def steps() -> str:
    """Return the steps of a line, from `flows.protocol.Steps`: purpose and module of each."""
    rows = []
    for name, step in vars(protocol.Steps).items():
        if not inspect.isfunction(step) or name.startswith("_"):
            continue
        does, module = re.fullmatch(r"(.*?), in `([\w.]+)`(?:;.*)?\.", inspect.getdoc(step) or "", re.S).groups()
        rows.append([name, cell(does), code(module)])
    return table(["step", "does", "code"], rows)


# --- import contracts -------------------------------------------------------------------------------------------------


def contracts() -> str:
    """Return the contracts of import-linter: layers as stacks, the others as sentences."""
    every = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    draw: Mapping[str, Callable[[Schema], str]] = {
        "layers": _layers,
        "forbidden": _forbidden,
        "independence": _independence,
        "protected": _protected,
    }
    return "\n".join(f"### {contract['name']}\n\n{draw[contract['type']](contract)}" for contract in every)


def _layers(contract: Schema) -> str:
    where = _listed(contract.get("containers", ()))
    packages = [re.split(r"\s*[|:]\s*", layer.strip("() ")) for layer in contract["layers"]]
    lines = ["  │  ".join(names) for names in packages]
    width = max(map(len, lines))
    rule = "─" * (width + 2)
    stack = f"\n├{rule}┤\n".join(f"│ {line.ljust(width)} │" for line in lines)
    sentence = "A layer may import the layers below it."
    if any("|" in layer for layer in contract["layers"]):
        sentence += " Packages of one layer do not import one another."
    if contract.get("exhaustive"):
        sentence += " Every package has a layer."
    inside = f"Inside {where}. " if where else ""
    return f"{inside}{sentence}\n\n```text\n┌{rule}┐\n{stack}\n└{rule}┘\n```\n"


def _forbidden(contract: Schema) -> str:
    how = "directly" if contract.get("allow_indirect_imports") else "directly or indirectly"
    sentence = f"{_listed(contract['source_modules'])} may not import {_listed(contract['forbidden_modules'])} {how}."
    if ignored := contract.get("ignore_imports"):
        modules = list(dict.fromkeys(line.partition(" -> ")[0].strip().removesuffix(".**") for line in ignored))
        sentence += f" Exceptions: {_listed(modules)}."
    return f"{sentence}\n"


def _independence(contract: Schema) -> str:
    return f"{_listed(contract['modules'])} do not import one another.\n"


def _protected(contract: Schema) -> str:
    return f"No other package imports {_listed(contract['protected_modules'])}.\n"


def plugin_table() -> str:
    """Return the plug-ins: their packages, their purpose, and the keys that declare them."""
    rows = [
        [name, _listed(packages), purpose, _listed(keys)] for name, (keys, purpose, packages) in plugins.PLUGINS.items()
    ]
    return table(["plug-in", "packages", "needed for", "declared by"], rows)


def _listed(names: Any) -> str:
    return ", ".join(code(str(name)) for name in names)


# --- what is measured -------------------------------------------------------------------------------------------------


def measures() -> str:
    """Return the tables of `metric_names`: measures of runs, ledger, page and inference service."""
    parts = []
    for heading, names in (
        ("Written by a run into its row, told of the last night", metric_names.OF_RUNS),
        ("Read from the ledger and the state folder", metric_names.OF_LEDGER),
        ("Counted by the page's process", metric_names.OF_PAGE),
        ("Counted by the inference service", metric_names.OF_INFERENCE),
    ):
        rows = [
            [
                code(name),
                code(measure.prometheus),
                ", ".join(map(code, measure.labels)) or "–",
                measure.unit,
                cell(measure.meaning),
            ]
            for name, measure in names.items()
        ]
        parts.append(f"### {heading}\n\n{table(['name', 'in Prometheus', 'labels', 'unit', 'meaning'], rows)}")
    return "\n".join(parts)


# --- writing ----------------------------------------------------------------------------------------------------------


def packages() -> str:
    """Return the dependencies of pyproject.toml, with their reasons."""
    rows = [
        [code(package.name), code(package.extra) if package.extra else "base", package.reason, licence_of(package.name)]
        for package in dependencies.dependencies(dependencies.PYPROJECT.read_text("utf-8"))
    ]
    return table(["package", "extra", "for", "licence"], rows)


def licence_of(name: str) -> str:
    return dependencies.licence(name).replace("LicenseRef-Public-Domain", "public domain")


def terms() -> str:
    """Return the locked packages whose license requires more than its notice."""
    locked = dependencies.locked_packages(dependencies.LOCK.read_text("utf-8"))
    licences = {package.name: licence_of(package.name) for package in locked}
    demanding = {name: text for name, text in licences.items() if text and not dependencies.is_permissive(text)}
    return table(["package", "licence"], [[code(name), text] for name, text in sorted(demanding.items())])


# ----------------------------------------------------------------------------------------------------------------------

BLOCKS: Mapping[str, Callable[[], str]] = {
    "terms": terms,
    "keys": keys,
    "contracts": contracts,
    "steps": steps,
    "plug-ins": plugin_table,
    "measures": measures,
}

AT_BUILD: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "packages": packages,
    "reference": library_reference.reference,
    "targets": targets,
}
"""Long blocks that repeat help, docstrings or pyproject.toml: only in the built site."""


def filled_at_build(page: str) -> str:
    """Return the text of a page with the blocks generated at build time."""
    return re.sub(r"<!-- at build: (\w+) -->", lambda mark: AT_BUILD[mark[1]](), page)


def filled(page: str) -> str:
    """Return a page's text with its blocks regenerated. Raises KeyError for an unknown block."""
    return BLOCK.sub(lambda block: f"{block['start']}\n{BLOCKS[block['name']]()}\n{block['end']}", page)


def main() -> int:
    for file in sorted(DOCS.glob("*.md")):
        text = file.read_text("utf-8")
        if (new := filled(text)) != text:
            file.write_text(new, "utf-8")
            print(f"docs/{file.name}: written anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
