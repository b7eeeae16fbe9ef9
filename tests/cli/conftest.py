"""Fixtures of the tests of commands that use registries."""

from __future__ import annotations

from tests.publish.conftest import archive, no_logins, registry

__all__ = ["archive", "no_logins", "registry"]
