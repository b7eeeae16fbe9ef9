"""Job: one process on one node, started again when it fails."""
