"""Formatting: numbers and days in the reader's language, charts as SVG, CSV."""
