"""The executive's, the on-call engineer's and the debugging view, drawn from the ledger: for who has no Grafana."""
