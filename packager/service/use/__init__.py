"""What callers do with a task service: each use case checks what its caller may do, and takes and returns values."""
