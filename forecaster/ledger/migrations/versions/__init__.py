"""One module a revision; the newest one is named in `tables.REVISION`."""
