"""Days in files of somebody: numbers that count them, their zone, and columns that say when rows
and depots count."""
