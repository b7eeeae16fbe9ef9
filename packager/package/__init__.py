"""Reads and writes packages: their files, archive and inventory."""
