"""Planning of people's weeks: edits by hand, people's answers, and replanning after an override."""
