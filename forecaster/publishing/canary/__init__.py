"""Canary: a new model next to the champion, shown at some depots, and judged by actuals."""
