"""Objects that a package may create and use: others are findings on their lines, unless their kind is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.builder.selection import Selection
from packager.modelspec.catalog import bundled
from packager.modelspec.load import load
from packager.package.opened import opened
from packager.package.options import KEYS, OPTIONS
from packager.package.tree import write
from packager.verify import Checks, allowed_fields, credentials, objects, verify
from packager.workloads.anyoverlay import AnyOverlay
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


def test_object_that_no_build_makes_needs_allow_with_its_kind() -> None:
    for text, problem, allow in [
        (
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\n",
            (
                "2:7: ClusterRoleBinding b: kind: a ClusterRoleBinding is cluster-scoped, "
                "and no build creates one (--allow ClusterRoleBinding.rbac.authorization.k8s.io permits it)"
            ),
            "ClusterRoleBinding",
        ),
        (
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\n",
            (
                "2:7: PersistentVolume v: kind: a PersistentVolume is cluster-scoped, "
                "and no build creates one "
                "(--allow PersistentVolume permits it)"
            ),
            "PersistentVolume",
        ),
        (
            "apiVersion: evil.io/v1\nkind: ConfigMap\nmetadata: {name: c}\n",
            (
                "2:7: ConfigMap c: kind: a ConfigMap of evil.io/v1 is not created by any build "
                "(--allow ConfigMap.evil.io permits it)"
            ),
            "ConfigMap.evil.io",
        ),
        (
            "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: c}\n",
            "2:7: ConfigMap c: kind: a ConfigMap of v2 is not created by any build (--allow ConfigMap permits it)",
            "ConfigMap",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: []\n",
            "2:7: List: kind: no build creates a List (--allow List permits it)",
            "List",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: kube-system}\n",
            (
                "3:32: ConfigMap c: metadata.namespace: names the namespace 'kube-system': "
                "a package runs in the namespace that it is applied to (--allow ConfigMap permits it)"
            ),
            "ConfigMap",
        ),
    ]:
        lines = text.splitlines()
        assert messages(f"{text}---\n{POD}") == [f"file.yaml:{problem}"], lines
        assert messages(f"{text}---\n{POD}", allow) == []
        assert messages(f"{text}---\n{POD}", "Service") == [f"file.yaml:{problem}"]


def test_object_may_name_the_namespace_of_the_package() -> None:
    text = f"{CONFIG.replace('name: c', 'name: c, namespace: team')}---\n{POD}"
    assert messages(text, namespace="team") == []
    assert len(messages(text, namespace="other")) == 1


def test_metadata_that_no_build_writes_is_found() -> None:
    for old, new, problem in [
        (
            "name: c",
            "name: c, finalizers: [a/b]",
            "3:21: ConfigMap c: metadata.finalizers: a package must not set this field: the cluster does",
        ),
        (
            "name: c",
            "generateName: c",
            "3:12: ConfigMap: metadata.generateName: a package must not set this field: the cluster does",
        ),
        (
            "name: c",
            "name: c, ownerReferences: []",
            "3:21: ConfigMap c: metadata.ownerReferences: a package must not set this field: the cluster does",
        ),
        (
            "name: c}",
            "name: c}\nstatus: {}",
            "4:1: ConfigMap c: status: a package must not set this field: the cluster does",
        ),
        (
            "name: c",
            "name: kube-root-ca.crt",
            (
                "3:18: ConfigMap kube-root-ca.crt: metadata.name: 'kube-root-ca.crt' is the name of an object that "
                "belongs to the cluster (give it another name)"
            ),
        ),
        (
            "name: c",
            "name: c, annotations: {helm.sh/hook: pre-install}",
            (
                "3:35: ConfigMap c: metadata.annotations.helm.sh/hook: no build makes this annotation "
                "(--allow annotation:helm.sh/hook permits it)"
            ),
        ),
        (
            "name: c",
            "name: c, labels: {argocd.argoproj.io/instance: a}",
            (
                "3:30: ConfigMap c: metadata.labels.argocd.argoproj.io/instance: no build makes this label "
                "(--allow label:argocd.argoproj.io/instance permits it)"
            ),
        ),
    ]:
        assert messages(f"{CONFIG.replace(old, new)}---\n{POD}") == [f"file.yaml:{problem}"]


def test_default_container_annotation_is_accepted() -> None:
    key = "kubectl.kubernetes.io/default-container"
    assert messages(POD.replace("name: p", f"name: p, annotations: {{{key}: main}}")) == []


def test_duplicate_object_is_found() -> None:
    [problem] = messages(f"{POD}---\n{CONFIG}---\n{CONFIG}")
    assert problem.endswith("ConfigMap c: metadata.name: duplicate object ConfigMap c (remove one of them)")


def test_overlay_without_workload_is_found() -> None:
    assert messages(CONFIG) == ["kustomization.yaml:1:1: the overlay has no workload: nothing would run"]
    assert messages(f"{POD}---\n{POD.replace('name: p', 'name: q')}") == []
    assert messages("apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\n", "Workflow") == []


def test_notes_name_secrets_with_their_keys() -> None:
    keys = ", ".join(f"{{name: {key}, valueFrom: {{secretKeyRef: {{name: c, key: {key}}}}}}}" for key in "xy")
    container = f"envFrom: [{{secretRef: {{name: a}}}}, {{secretRef: {{name: [b]}}}}], env: [{keys}]"
    overlay = written.overlay(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: [{{name: main, {container}}}]\n"
        "  volumes: [{name: v, secret: {secretName: d}}]\n"
    )
    notes = [note.message for note in credentials.notes(overlay) if "Secret" in note.message]
    assert sorted(notes) == [
        "the pods of single-node mount the Secret 'd' of the namespace",
        "the pods of single-node read all keys from the Secret \"['b']\" of the namespace",
        "the pods of single-node read all keys from the Secret 'a' of the namespace",
        "the pods of single-node read x, y from the Secret 'c' of the namespace",
    ]
    assert len(list(credentials.check(overlay, frozenset()))) >= 5


def test_secret_and_service_account_of_the_namespace_need_allow() -> None:
    for old, new, problem, allow in [
        (
            "name: main",
            "name: main, envFrom: [{secretRef: {name: s}}]",
            (
                "6:58: Pod p: spec.containers[0].envFrom[0].secretRef.name: reads the Secret 's' of the namespace, "
                "which no build does (--allow Secret permits it)"
            ),
            "Secret",
        ),
        (
            "spec:",
            "spec:\n  volumes: [{name: v, secret: {secretName: s}}]",
            (
                "5:44: Pod p: spec.volumes[0].secret.secretName: reads the Secret 's' of the namespace, "
                "which no build does (--allow Secret permits it)"
            ),
            "Secret",
        ),
        (
            "spec:",
            "spec:\n  serviceAccountName: admin",
            (
                "5:23: Pod p: spec.serviceAccountName: runs as the service account 'admin' of the namespace "
                "(--allow ServiceAccount permits it)"
            ),
            "ServiceAccount",
        ),
        (
            "Token: false",
            "Token: true",
            (
                "5:33: Pod p: spec.automountServiceAccountToken: a token of the namespace's service account "
                "is mounted, with its rights (set it to false; or --allow ServiceAccount permits it)"
            ),
            "ServiceAccount",
        ),
        (
            "spec:",
            "spec:\n  volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]",
            (
                "5:67: Pod p: spec.volumes[0].projected.sources[0].serviceAccountToken: a token of the namespace's "
                "service account is mounted, with its rights (--allow ServiceAccount permits it)"
            ),
            "ServiceAccount",
        ),
    ]:
        text = POD.replace(old, new)
        assert messages(text) == [f"file.yaml:{problem}"]
        assert messages(text, allow) == []


def _add(package: Path, text: str) -> None:
    (package / SINGLE / "more.yaml").write_text(text, encoding="utf-8")
    path = package / SINGLE / "kustomization.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("  - pod.yaml\n", "  - pod.yaml\n  - more.yaml\n", 1))
    with opened(package) as whole:
        seal(whole)


BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
"""


