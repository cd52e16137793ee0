"""From a bundle to the page: predict, explain, add caveats, publish, archive, replay, and track
accuracy."""
