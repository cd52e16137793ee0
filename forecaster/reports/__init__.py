"""Pictures and pages about runs and findings."""
