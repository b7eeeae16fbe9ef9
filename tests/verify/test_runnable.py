"""Values with which pods would not start: of resources, users, images, keys, mounts and variables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from packager.kubernetes.containers import folder_complaint
from packager.verify import objects, runnable
from tests import demo, written
from tests.broken import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]


def messages(text: str) -> list[str]:
    return [str(problem).removeprefix("file.yaml:") for problem in runnable.check(written.overlay(text))]


LONG = f"a.b/{'x' * 64}"
WRONG = r"""
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  securityContext: {runAsNonRoot: true, fsGroup: -1}
  containers:
    - name: main
      image: a
      securityContext: {runAsUser: 0}
      resources:
        limits: {nvidia.com/gpu: 0.5, hugepages-2Mi: 4Mi, gpu: 1, cpu: much}
        requests: {amd.com/gpu: 1, memory: "-1"}
    - name: second
      image: a b
      resources:
        limits: {nvidia.com/gpu: 2, hugepages-2Mi: 3Mi, hugepages-big: 3Mi, cpu: 1, LONG: 1}
        requests: {nvidia.com/gpu: 1, cpu: 2}
    - name: third
"""


def test_wrong_amounts_images_and_users_are_found() -> None:
    found = [message.replace("Pod p: ", "") for message in messages(WRONG.lstrip().replace("LONG", LONG))]
    first, second = "spec.containers[0]", "spec.containers[1]"
    assert found == [
        "5:50: spec.securityContext.fsGroup: expected 0 to 2147483647, found -1",
        f"8:14: {first}.image: a has no tag or digest, so a later pull may get a different image (name a tag)",
        f"11:72: {first}.resources.limits.cpu: expected a quantity such as 500m or 4Gi, found 'much'",
        f"12:44: {first}.resources.requests.memory: -1 is negative",
        (
            f"11:34: {first}.resources.limits.nvidia.com/gpu: expected a whole number of nvidia.com/gpu, found 0.5 "
            "(devices are not shared)"
        ),
        (
            f"11:59: {first}.resources.limits.gpu: Kubernetes has no resource 'gpu' (a device has a domain: "
            "nvidia.com/gpu)"
        ),
        (
            f"12:33: {first}.resources.requests.amd.com/gpu: a request for amd.com/gpu needs an equal limit, but there "
            "is none"
        ),
        (
            f"9:36: {first}.securityContext.runAsUser: runs as root, which runAsNonRoot forbids: the container would "
            "never start (choose another user)"
        ),
        f"14:14: {second}.image: invalid image 'a b'",
        (
            f"16:85: {second}.resources.limits.{LONG}: '{LONG}' is not a valid resource name (use at most 63 letters, "
            "digits and '-_.', after a domain and '/' for a device)"
        ),
        (
            f"17:36: {second}.resources.requests.nvidia.com/gpu: requests 1 of nvidia.com/gpu, which must equal its "
            "limit of 2"
        ),
        (
            f"17:44: {second}.resources.requests.cpu: requests 2 of cpu, above its limit of 1 (raise the limit, or "
            "lower the request)"
        ),
        "18:7: spec.containers[2].image: the container has no image",
    ]


MOUNTING = """\
kind: Pod
metadata: {name: p}
spec:
  volumes: [{name: o, emptyDir: {}}, {name: c, configMap: {name: c, optional: true}}]
  containers: [{name: main, image: 'a:1', volumeMounts: [{name: c, mountPath: /c}, {name: o, mountPath: PATH}]}]
