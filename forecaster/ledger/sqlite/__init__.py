"""What a ledger needs only in SQLite, which has no checksums of its own."""
