"""Plans of the week: the shifts of each person under the rules of contracts, and their files."""
