"""Sweep: trials of one program, side by side."""
