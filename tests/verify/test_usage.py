"""Claims, passwords, queues, devices, classes and addresses that a package names are printed, even if sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from packager.package.opened import opened
from packager.verify import MOST_NOTES
from packager.verify.usage import notes
from tests import written
from tests.broken import seal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  priorityClassName: high
  volumes:
    - {name: a, persistentVolumeClaim: {claimName: results}}
    - {name: b, persistentVolumeClaim: {claimName: own}}
  containers: [{name: main, image: x:1}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: own}
spec: {accessModes: [ReadWriteOnce]}
"""


def messages(text: str) -> list[str]:
    return [str(note).removeprefix("file.yaml:") for note in notes(written.overlay(text))]


def test_notes_name_claims_of_the_namespace_and_priority_class() -> None:
    assert messages(POD) == [
        "7:52: the pods of single-node mount the claim 'results' of the namespace",
        "5:22: the pods of single-node have the priority class 'high'",
    ]


def test_note_names_service_that_is_open_to_the_outside() -> None:
    for kind in ["NodePort", "LoadBalancer"]:
        text = f"apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec: {{type: {kind}}}\n"
        assert messages(text) == [f"4:14: single-node takes requests from outside of the cluster, by a {kind}"]
        assert messages(text.replace(kind, "ClusterIP")) == []


def test_note_names_ingress_host_once() -> None:
    text = (
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\n"
        "spec: {rules: [{host: bank.example}, {host: bank.example}]}\n"
    )
    assert messages(text) == ["4:23: single-node takes requests to the host 'bank.example' from outside of the cluster"]


def test_notes_name_pull_secret_queue_and_devices() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {kueue.x-k8s.io/queue-name: others}}
spec:
  imagePullSecrets: [{name: robot}]
  initContainers: [{name: first, image: x:1, resources: {limits: {devices.kubevirt.io/kvm: 1}}}]
  containers: [{name: main, image: x:1, resources: {requests: {cpu: 1}, limits: {nvidia.com/mig-1g.5gb: 56}}}]
"""
    assert messages(text) == [
        "5:29: images of single-node are pulled with the Secret 'robot' of the namespace",
        "6:92: the pods of single-node take 'devices.kubevirt.io/kvm' of their nodes",
        "7:105: the pods of single-node take 'nvidia.com/mig-1g.5gb' of their nodes",
        "3:57: single-node waits in the queue 'others' of the namespace",
    ]


def test_notes_name_networks_claims_of_devices_and_classes_of_queues() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: {kueue.x-k8s.io/priority-class: high, kai.scheduler/queue: prod}
  annotations: {k8s.v1.cni.cncf.io/networks: other/prod-net}
spec:
  resourceClaims: [{name: a, resourceClaimTemplateName: gpus}, {name: b, resourceClaimName: one}]
  containers: [{name: main, image: x:1}]
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 1, queue: prod}
"""
    assert messages(text) == [
        "6:46: the pods of single-node are attached to the networks 'other/prod-net'",
        "8:57: the pods of single-node take devices by the resourceClaimTemplateName 'gpus' of the namespace",
        "8:93: the pods of single-node take devices by the resourceClaimName 'one' of the namespace",
        "5:70: single-node waits in the queue 'prod' of KAI",
        "5:43: single-node has the priority class 'high' of Kueue",
        "14:29: single-node waits in the queue 'prod' of Volcano",
    ]


def test_note_names_image_that_mlops_env_does_not_name(package: Path, kubectl: Path, mlpack: Mlpack) -> None:
    """A sealed package whose replacements leave the image alone, and that has a second container."""
    overlay = package / "quickstart/k8s/mlops/single-node"
    wiring = overlay / "wiring.yaml"
    entries = yaml.safe_load(wiring.read_text())
    own = ("data.REGISTRY", "data.IMAGE")
    wiring.write_text(yaml.safe_dump([entry for entry in entries if entry["source"]["fieldPath"] not in own]))
    pod = overlay / "pod.yaml"
    texts = pod.read_text().split("REGISTRY/IMAGE")
    pod.write_text(f"{texts[0]}docker.io/mpioperator/mpi-pi:openmpi{texts[1]}evil.example/x:1{texts[2]}")
    with opened(package) as changed:
        seal(changed)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    line = 1 + pod.read_text().partition("evil.example")[0].count("\n")
    message = "the pods of single-node run the image 'evil.example/x:1', which mlops.env does not name"
    assert done.stderr == f"note: {pod}:{line}:14: {message}\n"


def with_resources(package: Path, count: int) -> Path:
    """Let the sealed pod take this many resources of devices, and have a priority class; return its file."""
    pod = package / "quickstart/k8s/mlops/single-node/pod.yaml"
    first, second, *rest = pod.read_text().split("        limits:\n")
    taken = [f"          a.example/x{number}: 0\n" for number in range(count)]
    text = "        limits:\n".join((first, "".join((*taken[::2], second)), "".join((*taken[1::2], *rest))))
    pod.write_text(text.replace("\nspec:\n", "\nspec:\n  priorityClassName: high\n", 1))
    with opened(package) as changed:
        seal(changed)
    return pod


@pytest.mark.thorough
def test_more_notes_than_anyone_reads_are_a_problem(package: Path, kubectl: Path, mlpack: Mlpack) -> None:
    with_resources(package, MOST_NOTES)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    message = (
        "1,001 images, objects, files and resources need a note, more than anyone reads (at most 1,000 are allowed)"
    )
    assert f"{package}: {message}\n" in done.stdout + done.stderr
