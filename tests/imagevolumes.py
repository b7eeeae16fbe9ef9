"""Checks that pods run a package, and see a model, that containerd mounts as image volumes.

python -m tests.imagevolumes

builds containerd from its Go module, which takes some minutes and is cached, starts a cluster of its own with it and
Debian's registry, prints a line for each check, and takes the cluster down.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["MLPACK_IMAGE_VOLUMES"] = "1"  # read when the modules of the cluster are imported

from tests import kubectls
from tests.e2e.registry import ClusterRegistry, serving
from tests.gitops import CheckError
from tests.testbed import lifecycle

_IMAGES = {"hello-mpi": "docker.io/mpioperator/mpi-pi:openmpi"}

_MODELS = Path(__file__).resolve().parents[1] / "model_specs"
_SCRIPT = """\
#!/bin/sh
set -eu
cd "$MODEL_DIR"
test -f manifest.json && test -x quickstart/scripts/hello.sh
test "$(wc -c < quickstart/scripts/large.txt)" = 3000000
if touch "$MODEL_DIR/x" 2>/dev/null; then exit 1; fi
test -f "$WEIGHTS_DIR/hello-mpi/manifest.json"
echo trained > "$OUTPUT_DIR/result"
echo "the package and the model are there"
"""


class Volumes:
    """Runs mlpack and kubectl in a folder, and makes the checks.

    Attributes:
        folder: The folder of packages.
        host: The host of the registry, as this machine and the node see it.
    """

    def __init__(self, folder: Path, registry: ClusterRegistry, kubeconfig: Path) -> None:
        self.folder, self.host = folder, registry.host
        self._variables = os.environ | {"KUBECONFIG": str(kubeconfig), "KUBECTL": str(kubectls.kubectl())}
        self._variables |= {"SSL_CERT_FILE": str(registry.certificate), "no_proxy": "*"}
        self._variables |= {"HOME": str(folder), "PATH": f"{kubectls.kubectl().parent}:{os.environ['PATH']}"}

    def run(self, *argv: str) -> str:
        """Run a program, and return its output. Raises CheckError if it fails."""
        done = subprocess.run(
            argv, cwd=self.folder, env=self._variables, capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode:
            raise CheckError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def mlpack(self, *arguments: str) -> str:
        """Run mlpack, and return its output. Raises CheckError if it fails."""
        return self.run(sys.executable, "-m", "packager", *arguments)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl, and return its output. Raises CheckError if it fails."""
        return self.run(str(kubectls.kubectl()), *arguments)

    def push(self, package: str, name: str) -> str:
        """Push a package without a check, and return the image with its digest."""
        reference = f"oci://{self.host}/team/{name}:1"
        return self.mlpack("push", package, reference, "--no-verify").strip().removeprefix("oci://")

    def check(self) -> None:
        """Make all checks."""
        model, weights = self.folder / "model", self.folder / "hello-mpi"
        shutil.copytree(_MODELS / "hello-mpi", model)
        (model / "hello.sh").write_text(_SCRIPT)
        (model / "large.txt").write_text("x" * 3_000_000)
        self.mlpack("build", "hello-mpi", "--format", "dir")
        weights.rename(self.folder / "weights")
        image = self.push("weights", "weights").partition("@")[0]
        self.mlpack("build", "model/spec.yaml", "--set", "files.1=large.txt", "--with=package-volume", "--with=weights")
        pinned = self.push("hello-mpi.tar.gz", "hello")
        values = (f"PACKAGE_IMAGE={pinned}", f"WEIGHTS_IMAGE={image}:1")
        self.mlpack("configure", "hello-mpi.tar.gz", *(f"--set={value}" for value in values))
        print("ok   the package is pushed, and its digest is set in site.env", flush=True)
        for overlay in ("single-node", "multi-node"):
            logs = self._overlay("hello-mpi", overlay)
            if "the package and the model are there" not in logs:
                raise CheckError(f"the pods do not see the model: {logs}")
            print(f"ok   {overlay} sees its package and the model, read-only", flush=True)

    def _overlay(self, name: str, overlay: str) -> str:
        """Deploy an overlay of a configured package until it has succeeded, and return the log of its main pod."""
        package = (f"{name}.configured.tar.gz", "--overlay", overlay)
        self.mlpack("deploy", *package, "--timeout", "4m")
        logs = self.mlpack("logs", *package)
        names = self.kubectl("get", "configmaps", "--output=name")
        if "scripts" in names:
            raise CheckError(f"a ConfigMap contains the code: {names}")
        print(f"ok   {name}, {overlay}: has succeeded, and no ConfigMap contains the code", flush=True)
        self.mlpack("delete", *package, "--yes")
        return logs


def main() -> int:
    """Make all checks, and return the exit code."""
    try:
        kubeconfig = lifecycle.up()
        for model, image in _IMAGES.items():
            lifecycle.build_image(_MODELS / model, image)
        with tempfile.TemporaryDirectory() as name, serving(Path(name) / "registry") as registry:
            volumes = Volumes(Path(name), registry, kubeconfig)
            try:
                volumes.check()
            except (CheckError, subprocess.TimeoutExpired) as error:
                print(f"FAIL {error}", flush=True)
                for what in ("pods", "events"):
                    print(volumes.run(str(kubectls.kubectl()), "get", what, "--output=wide"))
                return 1
    finally:
        lifecycle.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
