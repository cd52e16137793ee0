"""The week board: depots by days, with what is expected, who is planned, and what must be decided."""
