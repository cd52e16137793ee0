"""Plans of the week: who works which shift under the rules of contracts, and the files of that."""
