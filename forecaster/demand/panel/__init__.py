"""Feature engineering: from what was known at one instant to dense arrays of depots and days; see
`build`."""
