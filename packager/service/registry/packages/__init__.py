"""Packages of definitions: read once, when a definition is registered, and filled with values for each job."""
