"""The REST API of the task service, version 1."""
