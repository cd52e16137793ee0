"""Schema of the ledger, and the steps that upgrade an older ledger."""
