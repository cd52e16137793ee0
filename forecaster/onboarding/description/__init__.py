"""Description of a table: the meaning of a row, and the columns of site, day and count; each
decision with its evidence."""
