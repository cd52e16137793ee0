"""Canary: a new model beside the champion, shown at some depots, and judged by what comes in."""
