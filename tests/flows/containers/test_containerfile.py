"""The Containerfile is consistent: existing stages, hashes for all packages, an unprivileged user."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from docs.dependencies import LOCK, bill_of_materials, locked_packages

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "flows" / "containers"
TARGETS = ("serve", "night", "night-gpu")
MADE = re.compile(r"build/sbom/[\w-]+\.cdx\.json")  # created by `make images`


@dataclass
class Stage:
    """A stage: its base and its instructions."""

    base: str
    lines: list[tuple[str, str]] = field(default_factory=list)  # instruction, and the rest

    def of(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.lines if name == instruction]


def stages() -> dict[str, Stage]:
    """Return the stages by name, in order; continued lines are joined."""
    text = (FOLDER / "Containerfile").read_text("utf-8")
    text = re.sub(r"(?m)^\s*#.*\n", "", text).replace("\\\n", " ")
    by_name: dict[str, Stage] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            assert base == "${BASE}" or base in by_name, line
            assert name not in by_name, line
            stage = by_name[name] = Stage(base)
        elif instruction == "ARG":
            assert not by_name, "an argument before the first stage is all that there is"
        else:
            stage.lines.append((instruction, rest))
    return by_name


STAGES = stages()


def lineage(name: str) -> list[Stage]:
    """Return a stage and its bases, the first base first."""
    return [*(lineage(STAGES[name].base) if STAGES[name].base in STAGES else []), STAGES[name]]


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_unprivileged_with_its_own_bill_of_materials(target: str) -> None:
    last = {name: rest for stage in lineage(target) for name, rest in stage.lines}
    assert last["USER"] == "10001:10001"
    assert last["ENTRYPOINT"] == '["forecaster"]'
    assert "/srv/forecaster/pipeline.yaml" in last["CMD"]
    assert last["LABEL"] == 'io.forecaster.sbom="/usr/share/sbom/forecaster.cdx.json"'
    assert f"build/sbom/{target}.cdx.json /usr/share/sbom/forecaster.cdx.json" in STAGES[target].of("COPY")


def test_images_are_built_in_the_format_that_keeps_the_health_check() -> None:
    assert STAGES["serve"].of("HEALTHCHECK")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(r"buildah bud --format docker\b", makefile)


def test_copied_files_exist_or_come_from_an_earlier_stage() -> None:
    names = list(STAGES)
    for name, stage in STAGES.items():
        assert not stage.of("ADD"), name  # ADD can also download and unpack
        for rest in stage.of("COPY"):
            *sources, _ = rest.split()
            if sources[0].startswith("--from="):
                assert sources[0].removeprefix("--from=") in names[: names.index(name)], rest
                continue
            for source in sources:
                assert MADE.fullmatch(source) or (ROOT / source).exists(), rest


def test_every_installed_package_has_a_hash_or_is_our_own_wheel() -> None:
    runs = [command for stage in STAGES.values() for rest in stage.of("RUN") for command in re.split("&&|;", rest)]
    installs = [command for command in runs if "pip install" in command]
    assert len(installs) == 6
    for command in installs:
        assert "--no-deps" in command, command
        assert "--no-cache-dir" in command, command
        assert "--require-hashes" in command or command.split()[-1] == "/wheels/*.whl", command
    for command in runs:
        assert "apt-get install" not in command or "--no-install-recommends" in command, command
        assert "curl" not in command, command
        assert "wget" not in command, command


def test_cuda_packages_have_hashes_match_the_locked_jax_and_are_in_no_other_image() -> None:
    ours = {package.name: package.version for package in locked_packages(LOCK.read_text("utf-8"))}
    text = (FOLDER / "night-gpu.lock").read_text("utf-8")
    of_cuda = {package.name: package for package in locked_packages(text)}
    assert {"jax-cuda13-plugin", "jax-cuda13-pjrt", "nvidia-cudnn-cu13", "nvidia-cublas"} <= of_cuda.keys()
    assert not of_cuda.keys() & ours.keys()
    assert all(package.hashes for package in of_cuda.values())
    assert {package.version for name, package in of_cuda.items() if name.startswith("jax-")} == {ours["jax"]}
    bill = {component.name for component in bill_of_materials({"jax"}, text).components}
    assert bill == {"jax", *of_cuda}
