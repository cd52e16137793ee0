"""Staging of a publication: the only writer of published rows, for fleets of all sizes."""
