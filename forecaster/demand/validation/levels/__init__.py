"""Levels of counts: classification of a depot's shift to another level."""
