"""Tests that a command keeps its cluster and namespace when the kubeconfig changes, and of commands in a pod."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import faulty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

POD = "pod/fault-single-node"
QUESTION = "Delete it and deploy it again? [y/N]:"


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, child: subprocess.Popen[bytes], terminal: int) -> None:
        self._child = child
        self._terminal = terminal
        self.text = ""

    def until(self, words: str, timeout: float = 60) -> None:
        """Read the command's output until it contains `words`."""
        deadline = time.monotonic() + timeout
        while words not in self.text:
            assert select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))[0], self.text
            try:
                self.text += os.read(self._terminal, 1 << 16).decode(errors="replace")
            except OSError:
                raise AssertionError(self.text) from None  # the command has ended

    def answer(self, words: str) -> None:
        """Type an answer and a new line."""
        os.write(self._terminal, f"{words}\n".encode())

    def end(self) -> int:
        """Wait for the command to end, and return its exit code."""
        return self._child.wait(20)


@contextmanager
def terminal(site: Site, argv: list[str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    environment = {**site.environment, "TERM": "dumb"}
    with subprocess.Popen(
        argv, env=environment, cwd=site.folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as child:
        os.close(theirs)
        try:
            yield Terminal(child, ours)
        finally:
            child.kill()
            os.close(ours)


def uid(site: Site, namespace: str) -> str:
    return site.run(f"kubectl get {POD} -n {namespace} -o jsonpath='{{.metadata.uid}}' --ignore-not-found")


def test_command_keeps_its_context_while_the_kubeconfig_changes(
    site: Site, new_site: Callable[[str], Site], tmp_path: Path
) -> None:
    other = new_site("restricted").namespace
    package = faulty(site, "sleep:2", overlay="single-node")
    assert package.run("deploy", "-n", other, "--no-wait").code == 0
    assert package.run("deploy").code == 0
    first = uid(site, site.namespace), uid(site, other)
    config = tmp_path / "config"
    good = Path(site.environment["KUBECONFIG"]).read_text(encoding="utf-8")
    config.write_text(good, encoding="utf-8")
    theirs = replace(site, environment={**site.environment, "KUBECONFIG": str(config)})
    with terminal(theirs, package.command("deploy")) as deploy:
        deploy.until(QUESTION)
        theirs.run(f"kubectl config set-context --current --namespace={other}")
        deploy.answer("y")
        deploy.until("is deployed in the namespace")
        config.write_text("{", encoding="utf-8")
        deploy.until(f"{POD} has succeeded")
        assert deploy.end() == 0, deploy.text
    second = uid(site, site.namespace)
    assert second != first[0]
    config.write_text(good, encoding="utf-8")
    with terminal(theirs, ["mlpack", "run", str(package.folder), "--task=single-node", "--replace", "-y"]) as run:
        site.until(lambda: uid(site, site.namespace) not in ("", second), "another pod")
        config.unlink()
        run.until(f"{POD} has succeeded")
        assert run.end() == 0, run.text
    assert uid(site, site.namespace) != second
    assert uid(site, other) == first[1]


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"), reason="it mounts what a pod has"
)
def test_status_in_a_pod_uses_the_service_account_and_namespace_of_the_pod(
    site: Site, new_site: Callable[[str], Site]
) -> None:
    """The process runs in its own mount namespace with the files and variables of a pod."""
    other = new_site("restricted").namespace
    package = faulty(site, "none", overlay="single-node")
    assert package.run("deploy").code == 0
    for namespace in (site.namespace, other):
        rights = f"--clusterrole=edit --serviceaccount={site.namespace}:default"
        site.run(f"kubectl create rolebinding in-pod {rights} -n {namespace}")
    view = json.loads(site.run("kubectl config view --minify --flatten -o json"))
    cluster = view["clusters"][0]["cluster"]
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    files = {
        "token": site.run("kubectl create token default").strip(),
        "namespace": site.namespace,
        "ca.crt": site.run(f"echo {cluster['certificate-authority-data']} | base64 -d"),
    }
    account = site.folder / "account"
    account.mkdir()
    for name, content in files.items():
        (account / name).write_text(content, encoding="utf-8")
    place = "/run/secrets/kubernetes.io/serviceaccount"
    enter = f"mount -t tmpfs none /run && mkdir -p {place} && cp account/* {place}/"

    def status(**variables: str) -> tuple[int, str]:
        words = shlex.join(package.command("status"))
        pod = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port or "443", **variables}
        exports = " ".join(f"{name}={value}" for name, value in pod.items())
        command = f"{enter} && env -u KUBECONFIG HOME={site.folder} {exports} {words}"
        done = site.shell(f"unshare --mount --propagation private sh -c {shlex.quote(command)}")
        return done.returncode, done.stdout + done.stderr

    code, text = status()
    assert (code, "succeeded: the pod has succeeded" in text) == (0, True), text
    code, text = status(POD_NAMESPACE=other)
    assert (code, "not found" in text) == (7, True), text
