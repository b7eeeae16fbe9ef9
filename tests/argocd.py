"""Checks that Argo CD's repo-server takes packages from a registry, and renders their overlays as kubectl does.

python -m tests.argocd

builds the repo-server with kustomize, and the client of registries of a newer one, from their Go
modules, which takes some minutes and is cached, starts each and Debian's registry, and prints a line for each check. It
needs no cluster. What the repo-server is asked for is what the Application of docs/gitops.md names.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests import kubectls
from tests.publish.real_registry import ANONYMOUS, DEBIAN, free_port, serving
from tests.testbed import builds, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_TRACKING = "argocd.argoproj.io/tracking-id"
_MODELS = (("hello-mpi",), ("resnet50", "--precision", "fp32", "--mode", "training"))
_FLUX = "application/vnd.cncf.flux.content.v1.tar+gzip"


class Argo:
    """Runs mlpack and the repo-server's client in a folder, and counts checks that fail.

    Attributes:
        failed: The number of failed checks.
    """

    def __init__(self, folder: Path, host: str) -> None:
        self.failed = 0
        self._folder, self._host = folder, host
        self._program, self._server, self._version = Path(), "", ""
        self._variables = os.environ | {"KUBECTL": str(kubectls.kubectl()), "HOME": str(folder)}

    def push(self) -> None:
        """Push the packages that the checks are about, and pull them."""
        for model, *variant in _MODELS:
            self._mlpack("build", model, *variant)
            reference = f"oci://{self._host}/team/{model}"
            self._mlpack("push", self._archive(model).name, f"{reference}:1.0.0")
            self._mlpack("pull", f"{reference}:1.0.0", "--extract", "-d", "pulled")

    def run(self, version: str, program: Path, server: str) -> None:
        """Make all checks with a repo-server at an address, by the client of the same release."""
        self._version, self._program, self._server = version, program, server
        for model, *_variant in _MODELS:
            archive, reference = self._archive(model), f"oci://{self._host}/team/{model}"
            facts = json.loads(self._mlpack("inspect", f"{reference}:1.0.0", "-o", "json"))
            url, _, digest = facts["reference"].partition("@")
            for overlay in facts["overlays"]:
                source = {"repoURL": url, "path": f"{facts['package']}/quickstart/k8s/mlops/{overlay}"}
                for revision in (digest, "1.0.0", "^1.0"):
                    self._alike(f"{model}, {overlay} at {revision[:16]}", overlay, archive, source | {"x": revision})
        self._refused("Flux's type of layers", "flux", _typed)
        self._refused("two content layers", "two", _doubled)

    def unpack(self, version: str, program: Path) -> None:
        """Check that the client of registries unpacks each package as `mlpack pull` does."""
        self._version = version
        for model, *_variant in _MODELS:
            name = self._archive(model).name.removesuffix(".tar.gz")
            for revision in ("1.0.0", "^1.0"):
                target = self._folder / f"unpacked-{model}-{len(revision)}"
                repository = f"oci://{self._host}/team/{model}"
                done = self._run(str(program), repository, revision, str(target), check=False)
                is_same = bool(done.stdout) and _files(target / name) == _files(self._folder / "pulled" / name)
                self._report(f"{model} at {revision} is unpacked", is_same, done.stderr)

    def _archive(self, model: str) -> Path:
        (archive,) = self._folder.glob(f"{model}*.tar.gz")
        return archive

    def _alike(self, title: str, overlay: str, archive: Path, source: dict[str, str]) -> None:
        """Check that an overlay renders to the same objects as with kubectl."""
        done = self._manifests(source["repoURL"], source["x"], source["path"])
        folder = f"pulled/{archive.name.removesuffix('.tar.gz')}/quickstart/k8s/mlops/{overlay}"
        expected = yaml.safe_load_all(self._run(str(kubectls.kubectl()), "kustomize", folder).stdout)
        found = [_untracked(json.loads(line)) for line in done.stdout.splitlines()]
        self._report(title, _ordered(found) == _ordered(expected) and bool(found), done.stderr)

    def _refused(self, title: str, tag: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Check that the repo-server refuses another form of artefact, which mlpack does not write."""
        base = f"http://{self._host}/v2/team/hello-mpi/manifests"
        kind = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
        with urllib.request.urlopen(urllib.request.Request(f"{base}/1.0.0", headers=kind)) as answer:  # noqa: S310
            manifest = json.load(answer)
        change(manifest)
        content = json.dumps(manifest).encode()
        put = urllib.request.Request(  # noqa: S310
            f"{base}/{tag}", content, {"Content-Type": kind["Accept"]}, method="PUT"
        )
        urllib.request.urlopen(put).close()  # noqa: S310
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        path = "hello-mpi/quickstart/k8s/mlops/single-node"
        done = self._manifests(f"oci://{self._host}/team/hello-mpi", digest, path)
        self._report(f"{title} is refused", done.returncode != 0 and "layer" in done.stderr, done.stderr)

    def _manifests(self, repository: str, revision: str, path: str) -> subprocess.CompletedProcess[str]:
        return self._run(str(self._program), "manifests", self._server, repository, revision, path, check=False)

    def _mlpack(self, *arguments: str) -> str:
        return self._run(sys.executable, "-m", "packager", *arguments).stdout

    def _report(self, title: str, is_right: bool, details: str) -> None:  # noqa: FBT001
        print(f"{'ok  ' if is_right else 'FAIL'} Argo CD {self._version}: {title}", flush=True)
        if not is_right:
            self.failed += 1
            print(details)

    def _run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            argv, cwd=self._folder, env=self._variables, capture_output=True, text=True, check=False, timeout=120
        )
        if check and done.returncode:
            sys.exit(f"{' '.join(argv)}: {done.stderr}")
        return done


