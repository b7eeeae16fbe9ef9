"""The client of a task service."""
