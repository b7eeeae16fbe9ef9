"""The kubeconfig and its contexts, as a real kubectl sees them: no cluster is needed to get these wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from packager import process
from packager.cluster.client import Kubectl, failed
from packager.errors import ClusterError, UnreachableError, UsageError
from tests import kubectls, life

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.conftest import Outcome

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {}}]
current-context: here
"""

VERBS = (
    ("status",),
    ("deploy",),
    ("deploy", "--dry-run=client"),
    ("doctor",),
    ("delete",),
    ("logs",),
    ("results", "here"),
    ("history",),
)


def rendered(argv: Sequence[str], *, timeout: float | None = None) -> process.Finished:
    """What every kubectl makes of an overlay: how it is rendered is another matter, which takes 1.22 a second."""
    assert argv[1] == "kustomize"
    assert timeout is not None
    return process.Finished(0, yaml.safe_dump_all(life.rendered(Path(argv[-1]).name)), "")


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("version", [kubectls.VERSIONS[0], kubectls.VERSIONS[-1]])
def test_a_context_that_does_not_exist(
    mlpack: Callable[..., Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: tuple[str, ...],
    version: str,
) -> None:
    monkeypatch.setattr("packager.kubectl.run", rendered)
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    name, *rest = verb
    where = ("--kubeconfig", tmp_path / "kubeconfig", "--context", "there", "--kubectl", kubectls.kubectl(version))
    done = mlpack(name, "hello-mpi", *rest, *where)
    assert done.code == 2
    assert done.stderr == ("error: there is no context 'there' in the kubeconfig\nhint: kubectl config get-contexts\n")


def test_a_kubeconfig_that_does_not_exist(mlpack: Callable[..., Outcome]) -> None:
    done = mlpack("status", "hello-mpi", "--kubeconfig", "nowhere")
    assert done.code == 2
    assert "'--kubeconfig': File 'nowhere' does not exist" in done.stderr


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("The connection to the server h:1 was refused", UnreachableError, "the cluster does not answer: "),
        ("Error from server: etcdserver: request timed out", UnreachableError, "the cluster does not answer: "),
        ("error: no such thing", ClusterError, "no such thing"),
        ("Error from server: no such thing", ClusterError, "no such thing"),
        ("Error from server (Forbidden): you may not", ClusterError, "you may not"),
        ("Error from server (ServiceUnavailable): x", UnreachableError, "the cluster does not answer: "),
        ("", ClusterError, "kubectl failed and did not say why"),
        ('W1121 1:2 a warning\nerror: context "x" does not exist', UsageError, "there is no context 'x'"),
    ],
)
def test_what_kubectl_says_is_understood(said: str, kind: type[Exception], message: str) -> None:
    error = failed(said)
    assert type(error) is kind
    assert str(error).startswith(message)


@pytest.mark.parametrize("ask", [lambda kubectl: kubectl.json("get", "pods"), lambda kubectl: kubectl.raw("/apis")])
def test_an_answer_that_breaks_off(ask: Callable[[Kubectl], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "run", lambda *_arguments, **_options: process.Finished(0, '{"items": [', ""))
    with pytest.raises(UnreachableError, match="the cluster's answer broke off"):
        ask(Kubectl())


def test_a_namespace_that_cannot_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "error: the kubeconfig is a folder"
    monkeypatch.setattr(process, "run", lambda *_arguments, **_options: process.Finished(1, "", said))
    with pytest.raises(ClusterError, match=r"^the kubeconfig is a folder$"):
        Kubectl().default_namespace()
    assert Kubectl(namespace="team").default_namespace() == "team"
