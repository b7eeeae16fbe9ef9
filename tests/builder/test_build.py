"""Tests of the use case `packager.builder.build`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import MlpackError
from packager.builder.build import BuildRequest, Destination, build
from packager.package.opened import opened
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Listener:
    """Records the notes of a use case, and its progress: label, total, unit and completed steps."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.works: list[tuple[str, int, str, int]] = []

    def tell(self, text: str) -> None:
        self.notes.append(text)

    @contextmanager
    def progress(self, label: str, total: int, *, unit: str) -> Iterator[Callable[[int], None]]:
        steps: list[int] = []
        yield steps.append
        self.works.append((label, total, unit, sum(steps)))


def outcomes(request: BuildRequest, destination: Destination, listener: Listener | None = None) -> list[Any]:
    listener = listener or Listener()
    return list(build(request, destination, tell=listener.tell, progress=listener.progress))


def test_versioned_build_has_version_in_name_of_file_and_in_inventory(tmp_path: Path) -> None:
    path = demo.write(tmp_path / "demo", demo.changed("version: 1.2.0-rc.1"))
    destination = Destination(tmp_path, versioned=True)
    [built] = outcomes(BuildRequest(str(path), ()), destination)
    assert (built.path, built.package) == (tmp_path / "demo-fp32-training-1.2.0-rc.1.tar.gz", "demo-fp32-training")
    assert built.as_json()["version"] == "1.2.0-rc.1"
    with opened(built.path) as package:
        assert (package.name, package.version) == ("demo-fp32-training", "1.2.0-rc.1")
    [unversioned] = outcomes(BuildRequest(str(path), ()), Destination(tmp_path))
    assert unversioned.path.name == "demo-fp32-training.tar.gz"
    assert unversioned.path.read_bytes() == built.path.read_bytes()


def test_versioned_build_refuses_spec_without_version(tmp_path: Path) -> None:
    [failed] = outcomes(BuildRequest(str(demo.write(tmp_path / "demo")), ()), Destination(tmp_path, versioned=True))
    assert str(failed) == "--versioned: the spec of demo-fp32-training has no version"


@pytest.mark.parametrize("version", ["1.0", "01.0.0", "1.0.0+build", "1.0.0-01"])
def test_build_refuses_version_that_is_not_semantic(version: str, tmp_path: Path) -> None:
    path = demo.write(tmp_path / "demo", demo.changed(f"version: '{version}'"))
    [failed] = outcomes(BuildRequest(str(path), ()), Destination(tmp_path))
    assert isinstance(failed, MlpackError)
    assert [problem.message.partition(",")[0] for problem in failed.problems] == [
        "expected a version such as 1.4.0 or 2.0.0-rc.1 (https://semver.org)"
    ]


def test_build_passes_notes_to_callback(tmp_path: Path) -> None:
    listener = Listener()
    request = BuildRequest(str(demo.write(tmp_path / "demo")), (), components=("nfs",))
    assert len(outcomes(request, Destination(tmp_path), listener)) == 1
    note = "note: nfs does not render until NFS_SERVER is set in site.env: set it now with --site NFS_SERVER=VALUE"
    assert listener.notes == [note]
