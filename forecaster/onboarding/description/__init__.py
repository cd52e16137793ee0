"""Description of a table: what a row is, and which columns are site, day and count; each decision with
its evidence."""
