"""Feature engineering: from the knowledge at one instant to dense arrays of depots and days; see
`build`."""
