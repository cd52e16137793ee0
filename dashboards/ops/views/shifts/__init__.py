"""Plans of the week: the page of them, their rows in the API, and the files that planners' tools
take."""
