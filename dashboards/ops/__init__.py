"""Web page for the depots; reads only the ledger."""
