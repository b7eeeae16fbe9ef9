"""The use cases of a task service: each checks the permissions of its caller, and takes and returns values."""
