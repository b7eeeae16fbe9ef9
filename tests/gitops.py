"""Checks that Flux takes packages from a registry, verifies their signatures, and runs them again when they change.

python -m tests.gitops

builds source-controller and kustomize-controller from their Go modules, which takes some minutes and is cached, starts
the cluster of the tests, Debian's registry and both controllers, and prints a line for each check. The objects are
those of docs/gitops.md.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests import kubectls
from tests.publish.real_registry import ANONYMOUS, DEBIAN, free_port, serving
from tests.testbed import builds, lifecycle
from tests.web import answering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FLUX = "flux-system"
_NAMESPACE = "flux-checks"
_IMAGE = "docker.io/mpioperator/mpi-pi:openmpi"
_MODELS = Path(__file__).resolve().parents[1] / "model_specs"
_PATIENCE = 120.0
_PASSWORD = "only for this run"  # noqa: S105 - of keys that are deleted at the end
_POD = "hello-mpi-single-node"
_DOCUMENT = Path(__file__).resolve().parents[1] / "docs/gitops.md"
_SOURCE, _APPLIED = "ocirepository", "kustomization.kustomize.toolkit.fluxcd.io"


class CheckError(Exception):
    """A check has failed."""


class Flux:
    """Runs mlpack and kubectl in a folder, and makes the checks.

    Attributes:
        folder: The folder of packages and keys.
        host: The host of the registry.
    """

    def __init__(self, folder: Path, host: str, kubeconfig: Path) -> None:
        self.folder, self.host = folder, host
        self._variables = os.environ | {"KUBECONFIG": str(kubeconfig), "MLPACK_KEY_PASSWORD": _PASSWORD}
        self._variables |= {"KUBECTL": str(kubectls.kubectl()), "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}

    def mlpack(self, *arguments: str) -> str:
        """Run mlpack, and return its output. Raises CheckError if it fails."""
        return self.run([sys.executable, "-m", "packager", *arguments])

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl, and return its output. Raises CheckError if it fails."""
        return self.run([str(kubectls.kubectl()), *arguments], text)

    def push(self, repository: str, tag: str, *options: str, package: str = "hello-mpi.tar.gz") -> str:
        """Push a package, and return its reference with a tag."""
        reference = f"oci://{self.host}/team/{repository}:{tag}"
        self.mlpack("push", package, reference, "--no-verify", *options)
        return reference

    def objects(self, reference: str, key: str | None = None) -> list[dict[str, Any]]:
        """Return the objects of docs/gitops.md for a package in the registry, with a Secret if a key is named."""
        block = _DOCUMENT.read_text("utf-8").partition("\n## Flux\n")[2].partition("```yaml\n")[2].partition("```")[0]
        source, applied = yaml.safe_load_all(block)
        facts = json.loads(self.mlpack("inspect", reference, "-o", "json"))
        url, _, digest = facts["reference"].partition("@")
        name = f"{facts['package']}-single-node"
        source["metadata"]["name"] = applied["metadata"]["name"] = applied["spec"]["sourceRef"]["name"] = name
        source["spec"] |= {"url": url, "ref": {"digest": digest}, "insecure": True}
        applied["spec"] |= {
            "path": applied["spec"]["path"].replace("hello-mpi", facts["package"]),
            "targetNamespace": _NAMESPACE,
        }
        if key is None:
            del source["spec"]["verify"]
            return [source, applied]
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": source["spec"]["verify"]["secretRef"]["name"], "namespace": _FLUX},
            "stringData": {"prod.pub": (self.folder / key).read_text()},
        }
        return [secret, source, applied]

    def apply(self, objects: list[dict[str, Any]]) -> None:
        """Apply objects."""
        self.kubectl("apply", "--server-side", "--filename=-", text=yaml.safe_dump_all(objects))

    def delete(self, objects: list[dict[str, Any]]) -> None:
        """Delete objects, and wait until they, and what they have applied, are gone."""
        self.kubectl("delete", "--ignore-not-found", "--filename=-", text=yaml.safe_dump_all(objects))
        self.wait(lambda: not self.uid(), "the pod is deleted")

    def conditions(self, kind: str, name: str) -> dict[str, tuple[str, str]]:
        """Return the status and the message of each condition that is of the newest spec of an object."""
        data = json.loads(self.kubectl("get", kind, name, f"--namespace={_FLUX}", "--output=json"))
        current = data["metadata"]["generation"]
        listed = data.get("status", {}).get("conditions", [])
        return {
            condition["type"]: (condition["status"], condition.get("message", ""))
            for condition in listed
            if condition.get("observedGeneration") == current
        }

    def condition(self, kind: str, name: str, condition: str, status: str) -> str:
        """Wait for the status of a condition, and return its message. Raises CheckError after some time."""
        found = self.wait(
            lambda: self.conditions(kind, name).get(condition, ("", ""))[0] == status,
            f"{name} is {condition}={status}",
            lambda: str(self.conditions(kind, name)),
        )
        assert found
        return self.conditions(kind, name)[condition][1]

    def uid(self) -> str:
        """Return the uid of the pod; empty without one."""
        return self.kubectl(
            "get", "pod", _POD, f"--namespace={_NAMESPACE}", "--ignore-not-found", "--output=jsonpath={.metadata.uid}"
        )

    def phase(self) -> str:
        """Return the phase of the pod; empty without one."""
        return self.kubectl(
            "get", "pod", _POD, f"--namespace={_NAMESPACE}", "--ignore-not-found", "--output=jsonpath={.status.phase}"
        )

    def revision(self, name: str) -> str:
        """Return the revision that a Kustomization has applied."""
        path = "--output=jsonpath={.status.lastAppliedRevision}"
        return self.kubectl("get", _APPLIED, name, f"--namespace={_FLUX}", path)

    def reconcile(self, kind: str, name: str) -> None:
        """Ask Flux to look at an object now, and wait until it has."""
        token = secrets.token_hex(8)
        self.kubectl(
            "annotate", "--overwrite", kind, name, f"--namespace={_FLUX}", f"reconcile.fluxcd.io/requestedAt={token}"
        )
        path = "--output=jsonpath={.status.lastHandledReconcileAt}"
        self.wait(
            lambda: self.kubectl("get", kind, name, f"--namespace={_FLUX}", path) == token, f"{name} is reconciled"
        )

    def wait(self, is_so: Callable[[], bool], what: str, state: Callable[[], str] = str) -> bool:
        """Wait until something is so. Raises CheckError after some time."""
        deadline = time.monotonic() + _PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                raise CheckError(f"not within {_PATIENCE:g} s: {what} {state()}")
            time.sleep(0.5)
        return True

    def run(self, argv: list[str], text: str | None = None) -> str:
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=self._variables,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            raise CheckError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


