"""The week board: depots by days, with expected orders, planned crews, and pending decisions."""
