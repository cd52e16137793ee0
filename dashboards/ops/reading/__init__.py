"""What is read from the ledger for the page: publications, the last night, planners' questions."""
