"""A world to select in."""
