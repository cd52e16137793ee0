"""Days in a user's files: serial numbers of days, their zone, and columns for recording times and
for the lifespans of depots."""
