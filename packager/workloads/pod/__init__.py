"""Pod: one process on one node."""