def signatures(flux: Flux) -> Iterator[str]:
    """Yield a title after each check of the signatures of a source, by which nothing is applied."""
    for title, name, accepted in (
        ("our signature", "prod", True),
        ("a signature by another key", "other", False),
    ):
        repository = f"signed-{secrets.token_hex(4)}"
        reference = flux.push(repository, "1", "--sign-key", f"{name}.key")
        _, source, _ = flux.objects(reference, f"{name}.pub")
        key = (flux.folder / "prod.pub").read_text()
        source["metadata"]["name"] = repository
        source["spec"]["verify"]["secretRef"]["name"] = f"{repository}-key"
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{repository}-key", "namespace": _FLUX},
            "stringData": {"cosign.pub": key},
        }
        flux.apply([secret, source])
        flux.condition(_SOURCE, repository, "SourceVerified", "True" if accepted else "False")
        flux.condition(_SOURCE, repository, "Ready", "True" if accepted else "False")
        flux.kubectl("delete", "--filename=-", text=yaml.safe_dump_all([secret, source]))
        yield f"source-controller {'accepts' if accepted else 'refuses'} {title}"


def references(flux: Flux) -> Iterator[str]:
    """Yield a title after each check of a way to name an artefact."""
    reference = flux.push("named", "1.2.3")
    source, _ = flux.objects(reference)
    digest = source["spec"]["ref"]["digest"]
    for number, ref in enumerate(({"digest": digest}, {"tag": "1.2.3"}, {"semver": "1.x"})):
        source["metadata"]["name"], source["spec"]["ref"] = f"named-{number}", ref
        flux.apply([source])
        flux.condition(_SOURCE, f"named-{number}", "Ready", "True")
        path = "--output=jsonpath={.status.artifact.revision}"
        revision = flux.kubectl("get", _SOURCE, f"named-{number}", f"--namespace={_FLUX}", path)
        if not revision.endswith(digest):
            raise CheckError(f"{ref}: expected {digest}, found {revision}")
        flux.kubectl("delete", "--filename=-", text=yaml.safe_dump_all([source]))
        yield f"source-controller takes the package by {next(iter(ref))}"


