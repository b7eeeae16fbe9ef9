"""`configure` and `verify` agree on the options that are on, in every notation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.kubernetes.kubectl.kustomize import kustomize
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

LIST = "quickstart/k8s/mlops/single-node/kustomization.yaml"
COMMON = "quickstart/common/mpi/k8s/mlops"
NFS = "../../../common/mpi/k8s/mlops/nfs"
LACKING = "nfs needs NFS_SERVER, such as nfs.example.com"


def write_list(package: Path, text: str) -> None:
    """Put `text` into the place of the components that the overlay lists and offers."""
    path = package / LIST
    head, _, rest = path.read_text(encoding="utf-8").partition("components:\n")
    path.write_text(head + text + rest[rest.index("patches:\n") :], encoding="utf-8")


def test_verify_reports_missing_values_of_an_option(mlpack: Run, full_package: Path, kubectl: Path) -> None:
    package = full_package
    write_list(package, f"'components': [{NFS}/../nfs/]\n")
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert (verified.code, LACKING in verified.stdout) == (5, True)


def test_option_included_by_another_component_counts_as_on(mlpack: Run, full_package: Path, kubectl: Path) -> None:
    package = full_package
    write_list(package, "components:\n  - ../../../common/mpi/k8s/mlops/gpu\n")
    replace(package / COMMON / "gpu/kustomization.yaml", "transformers:\n", "components:\n  - ../nfs\ntransformers:\n")
    assert LACKING in mlpack("verify", package, "--kubectl", kubectl).stdout
    before = (package / LIST).read_bytes()
    done = mlpack("configure", package, "--overlay", "single-node", "--without", "nfs")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {package}/{LIST} does not list nfs any more, but it is still on\n"
        f"hint: leave it out in {package}/{COMMON}/gpu/kustomization.yaml:10\n"
    )
    assert (package / LIST).read_bytes() == before


MULTI = "quickstart/k8s/mlops/multi-node"
SINGLE = "quickstart/k8s/mlops/single-node"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("file", "old", "new", "rendered"),
    [
        (f"{MULTI}/mlops.env", "WORKERS=2", "WORKERS=3", "      replicas: 3"),
        (f"{MULTI}/mlops.env", "MEMORY_LIMIT=256Mi", "MEMORY_LIMIT=1Gi", "memory: 1Gi"),
        (f"{SINGLE}/pod.yaml", "      image: ", "      imagePullPolicy: Never\n      image: ", "PullPolicy: Never"),
        (f"{SINGLE}/kustomization.yaml", "nameSuffix: -single-node", "nameSuffix: -mine", "name: hello-mpi-mine"),
    ],
)
def test_recommended_edits_pass_verify(
    file: str, old: str, new: str, rendered: str, mlpack: Run, package: Path, kubectl: Path
) -> None:
    results = ("--storage", "output-pvc", "--site", "OUTPUT_CLAIM=results")
    assert mlpack("configure", package, "--registry", "r.example", *results).code == 0
    replace(package / file, old, new)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    if "runAs" not in new:
        assert f"  {package}/{file}:" in done.stderr
        assert f": {new.splitlines()[0].strip()!r} " in done.stderr
    overlay = (package / file).parent
    assert rendered in kustomize(overlay, program=str(kubectl)).manifests
