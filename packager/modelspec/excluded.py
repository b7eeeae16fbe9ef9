"""Defines the files excluded from folders of a spec: secrets, history, caches. Tests: modelspec/test_code.py."""

from __future__ import annotations

import re

from packager.package.path_checks import active_part

# Without regard to case, as some file systems have it.
_NAMES = r"cvs|id_(rsa|dsa|ecdsa|ed25519)|thumbs\.db|__pycache__"


def is_excluded(name: str) -> bool:
    """Whether a file or folder called `name` is left out: .git, .env, .ssh, __pycache__ and the like."""
    return active_part(name) is not None or re.fullmatch(_NAMES, name, re.IGNORECASE) is not None
