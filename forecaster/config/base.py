"""Base model (pydantic) of all sections of the pipeline file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the pipeline file: frozen, and unknown keys are refused."""

    # Not `use_attribute_docstrings`: it parses the source of each section whenever one is imported,
    # which takes a tenth of a second, while only the JSON Schema tells what stands there
    # (`with_descriptions`).
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
