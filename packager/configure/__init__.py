"""Makes the edits that a package leaves to its user."""
