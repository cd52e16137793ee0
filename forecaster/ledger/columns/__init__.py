"""What columns of the ledger hold beyond the types of a database: instants, and sentences with
their templates."""
