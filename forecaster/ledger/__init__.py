"""The ledger: runs, publications, promotions, overrides, access and the lease, in SQLite or
PostgreSQL."""
