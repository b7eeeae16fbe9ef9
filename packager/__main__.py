"""Runs the `mlpack` command for `python -m packager`."""

from packager.cli import main

main()
