"""Runs the tests of registries with three real ones: Debian's, distribution's and go-containerregistry's.

python -m tests.registries

builds the last two from their Go modules, which takes some minutes and is cached. Each is tested without TLS, with TLS
and passwords, and with TLS and tokens; go-containerregistry's lists what refers to a manifest, and its tokens are valid
for two seconds.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.publish.real_registry import VARIABLE
from tests.testbed import builds


def main() -> int:
    """Build the registries, run the tests, and return the exit code of pytest."""
    builds.build_all((builds.REGISTRIES,))
    os.environ[VARIABLE] = "1"
    return int(pytest.main(["-q", "tests/cli/test_push.py", "-k", "real_registry", *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
