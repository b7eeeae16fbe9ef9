"""Compares a package with the digest that its user expects. Tests: verify/test_edits.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.package.integrity import Checked
    from packager.package.opened import Package


def is_digest(word: str) -> bool:
    """Whether `word` is a digest in the printed form, `sha256:` and 64 hexadecimal digits."""
    return re.fullmatch("sha256:[0-9a-f]{64}", word) is not None


def check(package: Package, checked: Checked, digest: str) -> Iterator[Problem]:
    """Yield a finding if `digest` is neither that of the package as received nor, without edits, the sealed one."""
    if digest == checked.received or (digest == package.digest and not (checked.edits or checked.options)):
        return
    place = str(package.source)
    received = checked.received or "unknown, as its files differ from those it was sealed with"
    if digest == package.digest:
        message = f"{digest} is the digest of the package as it was sealed, but it has been edited"
        yield Problem(place, 0, 0, message, f"as received, its digest is {received}")
    else:
        message = f"expected the digest {digest}, found {package.digest} (sealed); as received: {received}"
        yield Problem(place, 0, 0, message)
