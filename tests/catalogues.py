"""Catalogues of sentences: collect them from the code, update each language's, and compile it.

`make messages` runs this. A new sentence appears in each .po without a translation, which a test
rejects; one that is gone from the code is removed from them as well.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from forecaster.core.language.catalogue import DOMAIN, FOLDER, LANGUAGES
from tests.names import ROOT

METHODS = [("dashboards/ops/templates/**.html", "jinja2.ext.babel_extract"), ("**.py", "python")]
OPTIONS = {"dashboards/ops/templates/**.html": {"trimmed": "true"}}
KEYWORDS = {"_": None, "N_": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2), "counted": (2, 3)}
KEYWORDS |= {
    "Listener": (1,),
    "goes_on": None,
    "lacks": None,
    "collect": (2,),
    "_not_needed": (2,),
}  # of words
PLURALS = {  # gettext's own table of plural forms
    "de": "nplurals=2; plural=(n != 1);",
    "es": "nplurals=2; plural=(n != 1);",
    "ar": "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);",
}
# date in the header: fixed, so that the same sentences make the same file on any day
WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)
TRANSLATED = [code for code in LANGUAGES if code in PLURALS]
HEADER = 'msgid ""\nmsgstr ""\n"Language: {code}\\n"\n"MIME-Version: 1.0\\n"\n'
HEADER += '"Content-Type: text/plain; charset=utf-8\\n"\n"Plural-Forms: {plurals}\\n"\n\n'


def po_file(code: str) -> Path:
    return FOLDER / code / "LC_MESSAGES" / f"{DOMAIN}.po"


@cache
def extracted() -> Catalog:
    """Return every sentence of the code and the templates."""
    catalog = Catalog(domain=DOMAIN)
    for package in ("forecaster", "dashboards", "flows"):
        mapping = [(pattern.removeprefix("dashboards/"), method) for pattern, method in METHODS]
        options = {pattern.removeprefix("dashboards/"): values for pattern, values in OPTIONS.items()}
        found = extract_from_dir(ROOT / package, mapping, options, KEYWORDS)
        for _file, _line, message, _comments, context in found:
            catalog.add(message, None, context=context)
    return catalog


def committed(code: str) -> Catalog:
    """Return a language's catalogue from the repository; empty if there is none yet."""
    file = po_file(code)
    text = file.read_text("utf-8") if file.exists() else HEADER.format(code=code, plurals=PLURALS[code])
    return read_po(text.splitlines(keepends=True), locale=code, domain=DOMAIN)


def brought_into_line(code: str, template: Catalog) -> tuple[bytes, bytes]:
    """Return a language's .po with the sentences of the template, sorted, and its compiled .mo."""
    from io import BytesIO

    old = committed(code)
    catalog = Catalog(locale=code, domain=DOMAIN)
    for message in template:
        if message.id:
            before = old.get(message.id, message.context)
            catalog.add(message.id, before.string if before is not None else None, context=message.context)
    po, mo = BytesIO(), BytesIO()
    write_po(po, catalog, width=0, sort_output=True, omit_header=True, no_location=True)
    header = HEADER.format(code=code, plurals=PLURALS[code]).encode()
    fresh = read_po((header + po.getvalue()).decode().splitlines(keepends=True), locale=code, domain=DOMAIN)
    fresh.creation_date = fresh.revision_date = WRITTEN
    write_mo(mo, fresh)
    return header + po.getvalue(), mo.getvalue()


def main() -> None:
    template = extracted()
    for code in TRANSLATED:
        file = po_file(code)
        file.parent.mkdir(parents=True, exist_ok=True)
        po, mo = brought_into_line(code, template)
        file.write_bytes(po)
        file.with_suffix(".mo").write_bytes(mo)
        missing = sum(1 for message in committed(code) if message.id and not _is_translated(message.string))
        print(f"{code}: {len(template)} sentences, {missing} of them without a translation")


def _is_translated(text: str | tuple[str, ...] | list[str]) -> bool:
    return bool(text) if isinstance(text, str) else all(text)


if __name__ == "__main__":
    main()
