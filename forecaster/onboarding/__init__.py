"""First contact with somebody's data: guess from files what a pipeline file has to say, and write
it."""
