"""Weeks of people in planning: edits by hand, answers of people, and planning anew after an override."""
