"""Overlays with several workloads: those that a package was sealed with, and those that an edit adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

OVERLAY = "quickstart/k8s/mlops/single-node"
COMPONENT = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources:\n  - evaluate.yaml\n"
POD = """\
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: main
      image: localhost/evaluate:1
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      resources: {limits: {memory: 64Mi}}
"""
SECOND = f"---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: second\nspec:\n{POD}"
MESSAGE = "Pod second-single-node: kind: an edit adds this workload: the package was sealed with"


@pytest.fixture
def evaluated(mlpack: Mlpack, tmp_path: Path) -> Path:
    """A package whose overlays have a Job beside their own workload, added by a component of the site."""
    folder = tmp_path / "ours/hello-mpi-evaluate"
    folder.mkdir(parents=True)
    (folder / "kustomization.yaml").write_text(COMPONENT)
    template = "".join(f"    {line}\n" for line in f"spec:\n  restartPolicy: Never\n{POD}".splitlines())
    job = f"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hello-mpi-evaluate\nspec:\n  template:\n{template}"
    (folder / "evaluate.yaml").write_text(job)
    done = mlpack("build", "hello-mpi", "--format", "dir", "--with", "./ours/hello-mpi-evaluate")
    assert done.code == 0, done.stderr
    return tmp_path / "hello-mpi"


@pytest.mark.parametrize("name", [pytest.param("evaluated", marks=pytest.mark.thorough), "package"])
def test_workload_added_by_an_edit_is_refused(
    mlpack: Mlpack, request: pytest.FixtureRequest, kubectl: Path, name: str
) -> None:
    package: Path = request.getfixturevalue(name)
    pod = package / OVERLAY / "pod.yaml"
    line = pod.read_text().count("\n") + 3
    pod.write_text(pod.read_text() + SECOND)
    sealed = f"{'Job hello-mpi-evaluate-single-node, ' if name == 'evaluated' else ''}Pod hello-mpi-single-node"
    problem = f"{pod}:{line}:7: {MESSAGE} {sealed} (--allow Pod permits it)"
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert problem in done.stdout.splitlines()
    refused = mlpack("deploy", package, "--overlay", "single-node", "--kubectl", kubectl)
    assert refused.code == 5
    assert problem in refused.stderr
    assert MESSAGE not in mlpack("verify", package, "--kubectl", kubectl, "--allow", "Pod").stdout


@pytest.mark.thorough
def test_renamed_workload_does_not_count_as_added(mlpack: Mlpack, evaluated: Path, kubectl: Path) -> None:
    replace(evaluated / OVERLAY / "kustomization.yaml", "nameSuffix: -single-node", "nameSuffix: -trial")
    done = mlpack("verify", evaluated, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
