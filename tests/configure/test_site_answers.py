"""Tests of `packager.configure.configure`: which defaults of a site an overlay takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.configure.assignments import Assignment
from packager.configure.changes import Answers
from packager.configure.configure import site_answers
from packager.configure.settings import Files
from packager.package.opened import opened
from packager.site.read import parsed
from tests.site.test_read import COMPLETE

if TYPE_CHECKING:
    from pathlib import Path

SINGLE = "quickstart/k8s/mlops/single-node"


def answers_of(package: Path, text: str, given: Answers | None = None) -> Answers:
    with opened(package) as opened_package:
        site = parsed(package / "site.yaml", text.encode())
        return site_answers(Files(opened_package), "single-node", site, given or Answers())


def test_defaults_replace_values_of_the_build(package: Path) -> None:
    answers = answers_of(package, COMPLETE)
    assert (answers.root, answers.registry) == ("/nfs/models", "reg.example.com/team")
    assert (answers.uid, answers.gid, answers.fs_group) == (2000, 3000, 4000)
    assert answers.storage == ("pvc",)
    assert answers.switch_on == ("queue", "placement", "pull-secret", "shared-memory")
    assert {entry.key: entry.value for entry in answers.assignments} == {
        "OUTPUT_CLAIM": "results",
        "DATASET_CLAIM": "dataset",
        "QUEUE": "user-queue",
        "PULL_SECRET": "registry",
        "SHM_SIZE": "8Gi",
    }
    assert answers.placement == {
        "nodeSelector": {"pool": "train"},
        "tolerations": [{"key": "train", "operator": "Exists", "effect": "NoSchedule"}],
    }


def test_command_line_counts_more_than_defaults(package: Path) -> None:
    given = Answers(
        root="/data",
        registry="other.example",
        uid=5,
        assignments=(Assignment("--set", "QUEUE", "mine"),),
        storage=("scratch",),
        switch_off=("pull-secret",),
    )
    answers = answers_of(package, COMPLETE, given)
    assert (answers.root, answers.registry, answers.uid, answers.gid) == (None, None, None, 3000)
    assert answers.storage == ()
    assert answers.switch_on == ("queue", "placement", "shared-memory")
    assert [entry.key for entry in answers.assignments] == ["SHM_SIZE"]


def test_defaults_keep_edited_values(full_package: Path) -> None:
    package = full_package
    edit(package / SINGLE / "mlops.env", "REGISTRY=docker.io", "REGISTRY=mine.example")
    edit(package / SINGLE / "pod-patch.yaml", "runAsUser: 1000", "runAsUser: 7")
    edit(package / "quickstart/common/mpi/k8s/mlops/site/site.env", "#QUEUE=user-queue", "QUEUE=mine")
    edit(package / "quickstart/common/mpi/k8s/mlops/placement/placement.yaml", "linux", "windows")
    edit(
        package / SINGLE / "kustomization.yaml",
        "# - ../../../common/mpi/k8s/mlops/scratch ",
        "- ../../../common/mpi/k8s/mlops/scratch ",
    )
    answers = answers_of(package, COMPLETE)
    assert (answers.registry, answers.uid, answers.gid) == (None, None, 3000)
    assert "QUEUE" not in {entry.key for entry in answers.assignments}
    assert answers.placement is None
    assert answers.storage == ()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_option_that_the_package_does_not_have_is_left_out(package: Path) -> None:
    answers = answers_of(
        package,
        "options: {expose: {EXPOSE: NodePort}, shared-memory: }\nstorage: {model-nfs: "
        "{MODEL_NFS_SERVER: a, MODEL_NFS_PATH: /b}, output-pvc: {OUTPUT_CLAIM: r}}\n",
    )
    assert answers.switch_on == ("shared-memory",)
    assert {entry.key for entry in answers.assignments} >= {"OUTPUT_CLAIM"}


def test_storage_of_the_command_line_takes_the_values_of_the_site(package: Path) -> None:
    text = "storage: {output-pvc: {OUTPUT_CLAIM: team-results}}\noptions: {shared-memory: {SHM_SIZE: 3Gi}}\n"
    for given in (Answers(switch_on=("pvc",)), Answers(storage=("pvc",))):
        answers = answers_of(package, text, given)
        values = {entry.key: entry.value for entry in answers.assignments}
        assert values == {"OUTPUT_CLAIM": "team-results", "SHM_SIZE": "3Gi"}
    own = Answers(storage=("pvc",), assignments=(Assignment("--set", "OUTPUT_CLAIM", "mine"),))
    assert [entry.key for entry in answers_of(package, text, own).assignments] == ["SHM_SIZE"]
    scratch = answers_of(package, text, Answers(storage=("scratch",)))
    assert [entry.key for entry in scratch.assignments] == ["SHM_SIZE"]


def test_placement_and_storage_of_the_command_line_count_more(package: Path) -> None:
    text = "nodeSelector: {pool: train}\n"
    answers = answers_of(package, text, Answers(switch_on=("placement",)))
    assert (answers.switch_on, answers.placement) == ((), {"nodeSelector": {"pool": "train"}})
    assert answers_of(package, text, Answers(switch_off=("placement",))).placement is None
    assert answers_of(package, COMPLETE, Answers(switch_on=("host-path",))).storage == ()
