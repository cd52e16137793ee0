"""A runbook's commands are ones that there are, with options that they have."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from forecaster.cli import app

ROOT = Path(__file__).resolve().parents[1]
RUNBOOKS = sorted((ROOT / "dashboards" / "runbooks").glob("*.md"))


def commands(text: str) -> Iterator[list[str]]:
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        yield from (shlex.split(line, comments=True) for line in block.splitlines())


@pytest.mark.parametrize("runbook", RUNBOOKS, ids=lambda file: file.stem)
def test_each_command_of_ours_is_understood(runbook: Path) -> None:
    group = typer.main.get_command(app.app)
    ours = [words[1:] for words in commands(runbook.read_text("utf-8")) if words[:1] == ["forecaster"]]
    for name, *arguments in ours:
        group.commands[name].make_context(name, arguments).close()  # type: ignore[attr-defined]


def test_the_files_that_the_production_guide_names_are_there() -> None:
    text = (ROOT / "dashboards" / "runbooks" / "production.md").read_text("utf-8")
    files = set(re.findall(r"flows/pools/\S+\.(?:json|yaml)", text))
    assert len(files) == 2
    for file in files:
        assert (ROOT / file).is_file()


def test_its_extras_are_declared() -> None:
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    text = (ROOT / "dashboards" / "runbooks" / "production.md").read_text("utf-8")
    for extras in re.findall(r"forecaster\[([\w,-]+)\]", text):
        assert set(extras.split(",")) <= declared.keys()
