"""Parts of a night's record: the tables that it read, and the files for calling its model."""
