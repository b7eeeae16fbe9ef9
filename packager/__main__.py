"""`python -m packager` is the `mlpack` command."""

from packager.cli import main

main()
