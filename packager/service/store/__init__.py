"""The database of the task service."""
