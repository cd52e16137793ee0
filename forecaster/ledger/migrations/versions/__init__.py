"""One module a revision; the newest one is named in `migrations.revision`."""
