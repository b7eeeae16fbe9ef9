"""Tests of the client of a cluster: contexts, kubeconfigs, timeouts, and the errors of kubectl."""

from __future__ import annotations

import errno
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base import process
from packager.base.errors import ClusterError, DeniedError, NotEvaluatedError, UnreachableError, UsageError
from packager.base.process import Runner
from packager.cli.host import Host
from packager.kubernetes.kubectl import kustomize as kubectl
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.refusals import error_from, explained_error
from tests import fake_cluster, kubectls, life

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.conftest import Mlpack

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {}}]
current-context: here
"""


class Rendering(Runner):
    """Runs kubectl, except for rendering, which takes a kubectl a second: it returns a rendered overlay."""

    def run(self, argv: Sequence[str], **options: Any) -> process.Finished:
        if argv[1] != "kustomize":
            return super().run(argv, **options)
        assert options.pop("variables").keys() == {"GOGC", "GOMAXPROCS", "GOMEMLIMIT"}
        assert options == {"timeout": 30.0, "max_bytes": kubectl.MAX_BYTES, "memory": kubectl.MEMORY_BYTES}
        return process.Finished(0, yaml.safe_dump_all(life.rendered(Path(argv[-1]).name)), "")


@pytest.mark.parametrize(
    ("verb", "version"),
    [("status", kubectls.VERSIONS[0]), ("doctor", kubectls.VERSIONS[-1])],
)
def test_verb_refuses_missing_context(mlpack: Mlpack, tmp_path: Path, hello_mpi: Path, verb: str, version: str) -> None:
    mlpack.host = Host(Rendering())
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    where = ("--kubeconfig", tmp_path / "kubeconfig", "--context", "there", "--kubectl", kubectls.kubectl(version))
    done = mlpack(verb, hello_mpi, *where)
    assert done.code == 2
    assert done.stderr == ("error: context 'there' not found in the kubeconfig\nhint: kubectl config get-contexts\n")


REFUSED = "The connection to the server h:1 was refused"
NO_SCHEMA = 'error validating "STDIN": error validating data: Get "https://h:1/openapi/v2": EOF'


def test_error_from_prints_message_once_without_flags_of_kubectl() -> None:
    for stderr, message in [
        (f"{REFUSED}\n{REFUSED}\n{REFUSED}\n", f"the cluster does not answer: {REFUSED}"),
        (
            f"error: {NO_SCHEMA}; if you choose to ignore these errors, turn validation off with --validate=false\n",
            f"the cluster does not answer: {NO_SCHEMA}",
        ),
    ]:
        assert str(error_from(stderr)) == message


def test_error_from_classifies_messages_of_kubectl() -> None:
    for stderr, kind, message in [
        ("The connection to the server h:1 was refused", UnreachableError, "the cluster does not answer: "),
        ("Error from server: etcdserver: request timed out", UnreachableError, "the cluster does not answer: "),
        ("error: no such thing", ClusterError, "no such thing"),
        ("Error from server: no such thing", ClusterError, "no such thing"),
        ("Error from server (Forbidden): you may not", ClusterError, "you may not"),
        ("Error from server (ServiceUnavailable): x", UnreachableError, "the cluster does not answer: "),
        ("", ClusterError, "kubectl failed without a message"),
        ("Error from server (Timeout): request did not complete", UnreachableError, "the cluster does not answer: "),
        ("Error from server (TooManyRequests): wait", UnreachableError, "the cluster does not answer: "),
        ('Error from server (InternalError): an error on the server ("") has prevented', UnreachableError, ""),
        ("Error from server: rpc error: code = Canceled desc = context canceled", UnreachableError, ""),
        ("Error from server: context canceled", UnreachableError, "the cluster does not answer: "),
        ("Error from server: http: Handler timeout", UnreachableError, "the cluster does not answer: "),
        ("Error from server: grpc: the client connection is closing", UnreachableError, ""),
        ("Error from server: the server has received too many requests and has asked us", UnreachableError, ""),
        ("error: stream error: stream ID 3; INTERNAL_ERROR; received from peer", UnreachableError, ""),
        ('error: Get "https://h/api": write tcp: write: broken pipe', UnreachableError, ""),
        ('error: Get "https://h/api": read tcp: read: connection timed out', UnreachableError, ""),
        ('Error from server (Forbidden): pods "x" is forbidden: not yet ready to handle request', UnreachableError, ""),
        (
            'error: unable to upgrade connection: pods "x" is forbidden: User "u" cannot create resource "pods/exec"',
            DeniedError,
            'pods "x" is forbidden: User "u" cannot create resource "pods/exec"',
        ),
        ('W1121 1:2 a warning\nerror: context "x" does not exist', UsageError, "context 'x' not found"),
    ]:
        error = error_from(stderr)
        assert type(error) is kind
        assert str(error).startswith(message)


BROKEN = "a webhook of the cluster fails"
KUBELET = "the kubelet of the pod's node does not answer"
STRANGER = "the cluster rejects your credentials"
IMPOSTOR = "the server's certificate is not valid for this cluster"
WEBHOOKS = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations; ask the cluster administrator"
LOGIN = "log in again; kubectl config view --minify shows the user"
SERVER = "correct server and certificate-authority of the kubeconfig: kubectl config view --minify"
REFUSED = 'Post "https://10.0.0.1/v": dial tcp 10.0.0.1:443: connect: connection refused'


def test_error_from_distinguishes_errors_that_resemble_unreachable_server() -> None:
    for before, stderr, meaning, hint in [
        ("Error from server (InternalError): ", f'failed calling webhook "w": {REFUSED}', BROKEN, WEBHOOKS),
        (
            "Error from server: ",
            f"conversion webhook for kubeflow.org/v1, Kind=MPIJob failed: {REFUSED}",
            BROKEN,
            WEBHOOKS,
        ),
        (
            "Error from server: ",
            "error dialing backend: dial tcp 10.0.0.2:10250: i/o timeout",
            KUBELET,
            "kubectl get nodes",
        ),
        (
            "Error from server: ",
            'Get "https://10.0.0.2:10250/logs": dial tcp: i/o timeout',
            KUBELET,
            "kubectl get nodes",
        ),
        (
            "Unable to connect to the server: ",
            "getting credentials: exec: executable login failed with exit code 1",
            "the login program of the kubeconfig failed",
            "kubectl config view --minify",
        ),
        (
            "Error from server: ",
            "etcdserver: mvcc: database space exceeded",
            "the cluster accepts no changes: its etcd is full",
            "ask the cluster administrator to free space in etcd and disarm the alarm",
        ),
        ("error: ", "You must be logged in to the server (Unauthorized)", STRANGER, LOGIN),
        ("Unable to connect to the server: ", "remote error: tls: expired certificate", STRANGER, LOGIN),
        ("Unable to connect to the server: ", "x509: certificate signed by unknown authority", IMPOSTOR, SERVER),
        ("Unable to connect to the server: ", "http: server gave HTTP response to HTTPS client", IMPOSTOR, SERVER),
        ("Error from server (Forbidden): ", "no such host", None, None),
    ]:
        error = error_from(before + stderr)
        assert (str(error), error.hint) == (f"{meaning}: {stderr}" if meaning else stderr, hint)
        was_evaluated = meaning in (None, "a webhook of the cluster fails")
        assert isinstance(error, ClusterError if was_evaluated else NotEvaluatedError)
        assert not isinstance(error, NotEvaluatedError if was_evaluated else UnreachableError)


def test_error_of_missing_permission_has_verb_and_resource() -> None:
    for answer, verb, resource, is_cluster_wide in [
        (
            'pods is forbidden: User "a b" cannot list resource "pods" in API group "" in the namespace "x"',
            "list",
            "pods",
            False,
        ),
        (
            'x is forbidden: User "a" cannot list resource "mpijobs" in API group "kubeflow.org" at the cluster scope',
            "list",
            "mpijobs.kubeflow.org",
            True,
        ),
        (
            'forbidden: User "a" cannot get path "/readyz" is forbidden: User "a" cannot get path "/readyz"',
            "get",
            "",
            False,
        ),
    ]:
        for explain in (error_from, explained_error):
            error = explain(f"Error from server (Forbidden): {answer}")
            assert isinstance(error, DeniedError)
            assert (error.verb, error.resource, error.is_cluster_wide) == (verb, resource, is_cluster_wide)


def test_refusal_of_admission_is_not_denied_error() -> None:
    answer = (
        'Error from server (Forbidden): pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot'
    )
    assert not isinstance(error_from(answer), DeniedError)
    assert not isinstance(explained_error(answer), DeniedError)


ASK: tuple[Callable[[Kubectl], object], ...] = (
    lambda kubectl: kubectl.json("get", "pods"),
    lambda kubectl: kubectl.raw("/apis"),
)


@pytest.mark.parametrize("ask", ASK)
def test_client_stops_hanging_kubectl_at_deadline(ask: Callable[[Kubectl], object], tmp_path: Path) -> None:
    (tmp_path / "kubectl").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "kubectl").chmod(0o755)
    with pytest.raises(UnreachableError) as silent:
        ask(Kubectl(str(tmp_path / "kubectl")).within(0))
    assert str(silent.value) == f"the cluster does not answer: {tmp_path}/kubectl did not finish within 0 seconds"


class Scripted(Runner):
    """Answers each command with `answer`, and `config view` with a kubeconfig; its clock stands still."""

    def __init__(self, answer: process.Finished) -> None:
        self.answer = answer

    def run(self, argv: Sequence[str], **_options: Any) -> process.Finished:
        return process.Finished(0, json.dumps(fake_cluster.KUBECONFIG), "") if "view" in argv else self.answer

    def clock(self) -> float:
        return 100.0


def test_client_reports_truncated_response() -> None:
    for ask in ASK:
        runner = Scripted(process.Finished(0, '{"items": [', ""))
        with pytest.raises(UnreachableError, match="the cluster's response was cut off"):
            ask(Kubectl(runner=runner))


def test_client_reports_killed_kubectl() -> None:
    for ask in ASK:
        runner = Scripted(process.Finished(-9, "", ""))
        with pytest.raises(ClusterError, match=r"^kubectl was ended by signal 9 before it had a response$"):
            ask(Kubectl(runner=runner))


@pytest.fixture
def _listener_on_port_8080() -> Iterator[None]:
    """A server that listens on port 8080, unless another program uses the port."""
    try:
        server = HTTPServer(("127.0.0.1", 8080), BaseHTTPRequestHandler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        yield
    else:
        with server:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            yield
            server.shutdown()


@pytest.mark.usefixtures("_listener_on_port_8080")
@pytest.mark.parametrize(
    ("verb", "version"),
    [
        ("status hello-mpi", kubectls.VERSIONS[0]),
        ("operator status mpi", kubectls.DEFAULT),
    ],
)
@pytest.mark.usefixtures("package")
def test_verb_refuses_missing_cluster_without_asking_localhost(
    mlpack: Mlpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, version: str
) -> None:
    mlpack.host = Host(Rendering())
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECTL", str(kubectls.kubectl(version)))
    done = mlpack(*verb.split())
    assert (done.code, done.stdout) == (7, "")
    assert done.stderr == (
        "error: no cluster is configured: --kubeconfig or --context\nhint: kubectl config get-contexts\n"
    )


def test_response_without_names_has_no_groups_kinds_and_items() -> None:
    for entries in ["5", '"x"', "true", "{}", "[5]", "[{}]", '[{"name": 5, "kind": 5, "version": []}]']:
        keys = ("groups", "versions", "resources", "items")
        answer = f'{{"kind": "List", {", ".join(f"{json.dumps(key)}: {entries}" for key in keys)}}}'
        kubectl = Kubectl(runner=Scripted(process.Finished(0, answer, "")))
        assert set(kubectl.groups() or ()) <= {""}
        assert not kubectl.serves("mpijobs.kubeflow.org")
        assert all(isinstance(item, dict) for item in kubectl.items("pods"))
