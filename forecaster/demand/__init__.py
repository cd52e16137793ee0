"""From a source to a panel: readings, their contract, the calendar, the dense arrays."""
