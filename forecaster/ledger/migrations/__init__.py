"""The ledger's tables, and the steps by which an older ledger becomes today's."""