def test_cluster_role_binding_needs_allow(mlpack: Callable[..., Outcome], package: Path, kubectl: Path) -> None:
    text = f"apiVersion: v1\nkind: List\nitems:\n  - {BINDING.replace(chr(10), chr(10) + '    ').strip()}\n"
    _add(package, text)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert "a ClusterRoleBinding is cluster-scoped, and no build creates one (--allow " in done.stdout
    allowed = mlpack("verify", package, "--kubectl", kubectl, "--allow", "ClusterRoleBinding", "-o", "json")
    assert allowed.json["problems"] == []
    assert {"overlay": "single-node", "api": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"} in [
        {key: item[key] for key in ("overlay", "api", "kind")} for item in allowed.json["objects"]
    ]


def test_level_is_unknown_for_workload_of_another_kind(
    mlpack: Callable[..., Outcome], package: Path, kubectl: Path
) -> None:
    _add(package, "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec: {}\n")
    words = ("verify", package, "--kubectl", kubectl, "--allow", "Workflow.argoproj.io")
    assert mlpack(*words, "-o", "json").json["security"][1]["level"] is None
    done = mlpack(*words, "-v", "--pod-security", "restricted")
    assert (done.code, done.stdout) == (6, "")
    assert "not checked: single-node: the Pod Security level of Workflow w-single-node is unknown\n" in done.stderr
    assert "\nsingle-node: Pod Security unknown\n" in done.stderr
