"""Fill in the environment variables and secrets of a pipeline file, and redact them in all output.

`${NAME}` is an environment variable. `${secret:NAME}` is a secret that the caller of the pipeline
provides; a flow takes it from a Prefect Secret block.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

from forecaster.errors import SpecError

DATASETS = "FORECASTER_DATASETS"
ENVIRONMENT_DEFAULTS = {DATASETS: "../shared/datasets"}  # relative to the working directory

_REFERENCE = re.compile(r"\$\{(?P<secret>secret:)?(?P<name>[\w-]+)\}")
_SHORTEST = 3  # characters; a shorter secret would be redacted inside ordinary words
_secrets: dict[str, str] = {}
_credentials: set[str] = set()


def secrets_in(text: str) -> Iterator[str]:
    """Names of the secrets that a text of the pipeline file references."""
    return (match["name"] for match in _REFERENCE.finditer(text) if match["secret"])


def provide(secrets: Mapping[str, str]) -> None:
    """Register secrets by name in this process."""
    _secrets.update(secrets)
    _credentials.update(secrets.values())


def conceal(credential: str | None) -> None:
    """Register a credential for `hide` to redact."""
    if credential:
        _credentials.add(credential)


def fill(text: str, *, credential: bool = False, quoted: bool = False) -> str:
    """Return the text with its references filled in; `hide` redacts the filled-in secrets and
    credentials from then on.

    `quoted` percent-encodes each value, for a part of a URL that may contain any character. Raises
    SpecError, which names the variable or secret, if it is not set.
    """

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        if match["secret"]:
            if name not in _secrets:
                raise SpecError(
                    f"{text!r} needs the secret {name}, which nobody provided: a flow takes it from the Prefect Secret "
                    f"block of that name; outside of one, name an environment variable instead, as in ${{NAME}}"
                )
            content: str | None = _secrets[name]
        else:
            content = os.environ.get(name)
        if content is None and name in ENVIRONMENT_DEFAULTS:
            content = str(Path(ENVIRONMENT_DEFAULTS[name]).absolute())
        if content is None:
            raise SpecError(f"{text!r} needs the environment variable {name}, which is not set")
        if match["secret"] or credential:
            _credentials.add(content)
        if name == DATASETS:
            return str(Path(content).absolute())
        return quote(content, safe="") if quoted else content

    return _REFERENCE.sub(value, text)


def hide(text: str) -> str:
    """Return the text with *** for every credential filled in so far, also in its URL, JSON and
    Python spellings."""
    for secret in sorted(_credentials, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            for spelling in sorted(_spellings(secret), key=len, reverse=True):
                text = text.replace(spelling, "***")
    return text


def _spellings(secret: str) -> set[str]:
    # SQLAlchemy quotes with safe=" +"
    in_urls = {quote(secret, safe=safe) for safe in ("", "/", " +")} | {quote_plus(secret)}
    in_code = {repr(secret)[1:-1], repr(repr(secret))[2:-2], json.dumps(secret)[1:-1]}
    return {secret, *in_urls, *in_code}
