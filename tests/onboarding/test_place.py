from __future__ import annotations

import pytest

from forecaster.errors import SpecError
from forecaster.onboarding import place


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("de", "DE"),
        (" UK ", "GB"),
        ("Germany", "DE"),
        ("Austria", "AT"),
        ("China", "CN"),
        ("ireland", "IE"),
        ("Spain", "ES"),
        ("Österreich", "AT"),
        ("Deutschland", "DE"),
        ("United States", "US"),
        ("USA", "US"),
        ("CHE", "CH"),
    ],
)
def test_country_is_recognized_by_code_and_name(text: str, code: str) -> None:
    assert place.country(text) == code


@pytest.mark.parametrize(
    ("text", "hint"),
    [("Germny", "; did you mean 'DE'?"), ("Irelnd", "; did you mean 'IE'?"), ("XX", ""), ("Atlantis", "")],
)
def test_suggests_only_similar_country_names(text: str, hint: str) -> None:
    with pytest.raises(SpecError) as refused:
        place.country(text)
    assert str(refused.value) == (f"country: found '{text}'; wanted a two-letter code, as in DE or US, or a name{hint}")
