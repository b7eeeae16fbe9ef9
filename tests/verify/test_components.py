"""Components that a site adds to a package: they may place pods, and grant no more rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.files import replace
from tests.verify.test_edits import LIST, _listed_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

COMPONENT = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n"


def _add_component(package: Path, *operations: str) -> Path:
    """Add a component of the site to the overlay of a Pod, as `configure --with DIR` does; return its file."""
    file = package / "quickstart/site/ours/kustomization.yaml"
    file.parent.mkdir(parents=True)
    lines = "".join(f"      - {operation}\n" for operation in operations)
    file.write_text(f"{COMPONENT}  - target: {{kind: Pod}}\n    patch: |-\n{lines}", encoding="utf-8")
    replace(package / LIST, "components:\n", "components:\n  - ../../../site/ours\n")
    return file


def test_component_of_site_may_place_pods(mlpack: Run, package: Path, kubectl: Path) -> None:
    term = "{matchExpressions: [{key: zone, operator: Exists}]}"
    required = f"{{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}"
    file = _add_component(
        package,
        "{op: add, path: /spec/nodeSelector, value: {pool: train}}",
        "{op: add, path: /spec/tolerations, value: [{key: train, operator: Exists}]}",
        f"{{op: add, path: /spec/affinity, value: {{nodeAffinity: {required}}}}}",
    )
    done = mlpack("verify", "-v", package, "--kubectl", kubectl)
    assert done.code == 0, done.stdout
    assert f"{file}:2: 'kind: Component' is new\n" in done.stderr
    assert "'- ../../../site/ours' is new\n" in done.stderr
    assert f"hello-mpi {_listed_digest(package)} as received, with the edits above\n" in done.stderr


REFUSED = {
    "{op: add, path: /spec/tolerations, value: [{key: node-role.kubernetes.io/control-plane}]}": (
        "expected a taint that is not the control plane's"
    ),
    "{op: add, path: /spec/hostNetwork, value: true}": "spec.hostNetwork: ",
    "{op: add, path: /spec/priorityClassName, value: system-node-critical}": "spec.priorityClassName: ",
    "{op: add, path: /spec/serviceAccountName, value: admin}": "spec.serviceAccountName: ",
    "{op: add, path: /metadata/annotations/team, value: x}": "no build makes this annotation",
    "{op: add, path: /spec/volumes/-, value: {name: x, hostPath: {path: /}}}": ".hostPath",
}
"""Operations, and the findings about them."""


def test_component_of_site_grants_nothing_else(mlpack: Run, package: Path, kubectl: Path) -> None:
    _add_component(package, *REFUSED)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    for message in REFUSED.values():
        assert message in done.stdout


def test_files_at_other_places_are_problems(mlpack: Run, package: Path, kubectl: Path) -> None:
    names = ("site/a.yaml", "site/ours/run.sh", "site/ours/b/c.yaml", "x/a.yaml")
    for name in names:
        (package / "quickstart" / name).parent.mkdir(parents=True, exist_ok=True)
        (package / "quickstart" / name).write_text("a: b\n", encoding="utf-8")
    done = mlpack("verify", package, "--kubectl", kubectl)
    lines = {f"{package}/quickstart/{name}: the package was not sealed with this file" for name in names}
    assert (done.code, set(done.stdout.splitlines())) == (5, lines)


def test_large_or_executable_file_of_component_is_a_problem(mlpack: Run, package: Path, kubectl: Path) -> None:
    file = _add_component(package, "{op: add, path: /spec/nodeSelector, value: {pool: train}}")
    file.chmod(0o755)
    assert mlpack("verify", package, "--kubectl", kubectl).code == 5
    file.chmod(0o644)
    (file.parent / "big.yaml").write_bytes(b"#" * ((64 << 10) + 1))
    assert mlpack("verify", package, "--kubectl", kubectl).code == 5


OTHER_OBJECT = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: x}\n"


def test_files_that_no_overlay_reads_are_problems(mlpack: Run, package: Path, kubectl: Path) -> None:
    """A user could apply them with kubectl, and no check would have seen their objects."""
    folder = package / "quickstart/site/other"
    folder.mkdir(parents=True)
    (folder / "evil.yaml").write_text(OTHER_OBJECT, encoding="utf-8")
    (folder / "kustomization.yaml").write_text("resources: [evil.yaml]\n", encoding="utf-8")
    done = mlpack("verify", package, "--kubectl", kubectl)
    message = "no overlay reads this file, so it is not one of a component"
    hint = "delete it, or list its folder under `components`"
    lines = [f"{folder / name}: {message} ({hint})" for name in ("evil.yaml", "kustomization.yaml")]
    assert (done.code, done.stdout.splitlines()) == (5, lines)


def test_placement_without_effect_is_a_problem(mlpack: Run, package: Path, kubectl: Path) -> None:
    file = _add_component(
        package,
        "{op: add, path: /spec/nodeSelector, value: {pool: train}}",
        "{op: add, path: /spec/tolerations, value: [{key: own, operator: Exists}]}",
    )
    settings = ("--with", "placement", "--set", "TOLERATIONS=site", "--overlay", "single-node")
    assert mlpack("configure", package, *settings).code == 0
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert done.stdout.count("replaces") == 2
    for line, field in ((6, "nodeSelector"), (7, "tolerations")):
        message = f"the option placement, or another patch, replaces {field} of the pods, so this has no effect"
        assert f"{file}:{line}:" in done.stdout
        assert message in done.stdout
    text = (package / LIST).read_text(encoding="utf-8").replace("  - ../../../site/ours\n", "")
    (package / LIST).write_text(
        text.replace("mlops/placement", "mlops/placement\n  - ../../../site/ours\n  #", 1), encoding="utf-8"
    )
    done = mlpack("verify", package, "--kubectl", kubectl)
    site = package / "quickstart/common/mpi/k8s/mlops/placement/placement.yaml"
    message = "a component or a patch replaces tolerations of the pods, so this has no effect"
    assert (done.code, done.stdout.count("replaces")) == (5, 1), done.stdout
    assert f"{site}:14:9: {message}" in done.stdout