def runs(flux: Flux) -> Iterator[str]:
    """Yield a title after each check of a Pod that kustomize-controller runs."""
    reference = flux.push("hello", "1.0.0", "--sign-key", "prod.key")
    objects = flux.objects(reference, "prod.pub")
    _, source, applied = objects
    name = applied["metadata"]["name"]
    flux.apply(objects)
    flux.condition(_SOURCE, name, "SourceVerified", "True")
    flux.condition(_APPLIED, name, "Ready", "True")
    flux.wait(lambda: flux.phase() == "Succeeded", "the pod has succeeded", flux.phase)
    yield "the objects of the document verify the signature, apply the overlay, and the pod succeeds"

    first = flux.uid()
    flux.reconcile(_APPLIED, name)
    if flux.uid() != first:
        raise CheckError("the finished pod was replaced")
    yield "a pod that has ended is kept at the next reconciliation"

    flux.kubectl("delete", "pod", _POD, f"--namespace={_NAMESPACE}")
    flux.reconcile(_APPLIED, name)
    flux.wait(lambda: flux.phase() == "Succeeded" and flux.uid() != first, "the pod runs again")
    yield "a pod that is deleted runs again"

    second = flux.uid()
    source["spec"]["ref"] = {"semver": "1.x"}
    flux.apply(objects)
    flux.condition(_APPLIED, name, "Ready", "True")
    flux.mlpack("configure", "hello-mpi.tar.gz", "--overlay", "single-node", "--set", "MEMORY_LIMIT=160Mi")
    flux.push("hello", "1.1.0", "--sign-key", "prod.key", package="hello-mpi.configured.tar.gz")
    flux.reconcile(_SOURCE, name)
    flux.wait(lambda: flux.revision(name).startswith("1.1.0"), "the change is applied", lambda: flux.revision(name))
    flux.wait(lambda: flux.phase() == "Succeeded" and flux.uid() != second, "the pod runs again", flux.phase)
    yield "a change with the option gitops runs the pod again"

    flux.delete(objects)
    yield "the pod is deleted with the Kustomization"


def long_training(flux: Flux) -> Iterator[str]:
    """Yield a title after the check that a training is healthy before its end, and that a sync leaves it running."""
    objects = flux.objects(flux.push("long", "1.0.0", package="long-fp32-training.tar.gz"))
    name = objects[-1]["metadata"]["name"]
    state = (
        *("get", "pod", "long-fp32-training-single-node", f"--namespace={_NAMESPACE}"),
        *("--ignore-not-found", "--output=jsonpath={.metadata.uid} {.status.phase}"),
    )
    flux.apply(objects)
    flux.condition(_APPLIED, name, "Ready", "True")
    flux.wait(lambda: flux.kubectl(*state).endswith(" Running"), "the training runs")
    before = flux.kubectl(*state)
    flux.reconcile(_SOURCE, name)
    flux.reconcile(_APPLIED, name)
    flux.condition(_APPLIED, name, "Ready", "True")
    if flux.kubectl(*state) != before:
        raise CheckError("the training was started again")
    yield "a training that has not ended is Ready, and a reconciliation leaves it running"
    flux.delete(objects)


