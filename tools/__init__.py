"""What the Makefile runs, beyond the project's own commands."""
