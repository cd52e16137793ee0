"""The ledger's tables, and the steps that upgrade an older ledger."""
