"""Tests of an upgrade of env files to which somebody has added lines."""

from __future__ import annotations

import pytest

from packager.configure.merge import Versions, merged

BASE = b"# The first.\nA=1\n\n# The second.\nB=2\n"
NEW = BASE + b"\n# The third.\nSEED=1\n"


@pytest.mark.parametrize("own", [b"OWN=x\n", b"\nOWN=x\n", b"# mine\nOWN=x\n", b"\n# mine\n\nOWN=x\n# end\n"])
def test_upgrade_keeps_added_variables_with_their_comments_below_new_ones(own: bytes) -> None:
    versions = Versions(BASE, BASE.replace(b"A=1", b"A=5") + own, NEW)
    result = merged("overlay/mlops.env", versions)
    assert result.conflicts == ()
    assert result.content == NEW.replace(b"A=1", b"A=5") + own


def test_upgrade_asks_about_a_variable_that_the_new_package_also_has() -> None:
    versions = Versions(BASE, BASE + b"\n# mine\nSEED=7\n", NEW)
    result = merged("overlay/mlops.env", versions)
    assert result.conflicts != ()