def _typed(manifest: dict[str, Any]) -> None:
    manifest["layers"][0]["mediaType"] = _FLUX


def _doubled(manifest: dict[str, Any]) -> None:
    manifest["layers"] *= 2


def _files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files of a folder, by their paths in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _untracked(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the annotation by which Argo CD finds it again."""
    annotations = item["metadata"].get("annotations", {})
    annotations.pop(_TRACKING, None)
    if not annotations:
        item["metadata"].pop("annotations", None)
    return item


def _ordered(objects: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True, default=str) for item in objects)


@contextmanager
def _repo_server(folder: Path, program: Path) -> Iterator[str]:
    """Yield the address of a running repo-server."""
    folder.mkdir()
    port, metrics = free_port(), free_port()
    programs = program.parent
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "TMPDIR": str(folder)}
    variables |= {"ARGOCD_GPG_ENABLED": "false", "ARGOCD_EXEC_TIMEOUT": "60s"}
    with (folder / "server.log").open("w") as log:
        command = [str(program), "serve", str(port), str(metrics)]
        server = subprocess.Popen(command, env=variables, stdout=log, stderr=log, cwd=folder)
        try:
            _wait(port, server, folder)
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(10)


def _wait(port: int, server: subprocess.Popen[bytes], folder: Path) -> None:
    for _ in range(600):
        if server.poll() is not None:
            sys.exit(f"the repo-server has ended: {(folder / 'server.log').read_text()}")
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit("the repo-server does not start")


def main() -> int:
    """Build the programs, make the checks, and return 1 when one failed."""
    builds.build_all((builds.ARGOCD, builds.ARGOCD_OCI))
    with tempfile.TemporaryDirectory(prefix="mlpack-argocd-") as name:
        folder = Path(name)
        for part in ("registry", "user"):
            (folder / part).mkdir()
        with serving(DEBIAN, ANONYMOUS, folder / "registry") as (host, _):
            argo = Argo(folder / "user", host)
            argo.push()
            program = builds.ARGOCD.entry / builds.ARGOCD.name
            with _repo_server(folder / builds.ARGOCD.name, program) as server:
                argo.run(versions.ARGO_CD, program, server)
            argo.unpack(versions.ARGO_CD_OCI, builds.ARGOCD_OCI.entry / builds.ARGOCD_OCI.name)
    print("all checks hold" if not argo.failed else f"{argo.failed} checks failed")
    return 1 if argo.failed else 0


if __name__ == "__main__":
    sys.exit(main())
