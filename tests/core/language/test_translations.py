"""The catalogues are complete: every sentence, every plural form, every placeholder of the code."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from babel.messages.catalog import Message

from tests.catalogues import TRANSLATED, brought_into_line, committed, extracted, po_file

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("code", TRANSLATED)
def test_a_catalogue_matches_the_code_and_is_compiled(code: str) -> None:
    po, mo = brought_into_line(code, extracted())
    file = po_file(code)
    assert file.read_bytes() == po, "sentences have changed: type `make messages`, and translate the new ones"
    assert file.with_suffix(".mo").read_bytes() == mo, "type `make messages`"


@pytest.mark.parametrize("code", TRANSLATED)
def test_every_sentence_is_translated_in_every_form_with_its_placeholders(code: str) -> None:
    catalog = committed(code)
    assert {message.id: problem for message in catalog if (problem := _problem(message, catalog.num_plurals))} == {}


def test_no_sentence_is_inside_an_f_string_where_it_is_not_collected() -> None:
    inside = re.compile(r"""f["'].*\{\s*(_|N_|p?n?gettext)\(""")
    files = [file for folder in ("dashboards", "flows", "forecaster") for file in (ROOT / folder).rglob("*.py")]
    assert [str(file) for file in files if inside.search(file.read_text("utf-8"))] == []


def test_every_stored_sentence_is_marked_for_the_catalogue() -> None:
    unmarked = re.compile(r"""\b(sentence|as_sentence)\(\s*f?["']""")
    files = [file for folder in ("dashboards", "flows", "forecaster") for file in (ROOT / folder).rglob("*.py")]
    assert [str(file) for file in files if unmarked.search(file.read_text("utf-8"))] == []


def _problem(message: Message, forms: int) -> str:
    """Return the fault of a translation; empty if there is none."""
    if not message.id:
        return ""
    ids = (message.id,) if isinstance(message.id, str) else message.id
    strings = (message.string,) if isinstance(message.string, str) else tuple(message.string)
    if message.fuzzy or not all(strings):
        return "not translated"
    if len(ids) > 1 and len(strings) != forms:
        return f"{len(strings)} plural forms, wanted {forms}"
    wanted = _placeholders(ids[-1])
    # "one depot" may omit the number
    if any(not wanted - {"n"} <= _placeholders(text) <= wanted for text in strings):
        return f"placeholders of {strings}, wanted {sorted(wanted)}"
    return ""


def _placeholders(text: str) -> set[str]:
    return {name for _literal, name, _spec, _conversion in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize(
    ("identity", "translation", "problem"),
    [
        ("{n} of {all}", "{n} von {all}", ""),
        ("{n} of {all}", "{n} von", "placeholders"),
        ("closed", "", "not translated"),
        (("{n} van", "{n} vans"), ("ein Wagen", "{n} Wagen"), ""),
        (("{n} van", "{n} vans"), ("{n} Wagen",), "1 plural forms"),
        (("{n} van", "{n} vans"), ("ein Wagen", ""), "not translated"),
        (("{n} van", "{n} vans"), ("ein Wagen", "{m} Wagen"), "placeholders"),
    ],
)
def test_faults_of_a_translation_are_detected(
    identity: str | tuple[str, str], translation: str | tuple[str, ...], problem: str
) -> None:
    assert _problem(Message(identity, translation), 2).startswith(problem or "")
    assert bool(_problem(Message(identity, translation), 2)) == bool(problem)


def test_a_fuzzy_translation_counts_as_missing() -> None:
    assert _problem(Message("closed", "geschlossen", flags=["fuzzy"]), 2) == "not translated"
