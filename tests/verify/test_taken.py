"""Notes name the things that an overlay takes from others; and no object of a package has the name of another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import yaml

from packager.package.opened import opened
from packager.verify import security
from packager.verify.taken import notes
from tests import demo, written
from tests.broken import seal
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

SINGLE = "quickstart/k8s/mlops/single-node"
SEALED: Any = SimpleNamespace(edits=SimpleNamespace(paths=()))


def messages(text: str) -> list[str]:
    overlay = written.overlay(text)
    return [str(note).removeprefix("file.yaml:") for note in notes(overlay, (), SEALED, of_edits=True)]


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: other/prod-net}}
spec:
  serviceAccountName: admin
  priorityClassName: high
  imagePullSecrets: [{name: robot}]
  resourceClaims: [{name: a, resourceClaimTemplateName: gpus}, {name: b, resourceClaimName: one}]
  volumes:
    - {name: a, persistentVolumeClaim: {claimName: results}}
    - {name: b, persistentVolumeClaim: {claimName: own}}
    - {name: c, hostPath: {path: /srv}}
    - {name: d, nfs: {server: nfs.example, path: /data}}
    - {name: e, image: {reference: "x:2"}}
    - {name: f, configMap: {name: own}}
    - {name: g, projected: {sources: [{configMap: {name: others}}, {secret: {name: d}}]}}
  initContainers: [{name: first, image: x:1, resources: {limits: {devices.kubevirt.io/kvm: 1}}}]
  containers: [{name: main, image: x:1, resources: {requests: {cpu: 1}, limits: {nvidia.com/mig-1g.5gb: 56}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: own}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: own}
spec: {accessModes: [ReadWriteOnce]}
"""


def test_notes_name_everything_that_pods_take_from_others() -> None:
    assert messages(POD)[0].startswith("5:23: the pods of single-node run as")
    assert [message.partition(": ")[2].removeprefix("the pods of single-node ") for message in messages(POD)] == [
        "run as the service account 'admin' of the namespace, with its token",
        "have the priority class 'high'",
        "images of single-node are pulled with the Secret 'robot' of the namespace",
        "take devices by the resourceClaimName 'one' of the namespace",
        "take devices by the resourceClaimTemplateName 'gpus' of the namespace",
        "mount the claim 'results' of the namespace",
        "mount the claim 'own' of the namespace",
        "mount the folder '/srv' of their nodes",
        "mount the folder 'nfs.example:/data' on NFS",
        "mount the image 'x:2'",
        "read the ConfigMap 'others' of the namespace",
        "take 'devices.kubevirt.io/kvm' of their nodes",
        "take 'nvidia.com/mig-1g.5gb' of their nodes",
        "are attached to the networks 'other/prod-net'",
        "mount the Secret 'd' of the namespace",
    ]


def test_notes_name_each_secret_once_with_its_keys() -> None:
    keys = ", ".join(f"{{name: {key}, valueFrom: {{secretKeyRef: {{name: c, key: {key}}}}}}}" for key in "xy")
    container = f"envFrom: [{{secretRef: {{name: a}}}}, {{secretRef: {{name: [b]}}}}], env: [{keys}]"
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: [{{name: main, {container}}}]\n"
    assert [message.partition(": ")[2] for message in messages(text)] == [
        "the pods of single-node read all keys from the Secret 'a' of the namespace",
        "the pods of single-node read all keys from the Secret \"['b']\" of the namespace",
        "the pods of single-node read x, y from the Secret 'c' of the namespace",
    ]


def test_note_names_service_that_is_open_to_the_outside() -> None:
    for kind in ["NodePort", "LoadBalancer"]:
        text = f"apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec: {{type: {kind}}}\n"
        assert messages(text) == [f"4:14: single-node takes requests from outside of the cluster, by a {kind}"]
        assert messages(text.replace(kind, "ClusterIP")) == []


def test_notes_name_queues_and_their_classes() -> None:
    text = """\
apiVersion: batch/v1
kind: Job
metadata:
  labels: {kueue.x-k8s.io/queue-name: others, kueue.x-k8s.io/priority-class: high, kai.scheduler/queue: prod}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 1, queue: prod}
"""
    assert [message.partition(": ")[2] for message in messages(text)] == [
        "single-node waits in the queue 'others' of the namespace",
        "single-node waits in the queue 'prod' of KAI",
        "single-node has the priority class 'high' of Kueue",
        "single-node waits in the queue 'prod' of Volcano",
    ]


