"""From a bundle to the page: predict, explain, caveat, publish, archive, replay, and track
accuracy."""
