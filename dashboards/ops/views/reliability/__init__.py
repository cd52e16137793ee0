"""Views of how the product itself does: what is promised, and how that stands."""
