"""A digest as an HTML mail that adapts to the width of a phone: no images, no style sheet, nothing
external.

The days and depots are lists of sentences rather than tables, so that the plain text derived from
it reads well.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dashboards.ops.views.digest import wording
from dashboards.ops.views.digest.content import Digest
from forecaster.core.language import _, direction, language

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parents[2] / "templates"


def html(digest: Digest, changed: tuple[str, ...] = ()) -> str:
    """Return the whole mail; `changed` describes the changes since the previous digest."""
    locale_values = {"language": language(), "direction": direction()}
    return _template().render(digest=digest, changed=changed, wording=wording, **locale_values)


@lru_cache(maxsize=1)
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["_"] = _
    return environment.get_template("digest_mail.html")