class _Git(BaseHTTPRequestHandler):
    """Answers as `git http-backend` does, for the repositories below a folder."""

    folder: Path

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        variables = {"GIT_PROJECT_ROOT": str(self.folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH": os.environ["PATH"]}
        variables |= {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command}
        names = {"CONTENT_TYPE": "Content-Type", "HTTP_CONTENT_ENCODING": "Content-Encoding"}
        variables |= {name: self.headers.get(header, "") for name, header in names.items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        variables |= {"CONTENT_LENGTH": str(len(body)), "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        answer = subprocess.run(["git", "http-backend"], env=variables, input=body, stdout=subprocess.PIPE, check=True)
        head, _, content = answer.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the name is given

    def log_message(self, *_arguments: object) -> None:
        return


def own_overlay(flux: Flux) -> Iterator[str]:
    """Yield a title after each check of an overlay outside of its package, in a Git repository with both."""
    team = flux.folder / "git/team"
    git = ("git", "-C", str(team), "-c", "user.name=Team", "-c", "user.email=team@example.com")
    flux.run(["git", "init", "--quiet", "--initial-branch=main", str(team)])
    handler = type("Handler", (_Git,), {"folder": flux.folder / "git"})
    _, applied = flux.objects(flux.push("own", "1.0.0"))
    name, archive = applied["metadata"]["name"], flux.folder / "own/hello-mpi.tar.gz"
    applied["spec"] |= {"path": "./mine/single-node", "sourceRef": {"kind": "GitRepository", "name": name}}
    with answering(handler) as port:
        spec = {"url": f"http://127.0.0.1:{port}/team/.git", "interval": "1h", "ref": {"branch": "main"}}
        source = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "spec": spec}
        source["metadata"] = {"name": name, "namespace": _FLUX}
        uids = {""}
        for number in range(3):
            added = [f"--add=environment.ADDED_{build}={build}" for build in range(number)]
            flux.mlpack("build", "hello-mpi", "--with", "gitops", "--destination", "own", "--force", *added)
            shutil.rmtree(team / "vendor", ignore_errors=True)
            (team / "vendor").mkdir()
            flux.run(["tar", "-xf", str(archive), "-C", str(team / "vendor")])
            flux.mlpack("overlay", str(team / "vendor/hello-mpi"), "--to", str(team / "mine"), "--overlay=single-node")
            if not number:
                flux.mlpack("configure", str(team / "mine/single-node"), "--set", "MEMORY_LIMIT=160Mi")
            flux.run([*git, "add", "--all"])
            flux.run([*git, "commit", "--quiet", f"--message=Build {number}"])
            if number:  # what has ended does not run again for a new value of mlops.env alone
                flux.kubectl("delete", "pod", _POD, f"--namespace={_NAMESPACE}")
            flux.apply([source, applied])
            flux.reconcile("gitrepository", name)
            commit = flux.run([*git, "rev-parse", "HEAD"]).strip()
            while commit not in flux.revision(name):
                flux.reconcile(_APPLIED, name)
            flux.wait(lambda: flux.uid() not in uids and flux.phase() == "Succeeded", "the pod runs", flux.phase)
            uids.add(flux.uid())
            pod = flux.kubectl("get", "pod", _POD, f"--namespace={_NAMESPACE}", "--output=json")
            settings = flux.kubectl("get", "configmap", f"--namespace={_NAMESPACE}", "--output=yaml")
            if '"160Mi"' not in pod or any(f"ADDED_{build}" not in settings for build in range(number)):
                raise CheckError(f"build {number}: the own value or a new one is not in the cluster")
            yield f"an overlay outside of the package runs with build {number} of it"
        flux.delete([source, applied])


@contextmanager
def controllers(folder: Path, kubeconfig: Path) -> Iterator[None]:
    """Run both controllers on this machine, with the rights of the cluster's administrator."""
    storage, port = folder / "storage", free_port()
    storage.mkdir()
    address = f"127.0.0.1:{port}"
    common = ("--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--log-level=error")
    files = ("--storage-path", str(storage), "--storage-addr", address, "--storage-adv-addr", address)
    variables = {
        "KUBECONFIG": str(kubeconfig),
        "RUNTIME_NAMESPACE": _FLUX,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PATH": os.environ["PATH"],
    }
    with ExitStack() as stack:
        for name, options in (("source-controller", files), ("kustomize-controller", ())):
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            argv = [str(builds.GITOPS.entry / name), *common, *options]
            process = stack.enter_context(subprocess.Popen(argv, env=variables, stdout=log, stderr=log, cwd=folder))
            stack.callback(process.terminate)
        yield


@contextmanager
def installed(flux: Flux) -> Iterator[None]:
    """Install Flux's CRDs and two namespaces, and remove them at the end."""
    crds = [yaml.safe_load(path.read_text()) for path in sorted(builds.GITOPS.entry.glob("*.yaml"))]
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (_FLUX, _NAMESPACE)]
    text = yaml.safe_dump_all([*crds, *namespaces])
    flux.kubectl("apply", "--server-side", "--filename=-", text=text)
    flux.wait(lambda: "ocirepositories" in flux.kubectl("api-resources", "--output=name"), "the CRDs are served")
    try:
        yield
    finally:
        # Without the controllers nothing else removes the finalizers of objects that a failed check has left.
        for kind in (_APPLIED, _SOURCE):
            for name in flux.kubectl("get", kind, f"--namespace={_FLUX}", "--output=name").split():
                patch = ("--type=merge", '--patch={"metadata":{"finalizers":null}}')
                flux.kubectl("patch", name, f"--namespace={_FLUX}", *patch)
        flux.kubectl("delete", "--wait=false", "--ignore-not-found", "--filename=-", text=text)


def main() -> int:
    """Make all checks, and return the exit code."""
    builds.build_all((builds.GITOPS,))
    kubeconfig = lifecycle.up()
    lifecycle.build_image(_MODELS / "hello-mpi", _IMAGE)
    failed = 0
    with tempfile.TemporaryDirectory() as name, serving(DEBIAN, ANONYMOUS, Path(name)) as (host, _):
        flux = Flux(Path(name), host, kubeconfig)
        flux.mlpack("build", "hello-mpi", "--with", "gitops")
        flux.mlpack("init", "long")
        (flux.folder / "long/train.sh").write_text("#!/bin/sh\nsleep 7200\n", encoding="utf-8")
        image = ("--set", "image.name=mpioperator/mpi-pi", "--set", "image.tag=openmpi")
        flux.mlpack("build", "./long", "--with", "gitops", "--registry", "docker.io", *image)
        for key in ("prod", "other"):
            flux.mlpack("key", "new", key)
        with installed(flux), controllers(Path(name), kubeconfig):
            for checks in (references, signatures, runs, long_training, own_overlay):
                try:
                    for title in checks(flux):
                        print(f"ok   {title}", flush=True)
                except (CheckError, subprocess.TimeoutExpired) as error:
                    print(f"FAIL {checks.__name__}: {error}", flush=True)
                    failed += 1
            if failed:
                for log in Path(name).glob("*.log"):
                    print(log.name, log.read_text(errors="replace")[-3000:], sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
