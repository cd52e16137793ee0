"""Pictures and pages of runs and of findings."""
