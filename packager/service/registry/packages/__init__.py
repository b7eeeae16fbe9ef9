"""Packages that definitions name: read once, when a definition is registered, and filled in for each job."""
