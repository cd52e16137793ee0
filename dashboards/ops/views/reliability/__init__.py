"""Views of the product's own reliability: service objectives, drift, canary and on-call facts."""