"""


def test_invalid_mount_path_is_found() -> None:
    hides = "would hide what the container needs there: use another folder"
    form = "expected an absolute path (or one below ROOT) without ':' and '..', found"
    for path, problem in [
        ("''", f"{form} ''"),
        ("/etc", f"a volume at /etc {hides}"),
        ("//", f"{form} '//'"),
        ("/./usr/", f"a volume at /usr {hides}"),
        ("/proc/self", f"a volume at /proc/self {hides}"),
        ("/a/../etc", f"{form} '/a/../etc'"),
        ("/c/out", "/c/out is in /c, which is mounted from a ConfigMap, and no folder can be created there"),
        ("/c/", "two volumes are mounted at /c/"),
    ]:
        place = "Pod p: spec.containers[0].volumeMounts[1].mountPath"
        assert [found.partition(" ")[2] for found in messages(MOUNTING.replace("PATH", path))] == [
            f"{place}: {problem}"
        ]


def test_valid_mount_path_is_accepted() -> None:
    for path in ["/out", "/dev/shm", "/etc/app", "/tmp", "/opt/data", "ROOT/p/output", "/a..b"]:
        assert messages(MOUNTING.replace("PATH", path)) == []
        assert folder_complaint(path) is None


@pytest.mark.parametrize("path", ["/etc", "/a:b"])
def test_invalid_output_dir_is_refused_by_lint_configure_and_verify(
    path: str, mlpack: Mlpack, tmp_path: Path, kubectl: Path
) -> None:
    complaint = folder_complaint(path)
    spec = demo.write(tmp_path / "demo", demo.changed(f"environment: {{OUTPUT_DIR: {json.dumps(path)}}}"))
    assert mlpack("lint", spec).stdout == f"{spec}:11:27: {complaint}\n"
    package = build(tmp_path / "hello-mpi")
    done = mlpack("configure", package, "--set", f"OUTPUT_DIR={path}")
    assert (done.code, done.stderr) == (2, f"error: --set OUTPUT_DIR: {complaint}\n")
    env = package / "quickstart/k8s/mlops/single-node/mlops.env"
    text = env.read_text(encoding="utf-8").replace("OUTPUT_DIR=ROOT/hello-mpi/output", f"OUTPUT_DIR={path}")
    env.write_text(text, encoding="utf-8")
    line = text.splitlines().index(f"OUTPUT_DIR={path}") + 1
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert verified.code == 5
    assert all(problem.startswith(f"{env}:{line}:1: ") for problem in verified.stdout.splitlines())


WITH_MAP = """\
kind: ConfigMap
metadata: {name: settings}
data: {EPOCHS: "90"}
---
kind: Pod
metadata: {name: p}
spec:
  volumes: [{name: code, configMap: {name: settings, items: [{key: KEY, path: x}]}}]
  containers:
    - name: main
      image: a:1
      args: [$(EPOCHS), $(HOST), "$$(EPOCH)", $(EPOCH)]
      envFrom: [{configMapRef: {name: settings}}]
      env: [{name: HOST, valueFrom: {configMapKeyRef: {name: settings, key: KEY}}}]
"""


def test_missing_keys_volumes_and_variables_are_found() -> None:
    place, has = "Pod p: spec.containers[0]", "the ConfigMap settings has no key 'EPOCH' (did you mean 'EPOCHS'?)"
    variable = f"12:47: {place}.args[3]: $(EPOCH) is not a variable of the container and is not expanded"
    assert messages(WITH_MAP.replace("KEY", "EPOCHS")) == [f"{variable} (did you mean 'EPOCHS'?)"]
    assert messages(WITH_MAP.replace("KEY", "EPOCH"))[:-1] == [
        f"8:68: Pod p: spec.volumes[0].configMap.items[0].key: {has}",
        f"14:77: {place}.env[0].valueFrom.configMapKeyRef.key: {has}",
    ]
    elsewhere = "kind: Pod" + WITH_MAP.partition("kind: Pod")[2]
    assert messages(f"{elsewhere}      volumeMounts: [{{name: cod, mountPath: /code}}]\n") == [
        f"11:29: {place}.volumeMounts[0].name: volume 'cod' not found (did you mean 'code'?)"
    ]


JOB_SET = """\
kind: JobSet
metadata: {name: NAME}
spec:
  replicatedJobs:
    - {name: driver}
    - name: workers
      replicas: 3
      template:
        spec:
          parallelism: 2
          template:
            spec: {containers: []}
"""


def test_run_policy_out_of_range_is_found() -> None:
    spec = "{mpiReplicaSpecs: {Launcher: {}}, runPolicy: {activeDeadlineSeconds: 0}}"
    job = f"kind: MPIJob\nmetadata: {{name: j}}\nspec: {spec}\n"
    assert [problem.message for problem in objects.check_kinds(written.overlay(job))] == [
        "MPIJob j: spec.runPolicy.activeDeadlineSeconds: expected at least 1, found 0",
    ]
