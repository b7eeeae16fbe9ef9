"""Objects that a package may create and use: others are findings on their lines, unless their kind is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.builder.selection import Selection
from packager.modelspec.catalog import bundled
from packager.modelspec.load import load
from packager.modelspec.model import AnyOverlay
from packager.package.opened import opened
from packager.package.options import KEYS, OPTIONS
from packager.package.tree import write
from packager.verify import Checks, allowed_fields, credentials, objects, verify
from tests import kinds, written
from tests.broken import seal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

SINGLE = "quickstart/k8s/mlops/single-node"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  automountServiceAccountToken: false
  containers: [{name: main}]
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def messages(text: str, *allowed: str, namespace: str | None = None) -> list[str]:
    """Return the findings about the manifests `text`, the first of which is at line 1."""
    overlay, kinds = written.overlay(text), frozenset(allowed)
    checks = (
        *objects.check(overlay, kinds, namespace),
        *credentials.check(overlay, kinds),
        *allowed_fields.check(overlay, kinds),
    )
    return [str(problem) for problem in checks]


def test_pod_and_config_map_are_accepted() -> None:
    assert messages(f"{POD}---\n{CONFIG}") == []


@pytest.mark.thorough
def test_made_kinds_are_those_of_a_build_with_all_options(tmp_path: Path, kubectl: Path) -> None:
    loaded = load(bundled() / "hello-mpi" / "spec.yaml", kinds.SETTINGS)
    names = {kind.__name__ for kind in AnyOverlay.__args__}
    assert {overlay.kind for overlay in loaded.spec.overlays.values()} == names
    values = {key.name: key.example for key in KEYS.values()} | {
        "EXPOSE": "Ingress",
        "EXPOSE_HOST": "model.team.example",
    }
    having = [option for option in OPTIONS if not option.places or option.name == "pvc"]
    options = tuple(option.name for option in having if not option.excludes)
    both = (
        Selection(options, values=values | {"GANG": "volcano"}),
        Selection(("gang",), values={"GANG": "coscheduling"}),
    )
    made = set()
    for site, models in zip(both, (loaded, load(bundled() / "hello-mpi" / "spec.yaml")), strict=True):
        folder = tmp_path / site.values["GANG"]
        folder.mkdir()
        write(render(plan(models, models.spec.variants[0], Options(root="/srv", site=site))), folder)
        with opened(folder) as package:
            report = verify(package, Checks(kubectls=(str(kubectl),)))
        assert report.problems == ()
        made |= {(item.api, item.kind) for item in report.objects}
    assert made == objects.MADE


OTHERS = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: b}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
---
apiVersion: evil.io/v1
kind: ConfigMap
metadata: {name: c}
---
apiVersion: v2
kind: ConfigMap
metadata: {name: d}
---
apiVersion: v1
kind: List
items: []
---
apiVersion: v1
kind: ConfigMap
metadata: {name: e, namespace: kube-system}
"""


def test_objects_that_no_build_makes_need_allow_with_their_kind() -> None:
    found = [
        (
            "file.yaml:2:7: ClusterRoleBinding b: kind: no build creates a ClusterRoleBinding "
            "(--allow ClusterRoleBinding.rbac.authorization.k8s.io permits it)"
        ),
        (
            "file.yaml:6:7: PersistentVolume v: kind: no build creates a PersistentVolume (--allow PersistentVolume "
            "permits it)"
        ),
        (
            "file.yaml:10:7: ConfigMap c: kind: no build creates a ConfigMap of evil.io/v1 "
            "(--allow ConfigMap.evil.io permits it)"
        ),
        ("file.yaml:14:7: ConfigMap d: kind: no build creates a ConfigMap of v2 (--allow ConfigMap permits it)"),
        "file.yaml:18:7: List: kind: no build creates a List (--allow List permits it)",
        (
            "file.yaml:23:32: ConfigMap e: metadata.namespace: names the namespace 'kube-system': a package "
            "runs in the namespace that it is applied to (--allow ConfigMap permits it)"
        ),
    ]
    assert messages(f"{OTHERS}---\n{POD}") == messages(f"{OTHERS}---\n{POD}", "Service") == found
    assert (
        messages(
            f"{OTHERS}---\n{POD}", "ClusterRoleBinding", "PersistentVolume", "ConfigMap.evil.io", "ConfigMap", "List"
        )
        == []
    )


def test_status_that_no_build_writes_is_found() -> None:
    assert messages(f"{CONFIG}status: {{}}\n---\n{POD}") == [
        "file.yaml:4:1: ConfigMap c: status: a package must not set this field: the cluster does"
    ]


def test_overlay_without_workload_is_found() -> None:
    assert messages(CONFIG) == ["kustomization.yaml:1:1: the overlay has no workload: nothing would run"]
    assert messages(f"{POD}---\n{POD.replace('name: p', 'name: q')}") == []
    assert messages("apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\n", "Workflow") == []


ACCESS = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  automountServiceAccountToken: true
  serviceAccountName: admin
  volumes:
    - {name: v, secret: {secretName: s}}
    - {name: w, projected: {sources: [{serviceAccountToken: {path: t}}]}}
  containers: [{name: main, envFrom: [{secretRef: {name: s}}]}]
"""


def test_secret_and_service_account_of_the_namespace_need_allow() -> None:
    found = [
        (
            "file.yaml:8:38: Pod p: spec.volumes[0].secret.secretName: reads the Secret 's' of the namespace, "
            "which no build does (--allow Secret permits it)"
        ),
        (
            "file.yaml:10:58: Pod p: spec.containers[0].envFrom[0].secretRef.name: reads the Secret 's' of "
            "the namespace, which no build does (--allow Secret permits it)"
        ),
        (
            "file.yaml:6:23: Pod p: spec.serviceAccountName: runs as the service account 'admin' of the "
            "namespace (--allow ServiceAccount permits it)"
        ),
        (
            "file.yaml:5:33: Pod p: spec.automountServiceAccountToken: a token of the namespace's service "
            "account is mounted, with its rights (set it to false; or --allow ServiceAccount permits it)"
        ),
        (
            "file.yaml:9:61: Pod p: spec.volumes[1].projected.sources[0].serviceAccountToken: a token of the "
            "namespace's service account is mounted, with its rights (--allow ServiceAccount permits it)"
        ),
    ]
    assert messages(ACCESS) == found
    assert messages(ACCESS, "Secret") == [problem for problem in found if "the Secret" not in problem]
    assert messages(ACCESS, "Secret", "ServiceAccount") == []


def _add(package: Path, text: str) -> None:
    (package / SINGLE / "more.yaml").write_text(text, encoding="utf-8")
    path = package / SINGLE / "kustomization.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("  - pod.yaml\n", "  - pod.yaml\n  - more.yaml\n", 1))
    with opened(package) as whole:
        seal(whole)


def test_level_is_unknown_for_workload_of_another_kind(
    mlpack: Callable[..., Outcome], package: Path, kubectl: Path
) -> None:
    _add(package, "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: hello-mpi-w}\nspec: {}\n")
    words = ("verify", package, "--kubectl", kubectl, "--allow", "Workflow.argoproj.io")
    assert mlpack(*words, "-o", "json").json["security"][1]["level"] is None
    done = mlpack(*words, "-v", "--pod-security", "restricted")
    assert (done.code, done.stdout) == (6, "")
    assert (
        "not checked: single-node: the Pod Security level of Workflow hello-mpi-w-single-node is unknown\n"
        in done.stderr
    )
    assert "\nsingle-node: Pod Security unknown\n" in done.stderr
