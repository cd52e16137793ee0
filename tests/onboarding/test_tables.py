"""A header without column names is rejected with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.errors import SpecError
from forecaster.onboarding import tables


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("orders,orders\n2026-10-18,66\n", "found no column with a unique name in line 1, which contains 'orders'"),
        (":a,:b\n2026-10-18,66\n", "found no column with a unique name in line 1, which contains ':a', ':b'"),
    ],
)
def test_rejects_a_header_without_unique_names(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "counts.csv").write_text(text, "utf-8")
    with pytest.raises(SpecError) as refused:
        tables.read(tmp_path / "counts.csv")
    assert sentence in str(refused.value)
