"""Checks and writes the versions in the go.mod files below `go/`."""

import json
from pathlib import Path

from tests.testbed import versions
from tests.testbed.errors import ToolError
from tests.testbed.places import SOURCES
from tests.testbed.process import run
from tests.testbed.progress import step

_REQUIRED = {
    "operators": {
        "github.com/kubeflow/mpi-operator": versions.MPI_OPERATOR,
        "sigs.k8s.io/jobset": versions.JOBSET,
        "sigs.k8s.io/lws": versions.LWS,
    },
    "cosign": {
        "github.com/sigstore/cosign/v3": versions.COSIGN,
    },
    "containerd": {
        "github.com/containerd/containerd/v2": versions.CONTAINERD,
    },
    "registries": {
        "github.com/distribution/distribution/v3": versions.DISTRIBUTION,
        "github.com/google/go-containerregistry": versions.GO_CONTAINERREGISTRY,
    },
    "gitops": {
        "github.com/fluxcd/source-controller": versions.FLUX,
        "github.com/fluxcd/kustomize-controller": versions.FLUX,
    },
    "scheduling": {
        "k8s.io/kubernetes": versions.ITS_KUBERNETES,
        "sigs.k8s.io/scheduler-plugins": versions.SCHEDULER_PLUGINS,
    },
    "volcano": {
        "k8s.io/kubernetes": versions.ITS_KUBERNETES,
        "volcano.sh/apis": versions.VOLCANO_APIS,
        "volcano.sh/volcano": versions.VOLCANO,
    },
    "kubernetes": {
        "k8s.io/kubernetes": versions.KUBERNETES,
        "github.com/coredns/coredns": versions.COREDNS,
        "sigs.k8s.io/kueue": versions.KUEUE,
    },
}

_RESOLVE = {
    "gitops": ("list", "-deps", "tool"),
    "scheduling": ("list", "-deps", "tool"),
    "volcano": ("list", "-deps", "tool"),
}
"""How Go finds the modules that only programs need, where tests need modules that are not to be had."""

_INSTEAD = {("k8s.io/csi-translation-lib", "0.34.7"): "0.34.5"}
"""Releases of staging modules that can be had as modules, for those that cannot."""


def check() -> None:
    """Raise ToolError if a go.mod requires a version that differs from `versions`."""
    for name, modules in _REQUIRED.items():
        lines = [line.strip() for line in (SOURCES / "go" / name / "go.mod").read_text().splitlines()]
        for module, version in modules.items():
            required = f"{module} v{version}"
            if not any(line.removeprefix("require ").startswith(required) for line in lines):
                raise ToolError(f"go/{name}/go.mod does not require {required}: run `python -m tests.testbed pin`")


def write(go: Path) -> None:
    """Write the versions into the go.mod files, and let Go resolve the other requirements."""
    for name, modules in _REQUIRED.items():
        env = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
        folder = SOURCES / "go" / name
        with step(f"go/{name}: go.mod, go.sum"):
            for module, version in modules.items():
                run([go, "mod", "edit", f"-require={module}@v{version}"], cwd=folder, env=env)
            if "k8s.io/kubernetes" in modules:
                _replace_staging(go, folder, modules["k8s.io/kubernetes"])
            command, *arguments = _RESOLVE.get(name, ("mod", "tidy"))
            run([go, command, *arguments], cwd=folder, env=env)


def _replace_staging(go: Path, folder: Path, version: str) -> None:
    """Replace the staging modules of Kubernetes by their published versions.

    The go.mod of Kubernetes takes them from its source tree, at version v0.0.0, which modules that require Kubernetes
    cannot do. Kubernetes v1.34.4 is published with the modules v0.34.4.
    """
    download = run([go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"], cwd=folder)
    upstream = json.loads(run([go, "mod", "edit", "-json", json.loads(download)["GoMod"]], cwd=folder))
    published = version.replace("1.", "0.", 1)
    for staged in upstream["Replace"]:
        module = staged["Old"]["Path"]
        release = _INSTEAD.get((module, published), published)
        run([go, "mod", "edit", f"-replace={module}={module}@v{release}"], cwd=folder)
