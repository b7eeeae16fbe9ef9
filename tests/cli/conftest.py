"""Fixtures of the tests of commands that use registries."""

from collections.abc import Iterator

import pytest

from tests.publish import fake_registry
from tests.publish.conftest import archive, no_logins
from tests.publish.fake_registry import FakeRegistry

__all__ = ["archive", "no_logins"]


@pytest.fixture(scope="session")
def _served() -> Iterator[FakeRegistry]:
    with fake_registry.serving() as registry:
        yield registry


@pytest.fixture
def registry(_served: FakeRegistry) -> FakeRegistry:
    """An empty fake registry without TLS; it always has the same address, so that packages with it render once."""
    empty = vars(FakeRegistry())
    del empty["url"], empty["lock"]
    vars(_served).update(empty)
    return _served
