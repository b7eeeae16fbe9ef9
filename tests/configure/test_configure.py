"""Tests of the use case `packager.configure.configure`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import UsageError
from packager.configure.changes import Answers
from packager.configure.configure import own_components, prepared, write
from packager.package.opened import opened

if TYPE_CHECKING:
    from pathlib import Path

ENV = "quickstart/k8s/mlops/single-node/mlops.env"


def test_configure_prepares_edits_before_writing_them(package: Path) -> None:
    env = package / ENV
    before = env.read_text()
    with prepared(package, "single-node", Answers(registry="example.com")) as edits:
        [change] = edits.as_json()["changes"]
        assert change == {
            "file": str(env),
            "line": change["line"],
            "before": "REGISTRY=docker.io",
            "after": "REGISTRY=example.com",
        }
        assert env.read_text() == before
        assert list(write(edits)) == [str(env)]
    assert env.read_text() == before.replace("REGISTRY=docker.io", "REGISTRY=example.com")


COMPONENT = """\
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
  - target: {kind: Pod}
    patch: |-
      - {op: add, path: /spec/nodeSelector, value: {pool: train}}
"""


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A folder with a component of the user."""
    folder = tmp_path / "ours"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(COMPONENT, encoding="utf-8")
    return folder


def add_component(package: Path, folder: Path, destination: Path | None = None) -> list[str]:
    """Add a component to a package, and return the changed lines."""
    answers = Answers(components=own_components((str(folder),)))
    with prepared(package, None, answers, destination=destination) as edits:
        lines = [change.shown_after for change in edits.changes if "site/ours" in change.shown_after]
        for _ in write(edits, destination=destination):
            pass
        return lines


def test_configure_copies_component_and_lists_it_in_each_overlay(package: Path, ours: Path) -> None:
    assert add_component(package, ours) == ["- ../../../site/ours"] * 2
    copy = package / "quickstart/site/ours/kustomization.yaml"
    assert (copy.read_text(encoding="utf-8"), copy.stat().st_mode & 0o777) == (COMPONENT, 0o644)
    assert add_component(package, ours) == []


def test_configure_adds_component_to_tarball(package: Path, ours: Path, tmp_path: Path) -> None:
    from packager.package import archive, tree

    packed, new = tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"
    with packed.open("wb") as stream:
        archive.write(tree.read(package), stream)
    add_component(packed, ours, new)
    with opened(new) as edited:
        assert (edited.folder / "quickstart/site/ours/kustomization.yaml").read_text(encoding="utf-8") == COMPONENT


@pytest.mark.parametrize("name", ["run.sh", "sub/patch.yaml", ".hidden.yaml"])
def test_configure_refuses_component_with_other_files(package: Path, ours: Path, name: str) -> None:
    (ours / name).parent.mkdir(exist_ok=True)
    (ours / name).write_text("a: b\n", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be added to a package"):
        add_component(package, ours)
    assert not (package / "quickstart/site").exists()
