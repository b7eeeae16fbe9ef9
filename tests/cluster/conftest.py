"""Fixtures for the tests of use cases, which fail if a use case prints anything."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from packager.cluster.target import Target, open_target
from packager.kubernetes.kubectl.client import Kubectl
from tests.life import Life


@pytest.fixture(autouse=True)
def _prints_nothing(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def opened(life: Life, tmp_path: Path) -> Iterator[Callable[..., Target]]:
    """A function that opens an overlay of hello-mpi as `person`, in the namespace team of the fake cluster."""
    assert life.objects == []
    with ExitStack() as stack:

        def open_overlay(overlay: str = "multi-node", *, person: str = "ann@desk") -> Target:
            kubectl = Kubectl(namespace="team", runner=life)
            return stack.enter_context(
                open_target(tmp_path / "hello-mpi", overlay, kubectl, person=person, tell=pytest.fail)
            )

        yield open_overlay


@pytest.fixture
def target(opened: Callable[..., Target]) -> Target:
    """The overlay multi-node of hello-mpi."""
    return opened()
