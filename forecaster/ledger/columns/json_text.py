"""JSON as the ledger's columns hold it: letters as they are, and no number that is none."""

from __future__ import annotations

import json

json_text = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
"""Raises ValueError for a number that is infinite or none."""
