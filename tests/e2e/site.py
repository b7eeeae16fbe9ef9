"""A user's view of a cluster: a namespace, a shell, a package and its README."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]

CONDITIONS = '{.status.conditions[?(@.status=="True")].type}'
"""The JSONPath of the types of a workload's conditions that are true."""

ENDS = {"Succeeded", "Failed"}
"""The final phases of a pod, and the final conditions of an MPIJob."""

_FEWER_COLLECTIONS = {"GOGC": "off", "GOMEMLIMIT": "512MiB"}
"""kubectl reads a few MiB and ends: without its garbage collector it takes a fifth less of the processor."""

MPI_IMAGE = "docker.io/mpioperator/mpi-pi:openmpi"
"""The image of hello-mpi."""


def create_later(file: str) -> str:
    """Return a shell script that creates a file, for which a program waits, a second after the script has ended.

    A container that ends kills what runs in it: a `kubectl exec` that creates the file itself fails with exit code
    137 when the program is faster than the answer to the command.

    Args:
        file: The path in the container; variables in it are expanded there.
    """
    return f'(sleep 1; touch "{file}") < /dev/null > /dev/null 2>&1 &'


@dataclass(frozen=True)
class Site:
    """A namespace of the cluster, and a shell whose kubectl uses it.

    Attributes:
        namespace: The name of the namespace.
        environment: The environment variables of the shell.
        folder: The working folder, empty at first.
    """

    namespace: str
    environment: dict[str, str] = field(repr=False)
    folder: Path

    @staticmethod
    def kubectl() -> str:
        """Return the path of the tests' kubectl: $KUBECTL, the one on PATH, or the one of `tests.kubectls`."""
        path = os.environ.get("KUBECTL") or shutil.which("kubectl")
        if not path:
            from tests.kubectls import DEFAULT, kubectl

            path = str(kubectl(DEFAULT))
        return path

    @classmethod
    def create(cls, namespace: str, level: str, kubeconfig: Path, folder: Path) -> Site:
        config = json.loads(kubeconfig.read_text(encoding="utf-8"))
        config["contexts"][0]["context"]["namespace"] = namespace
        own = folder / f"{namespace}.kubeconfig"
        own.write_text(json.dumps(config), encoding="utf-8")
        tools = folder / f"{namespace}.bin"
        tools.mkdir()
        (tools / "kubectl").symlink_to(cls.kubectl())
        path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
        work = folder / namespace
        work.mkdir()
        site = cls(namespace, {**_FEWER_COLLECTIONS, **os.environ, "KUBECONFIG": str(own), "PATH": path}, work)
        labels = {"pod-security.kubernetes.io/enforce": level}
        objects: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}},
            # Pods are refused until the account exists, and the controller that creates it is slow.
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}},
        ]
        site.apply(*objects)
        return site

    def remove(self) -> None:
        self.run(f"kubectl delete namespace {self.namespace} --wait=false --ignore-not-found")

    def shell(self, command: str, *, cwd: Path | None = None, timeout: float = 660) -> subprocess.CompletedProcess[str]:
        """Run a command line in bash, and return the finished process."""
        return subprocess.run(
            ["bash", "-c", command],
            cwd=cwd or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def run(self, command: str, *, cwd: Path | None = None, timeout: float = 660) -> str:
        """Run a command line, assert that it succeeds, and return its stdout."""
        done = self.shell(command, cwd=cwd, timeout=timeout)
        assert done.returncode == 0, f"{command}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def in_pod(self, package: str, command: str) -> str:
        """Run a command in the pod of a deployed Pod, Job or Deployment, and return its stdout."""
        workload = json.loads(self.run(f"mlpack status {package} -o json"))["workload"]
        return self.run(f"kubectl exec {workload} -- {command}")

    def let_end(self, target: str, file: str, kubectl: str = "kubectl") -> None:
        """Let the program of a pod end that waits for a file, as `create_later` does."""
        self.run(f"{kubectl} exec {target} -- sh -c {shlex.quote(create_later(file))}")

    def get(self, what: str) -> Any:
        """Return the JSON that `kubectl get` prints for a resource."""
        return json.loads(self.run(f"kubectl get {what} -o json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects server-side, including fields of other managers."""
        manifest = self.folder / "manifest.json"
        manifest.write_text("\n".join(map(json.dumps, objects)), encoding="utf-8")
        self.run(f"kubectl apply --server-side --force-conflicts -f {manifest.name}")
        manifest.unlink()

    def build(self, model: str, *options: str) -> Path:
        """Build a model's package in the working folder, unpack it with tar, and return the package's folder."""
        done = self.shell(" ".join(["mlpack", "build", model, *options]))
        assert done.returncode == 0, done.stderr
        archive = self.folder / done.stdout.strip()
        self.run(f"tar xzf {archive.name}")
        return self.folder / archive.name.removesuffix(".tar.gz")

    def phase(self, pod: str) -> str:
        return str(self.get(f"pod {pod}")["status"]["phase"])

    def conditions(self, job: str) -> list[str]:
        """Return the types of an MPIJob's conditions that are true."""
        return self.run(f"kubectl get mpijob {job} -o jsonpath='{CONDITIONS}'").split()

    def end_of(self, job: str, *, timeout: float = 660) -> str:
        """Wait for an MPIJob to end, and return "Succeeded" or "Failed"."""
        return self._end(f"mpijob/{job}", CONDITIONS, timeout)

    def end_of_pod(self, pod: str, *, timeout: float = 660) -> str:
        """Wait for a pod to end, and return its phase, "Succeeded" or "Failed"."""
        return self._end(f"pod/{pod}", "{.status.phase}", timeout)

    def _end(self, workload: str, path: str, timeout: float) -> str:
        """Return the first of `ENDS` that the JSONPath yields; fail after `timeout`.

        A watch starts one process, and polling starts many. A watch once printed nothing for five minutes although the
        pod ended within seconds, so it is started again twice a minute.
        """
        argv = ["kubectl", "get", workload, "--watch", f'--output=jsonpath={path}{{"\\n"}}']
        deadline = time.monotonic() + timeout
        status_line = ""
        while (left := deadline - time.monotonic()) > 0:
            with subprocess.Popen(argv, env=self.environment, stdout=subprocess.PIPE, text=True) as watching:
                patience = threading.Timer(min(left, 30), watching.kill)
                patience.start()
                try:
                    assert watching.stdout
                    for status_line in watching.stdout:
                        if ended := ENDS.intersection(status_line.split()):
                            return ended.pop()
                finally:
                    patience.cancel()
                    watching.kill()
            assert watching.returncode <= 0, f"kubectl get {workload} ended with {watching.returncode}"
        raise AssertionError(f"no end of {workload} within {timeout:g} s; it was last {status_line!r}")

    def until(self, condition: Any, what: str, timeout: float = 300) -> Any:
        """Return the first true value of `condition()`; fail with `what` after `timeout`.

        Polls take at most a fifth of the time, since they compete for the processor with the awaited event.
        """
        deadline = time.monotonic() + timeout
        while (begin := time.monotonic()) < deadline:
            if value := condition():
                return value
            time.sleep(max(1, min(4 * (time.monotonic() - begin), 8)))
        raise AssertionError(f"waited {timeout:g} s for {what}")

    def until_both_ranks_say(self, word: str) -> None:
        """Wait until the launcher's log contains `word` twice."""
        self.until(lambda: self.shell(f"kubectl logs {self.launcher()}").stdout.count(word) == 2, f"{word!r}, twice")

    def state(self) -> str:
        """Return the objects, events and logs of the namespace, for the report of a failure."""
        events = "kubectl get events --sort-by=.lastTimestamp | tail -n 60"
        # The selector matches every pod: kubectl prints logs of several pods only with a selector.
        logs = "kubectl logs --selector='!nothing' --all-containers --prefix --tail=20 --max-log-requests=50"
        objects = "kubectl get nodes,mpijobs,pods,endpointslices -o wide"
        return self.shell(f"{objects}; {events}; {logs} --ignore-errors; date").stdout

    def log(self, pod: str, container: str = "") -> str:
        return self.run(f"kubectl logs {pod} {container}")

    def launcher(self) -> str:
        """Return the name of the launcher's pod, with the command of the README."""
        return self.run("kubectl get pods -oname|grep launch|cut -c5-").strip()

    def left(self) -> list[str]:
        """Return the names of the objects in the namespace, except those of Kubernetes itself."""
        kinds = "pods,configmaps,secrets,services,jobs,mpijobs,persistentvolumeclaims"
        names = self.run(f"kubectl get {kinds} -o name").split()
        return [name for name in names if name != "configmap/kube-root-ca.crt"]


@dataclass(frozen=True)
class Images:
    """A builder of images for the cluster of `tests/testbed`; another cluster must already have them."""

    own_cluster: bool

    def build(self, folder: Path, name: str) -> str:
        if self.own_cluster:
            subprocess.run(
                [sys.executable, "-m", "tests.testbed", "image", "build", str(folder), name], cwd=CHECKOUT, check=True
            )
        return name

    def build_ours(self, source: str, folder: Path) -> str:
        """Build an image of `deploy/` with this checkout's wheel and the tests' kubectl, in a new folder."""
        shutil.copytree(CHECKOUT / "deploy" / source, folder)
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, CHECKOUT]
        subprocess.run(wheel, check=True)
        shutil.copy(Site.kubectl(), folder / "kubectl")
        return self.build(folder, f"localhost/mlpack-{source}:test")


def last_json(log: str) -> dict[str, Any]:
    """Return the last line of JSON in a log."""
    value = json.loads([line for line in log.splitlines() if line.startswith("{")][-1])
    assert isinstance(value, dict)
    return value


def blocks(package: Path, section: str) -> list[str]:
    """Return the shell commands of a package's README below the heading that begins with `section`."""
    text = (package / "README.md").read_text(encoding="utf-8")
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        if part.startswith(section):
            return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```", part, flags=re.MULTILINE | re.DOTALL)]
    raise AssertionError(f"the README has no section {section!r}")


def commands(package: Path, overlay: str) -> list[str]:
    """Return the README's commands that apply an overlay, print its log, wait for its end and delete it."""
    first, *others = re.split(r"^# (\S+): .*\n", blocks(package, "Run it")[0], flags=re.MULTILINE)
    apply, logs, wait, delete = first.splitlines()
    if overlay in others:
        logs, wait = others[others.index(overlay) + 1].splitlines()
        apply, delete = (re.sub(r"mlops/\S+", f"mlops/{overlay}", line) for line in (apply, delete))
    return [apply, logs, wait, delete]
