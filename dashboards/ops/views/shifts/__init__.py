"""Weekly plans of people: their page, their rows in the API, and the files for planners' tools."""
