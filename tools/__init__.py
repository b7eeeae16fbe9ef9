"""The programs that the Makefile runs, beyond the commands of the project."""
