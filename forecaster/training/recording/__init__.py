"""What the record of a night is made of: the tables that it read, and the files with which its
model is called."""
