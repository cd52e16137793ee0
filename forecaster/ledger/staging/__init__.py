"""Staging of a publication: the one writer of published rows, for fleets of all sizes."""
