"""Base model (pydantic) of all sections of the pipeline file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of the sections of the pipeline file: frozen; unknown keys are rejected."""

    # Not `use_attribute_docstrings`: it parses the source of each section on import, which takes a
    # tenth of a second, and only the JSON Schema needs the descriptions (`with_descriptions`).
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
