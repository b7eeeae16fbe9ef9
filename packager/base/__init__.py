"""Contains what all other folders use; nothing in it depends on packages."""
