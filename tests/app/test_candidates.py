from __future__ import annotations

from typing import TYPE_CHECKING

from packager.app import candidates
from packager.base.process import Finished
from packager.base.runner import Runner
from packager.modelspec import catalog
from packager.package.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Programs(Runner):
    """Answers every command with the same output."""

    def __init__(self, finished: Finished) -> None:
        self.finished = finished
        self.commands: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], **_: Any) -> Finished:
        self.commands.append(argv)
        return self.finished


def test_candidates_are_models_with_aliases_and_options() -> None:
    names = candidates.models([catalog.bundled()])
    assert {"llm-finetune", "resnet50", "hello-mpi"} <= set(names)
    assert candidates.options() == {option.name: option.summary for option in OPTIONS}
    assert {"scratch", "nfs", "pvc"} <= set(candidates.storages())
    assert "NFS_SERVER" in candidates.site_keys()
    assert "multi-node" in candidates.overlays_of_model("hello-mpi", [catalog.bundled()])


def test_namespaces_and_contexts_are_those_that_kubectl_prints() -> None:
    programs = Programs(Finished(0, "namespace/a\nnamespace/b\n", ""))
    assert candidates.namespaces(["kubectl", "--context=c"], programs) == ["a", "b"]
    assert programs.commands == [["kubectl", "--context=c", "get", "namespaces", "-o", "name"]]
    assert candidates.contexts(["kubectl"], Programs(Finished(0, "a\nb\n", ""))) == ["a", "b"]


def test_a_refusing_cluster_has_no_candidates() -> None:
    assert candidates.namespaces(["kubectl"], Programs(Finished(1, "namespace/a\n", "forbidden"))) == []
