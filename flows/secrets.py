"""Provides the secrets named in a pipeline file, from Prefect's Secret blocks."""

from __future__ import annotations

import json
import os
import re
from typing import Any, cast

from prefect.blocks.system import Secret

from forecaster.config import Spec, credentials
from forecaster.errors import SpecError


def provide(spec: Spec) -> None:
    """Load the Secret block NAME for every `${secret:NAME}` of the pipeline file.

    Raises SpecError that names the secret if Prefect has no such block.
    """
    text = json.dumps(spec.model_dump(mode="json"))
    credentials.provide({name: _value(name) for name in sorted(set(credentials.secrets_in(text)))})


def _value(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise SpecError(
            f"the pipeline file names ${{secret:{name}}}; wanted a name as Prefect's blocks have them, of lower-case "
            "letters, digits and -"
        )
    try:
        block = cast("Secret[Any]", Secret.load(name))
    except ValueError:  # Prefect's error for a missing block
        home = f"PREFECT_HOME={os.environ['PREFECT_HOME']} " if "PREFECT_HOME" in os.environ else ""
        raise SpecError(
            f"the pipeline file names ${{secret:{name}}}, and Prefect has no Secret block '{name}'; this asks for the "
            f"secret and makes one: {home}python -c 'from getpass import getpass; from prefect.blocks.system import "
            f'Secret; Secret(value=getpass()).save("{name}")\''
        ) from None
    # as entered: `get` would read 1e5 as a number
    return str(block.value.get_secret_value())
