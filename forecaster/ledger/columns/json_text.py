"""JSON encoding of the ledger's columns: non-ASCII letters unescaped, NaN and infinity rejected."""

from __future__ import annotations

import json

json_text = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
"""Raises ValueError for NaN and infinite numbers."""
