"""A pipeline file with any content is read, or rejected with messages that name its lines."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from forecaster.config import load
from tests.mutations import BYTES, CELLS, PIPELINE, an_end, attempt

WHOLE = PIPELINE.replace("ZONE", "UTC") + (
    "horizon: 7\nmodel: {quantiles: [0.1, 0.5, 0.9]}\ntraining: {epochs: 3}\nbacktest: {days: 7}\n"
    "gate: {beat: [], coverage: [0.0, 1.0], max_bias: 9.0}\nschedule: {cron: '30 5 * * *'}\n"
    "staffing: {orders_per_driver: 20, cost_short: 38, cost_idle: 22}\noverrides: {reasons: [weather], min_days: 1}\n"
)
PIECES = [*BYTES, *(cell.encode() for cell in CELLS)]
PIECES += [
    b"{",
    b"]",
    b": ",
    b"&a ",
    b"*a",
    b"!!python/name:os",
    b"|",
    b"<<: ",
    b"? ",
    b"--- ",
    b"%YAML 9\n",
    b"!!binary x",
]
ODD = [".nan", ".inf", "-.inf", "9" * 400, "1e999", "[]", "[[[]]]", "{}", "{a: {b: 1}}", "null", "true", "2024-02-30"]
ODD += [
    "9999-12-31",
    "2024-03-05T04:10:00-05:00",
    "'٣'",
    "'\\0'",
    '"\\0"',
    '"\\uD800"',
    "!!binary /w==",
    "!!set {a}",
    "0o7",
]
ODD += [
    "!!timestamp 1",
    "1:30:00",
    "${NOT_THERE}",
    "'${secret:X}'",
    "x" * 5_000,
    "'%'",
    "'('",
    "/dev/null",
    "~",
    "''",
    "-1",
]


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    with an_end():
        yield


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead to each value of a nested mapping."""
    if at:
        yield at
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(value, (*at, key))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_damaged_text_is_read_or_rejected(tmp_path: Path, seed: int) -> None:
    random, file = np.random.default_rng(seed), tmp_path / "pipeline.yaml"
    file.write_text(WHOLE, "utf-8")
    assert load(file)
    for _ in range(400):
        content = bytearray(WHOLE.encode())
        for _ in range(random.integers(1, 3)):
            place = int(random.integers(len(content)))
            content[place : place + int(random.integers(8))] = PIECES[random.integers(len(PIECES))]
        file.write_bytes(content)
        spec, message = attempt(partial(load, file))
        assert spec or re.match(rf"{re.escape(str(file))}:\d+: found |{re.escape(str(file))}", message)


@pytest.mark.long
def test_any_value_of_a_key_is_read_or_rejected(tmp_path: Path) -> None:
    whole, file = yaml.safe_load(WHOLE), tmp_path / "pipeline.yaml"
    for number, at in enumerate(places(whole)):
        for value in ODD[number % 3 :: 3]:
            odd = copy.deepcopy(whole)
            node = odd
            for key in at[:-1]:
                node = node[key]
            node[at[-1]] = "HERE"
            file.write_text(yaml.safe_dump(odd).replace("HERE", value), "utf-8")
            spec, message = attempt(partial(load, file))
            assert spec or str(file) in message
