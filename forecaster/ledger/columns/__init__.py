"""Column types of the ledger beyond those of the database: instants, and sentences with their
templates."""
