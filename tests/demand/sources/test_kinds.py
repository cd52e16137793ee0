"""The kinds of sources are rows of one table, with the keys of the pipeline file."""

from __future__ import annotations

from typing import get_args

from forecaster.config.sources import AnySource
from forecaster.demand import sources


def test_every_declared_kind_has_a_row() -> None:
    declared = [get_args(source.model_fields["kind"].annotation)[0] for source in get_args(AnySource)]
    assert sorted(sources.KINDS) == sorted(declared)


def test_kind_is_read_by_the_module_of_its_name() -> None:
    modules = {kind: row.pieces.__module__.rpartition(".")[2] for kind, row in sources.KINDS.items()}
    assert modules == {kind: kind for kind in sources.KINDS}
