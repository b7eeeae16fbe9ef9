"""Converts workloads of other systems into model folders; each system has a function `read` that returns a Draft."""
