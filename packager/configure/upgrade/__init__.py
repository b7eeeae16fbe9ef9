"""Reads the edits of a package, and carries them over to a newer one."""
