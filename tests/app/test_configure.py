"""Tests of the use case `packager.app.configure`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.app.configure import check_answers, prepared, unset, write
from packager.app.proposals import proposal
from packager.base.errors import UsageError
from packager.configure.changes import Answers
from packager.package.opened import opened

if TYPE_CHECKING:
    from pathlib import Path

ENV = "quickstart/k8s/mlops/single-node/mlops.env"


def fail_if_asked(*_asked: object) -> Answers:
    pytest.fail("the user must not be asked")


def test_configure_prepares_edits_before_writing_them(package: Path) -> None:
    env = package / ENV
    before = env.read_text()
    with prepared(package, "single-node", Answers(registry="example.com"), ask=fail_if_asked) as edits:
        [change] = edits.as_json()["changes"]
        assert change == {
            "file": str(env),
            "line": change["line"],
            "before": "REGISTRY=docker.io",
            "after": "REGISTRY=example.com",
        }
        assert env.read_text() == before
        assert list(write(edits, tell=pytest.fail)) == [str(env)]
    assert env.read_text() == before.replace("REGISTRY=docker.io", "REGISTRY=example.com")


def test_configure_asks_for_answers_if_none_are_set(package: Path) -> None:
    with prepared(
        package, None, Answers(), ask=lambda asked_about, overlays: answer(asked_about.name, *overlays)
    ) as edits:
        assert {change.after for change in edits.changes} == {"REGISTRY=hello-mpi.multi-node.single-node"}


def answer(*parts: str) -> Answers:
    return Answers(registry=".".join(parts))


def test_unset_lists_unset_values_of_all_overlays(package: Path) -> None:
    files = {problem.file for problem in unset(package, None)}
    assert files == {str(package / ENV), str(package / ENV.replace("single", "multi"))}
    with pytest.raises(UsageError) as refused:
        unset(package, None, destination=package / "x.tar.gz")
    assert str(refused.value) == f"{package} is a folder, which is edited in place"


def test_check_answers_refuses_invalid_registry() -> None:
    check_answers(Answers(root="/data"))
    with pytest.raises(UsageError, match="--registry"):
        check_answers(Answers(registry="no host"))


def test_proposal_uses_package_location_and_current_user(package: Path) -> None:
    with opened(package) as opened_package:
        suits = proposal(opened_package, opened_package.overlays, uid=1234, gid=5678)
        assert suits.problems == ()
        root = str(package.parent)
        assert suits.answers == Answers(root=root, registry="docker.io", uid=1234, gid=5678, fs_group=5678)
        assert proposal(opened_package, opened_package.overlays, uid=0, gid=0).answers.uid == 1000
