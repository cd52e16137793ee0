"""Examples on the pages are valid: commands with their options, pipeline files, Python, addresses."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from dashboards.ops.views.catalogue import VIEWS
from forecaster.cli import app as cli
from forecaster.config import Spec, load
from tests.docs.markdown import DOCS, EVERYWHERE, PAGES, ROOT, blocks, inline, name

LEAST = {"name": "t", "demand": {"source": {"kind": "csv", "path": "demand.csv"}}}
NAMED = {"PAGE_SECRET": "x" * 32, "OIDC_SECRET": "x" * 32, "PGPASSWORD": "x", "S3_KEY": "x"}
OURS = r"(forecaster|flows|dashboards|tests)/[a-z0-9_./-]+"
OTHERS = {
    "amtool",
    "cd",
    "curl",
    "export",
    "journalctl",
    "kubectl",
    "kustomize",
    "loginctl",
    "mlflow",
    "pip",
    "podman",
    "prefect",
    "promtool",
    "systemctl",
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
CODE = "".join(
    file.read_text("utf-8")
    for folder in ("forecaster", "flows", "dashboards", "tests/benchmarks")
    for file in (ROOT / folder).rglob("*.py")
)


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command in a page's shell blocks, up to a redirection."""
    for code in blocks(page.read_text("utf-8"), "sh"):
        for line in filter(None, code.splitlines()):
            words = shlex.split(line, comments=True)
            if words:
                yield words[: words.index(">")] if ">" in words else words


def understood(words: list[str]) -> None:
    """Raise if the command line does not know the command or one of its options."""
    command: Any = typer.main.get_command(cli.app)
    path = []
    while hasattr(command, "commands"):
        path.append(words[0])
        command, words = command.commands[words[0]], words[1:]
    command.make_context(" ".join(path), words).close()


@pytest.mark.parametrize("page", EVERYWHERE, ids=name)
def test_each_command_of_a_shell_block_is_valid(page: Path) -> None:
    for words in commands(page):
        match words[0].removeprefix(".venv/bin/"):
            case "forecaster":
                understood(words[1:])
            case "make":
                assert words[1] in TARGETS
            case "python":
                assert words[1:3] == ["-m", "pytest"]
                assert (ROOT / words[3]).exists()
            case other:
                assert other in OTHERS, words


@pytest.mark.parametrize("page", EVERYWHERE, ids=name)
def test_each_command_named_in_the_prose_exists_with_its_options(page: Path) -> None:
    group: Any = typer.main.get_command(cli.app)
    for code in inline(page.read_text("utf-8")):
        if match := re.match(r"(?:\.venv/bin/)?forecaster ([a-z][a-z-]*)", code):
            command = group.commands[match[1]]
            options = {option for parameter in command.params for option in parameter.opts}
            assert set(re.findall(r"(?<!\S)\[?(--[a-z-]+)", code)) <= options, code
        elif match := re.match(r"make ([a-z][a-z-]*)", code):
            assert match[1] in TARGETS


@pytest.mark.parametrize("page", EVERYWHERE, ids=name)
def test_each_yaml_block_is_a_pipeline_file_or_a_part_of_one(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in NAMED.items():
        monkeypatch.setenv(variable, value)
    for number, code in enumerate(blocks(page.read_text("utf-8"), "yaml")):
        part = yaml.safe_load(code)
        assert part.keys() <= Spec.model_fields.keys(), code
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(merged(LEAST, part)), "utf-8")
        load(file)


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `over` into `under` by top-level keys and within `demand`; a source is replaced whole."""
    result = {**under, **over}
    if isinstance(over.get("demand"), Mapping):
        result["demand"] = {**under["demand"], **over["demand"]}
    return result


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_python_block_can_be_compiled(page: Path) -> None:
    for code in blocks(page.read_text("utf-8"), "python"):
        compile(code, str(page), "exec")


def test_notification_blocks_can_be_created_as_documented(tmp_path: Path) -> None:
    """Runs in its own process: Prefect keeps the environment that it reads on import."""
    code = "\n".join(blocks((DOCS / "operations.md").read_text("utf-8"), "python"))
    around = (
        "import sys; from pathlib import Path; from flows import environment\n"
        f"environment.prepare(Path({str(tmp_path)!r}))\n"
        "from prefect.blocks.core import Block\n"
        "Block.save = lambda self, name: print('saved as', name)\n"
        "exec(sys.stdin.read(), {})\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", around], input=code, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.stdout == "saved as on-call\nsaved as boston\nsaved as depots\n", process.stderr


def test_each_address_of_the_api_is_a_view() -> None:
    text = (DOCS / "page-and-api.md").read_text("utf-8")
    addresses = set(re.findall(r"curl http://127\.0\.0\.1:8000/api/v1/([\w-]+)", text))
    assert addresses
    assert addresses <= {view.name for view in VIEWS}


def test_every_view_of_the_api_and_every_page_is_documented() -> None:
    text = (DOCS / "page-and-api.md").read_text("utf-8")
    assert [view.name for view in VIEWS if f"`{view.name}`" not in text] == []
    assert [view.page for view in VIEWS if view.page and f"| `{view.page.partition('{')[0]}" not in text] == []


@pytest.mark.parametrize("page", EVERYWHERE, ids=name)
def test_each_extra_is_declared(page: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for names in re.findall(r"(?:forecaster|\.whl)\[([\w,-]+)\]", page.read_text("utf-8")):
        assert set(names.split(",")) <= extras.keys()


@pytest.mark.parametrize("page", EVERYWHERE, ids=name)
def test_each_documented_variable_is_read_by_the_code(page: Path) -> None:
    assert [
        variable for variable in re.findall(r"FORECASTER_[A-Z_]+", page.read_text("utf-8")) if variable not in CODE
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_named_code_file_exists(page: Path) -> None:
    paths = [code for code in inline(page.read_text("utf-8")) if re.fullmatch(OURS, code)]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_tree_shows_every_package() -> None:
    tree = next(code for code in blocks((DOCS / "architecture.md").read_text("utf-8"), "text") if "flows/" in code)
    folders = set(re.findall(r"^\s*([\w/]+)/", tree, re.M))
    rooms = {
        file.parent for folder in ("forecaster", "dashboards/ops") for file in (ROOT / folder).glob("**/__init__.py")
    }
    assert {room.name for room in rooms} - {"ops", "versions"} <= folders | {"forecaster"}