def test_note_names_the_level_of_pods() -> None:
    overlay = written.overlay("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {hostNetwork: true}\n")
    [note] = notes(overlay, security.exceeded(overlay), SEALED, of_edits=True)
    assert str(note) == "file.yaml:4:21: the pods of single-node need Pod Security privileged"


def test_note_names_image_that_mlops_env_does_not_name(package: Path, kubectl: Path, mlpack: Mlpack) -> None:
    """A sealed package whose replacements leave the image alone, and that has a second container."""
    overlay = package / SINGLE
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


def test_verify_lists_fetched_files_of_each_overlay(mlpack: Mlpack, tmp_path: Path) -> None:
    digest = "0a" * 32
    source = f'sources:\n  - {{from: "https://example.com/a", to: OUTPUT_DIR/data/a, sha256: {digest}, size: 3}}\n'
    model = demo.write(tmp_path / "model", demo.SPEC + source)
    assert mlpack("build", model, "--format", "dir").code == 0
    done = mlpack("verify", "demo-fp32-training")
    assert done.code == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "fetch" in line]
    assert len(lines) == 2
    for line, folder in zip(lines, ("multi-node", "single-node"), strict=True):
        assert folder in line
        assert f"its pods fetch https://example.com/a to $(OUTPUT_DIR)/data/a: 3 bytes, sha256 {digest}" in line
    readme = (tmp_path / "demo-fp32-training/README.md").read_text(encoding="utf-8")
    assert "- <https://example.com/a> to `OUTPUT_DIR/data/a`: 3 bytes\n" in readme


OTHERS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: team-settings}
data: {A: b}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: team-data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: frontend}
---
apiVersion: v1
kind: Service
metadata: {name: frontend}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: frontend}
---
apiVersion: v1
kind: Service
metadata: {name: hello-mpi2}
"""


def test_package_cannot_take_the_names_of_other_objects(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    """`kubectl apply` would overwrite another team's objects, pods would read them, `kubectl delete` delete them."""
    pod = package / SINGLE / "pod.yaml"
    replace(package / SINGLE / "kustomization.yaml", "nameSuffix: -single-node\n", "")
    replace(package / SINGLE / "kustomization.yaml", "  - pod.yaml\n", "  - pod.yaml\n  - others.yaml\n")
    (package / SINGLE / "others.yaml").write_text(OTHERS)
    old = "configMap:\n        name: hello-mpi-scripts\n        defaultMode: 365"
    replace(
        pod, old, f"projected: {{sources: [{{configMap: {{name: team-settings}}}}]}}\n    - name: more\n      {old}"
    )
    replace(pod, "  volumes:\n", "  volumes:\n    - {name: data, persistentVolumeClaim: {claimName: team-data}}\n")
    with opened(package) as changed:
        seal(changed)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    frontends = (f"{kind} frontend" for kind in ("Deployment", "Service", "PodDisruptionBudget"))
    others = ("ConfigMap team-settings", "PersistentVolumeClaim team-data", "Service hello-mpi2", *frontends)
    for other in others:
        name = other.partition(" ")[2]
        message = f"{other}: metadata.name: {name!r} may be an object of others: expected 'hello-mpi'"
        assert message in done.stdout
        assert f"and a dash (--allow name:{name} permits it)\n" in done.stdout
    assert "the pods of single-node mount the claim 'team-data' of the namespace\n" in done.stderr
    (package / SINGLE / "others.yaml").write_text(OTHERS.partition("---")[0])
    with opened(package) as changed:
        seal(changed)
    refused = mlpack("deploy", package, "--overlay", "single-node", "--kubectl", kubectl)
    assert (refused.code, "'team-settings' may be an object of others" in refused.stderr) == (5, True)
    words = [
        word for name in ("team-settings", "team", "frontend", "hello-mpi2") for word in ("--allow", f"name:{name}")
    ]
    assert "may be an object of others" not in mlpack("verify", package, "--kubectl", kubectl, *words).stdout
