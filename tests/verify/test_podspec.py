"""Values that prevent a pod from running: those that the API server refuses, and mounts that hide needed folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from packager.kubernetes.containers import mount_complaint
from packager.verify import containers, names, objects, podspec, references
from tests import demo, written
from tests.broken import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
CHECKS = (podspec.check, containers.check, references.check)


def messages(spec: str, container: str = "") -> list[str]:
    """Return the messages about a pod, without the file and their common beginning."""
    own = f", {container}" if container else ""
    text = f"{POD}spec: {{containers: [{{name: main, image: 'a:1'{own}}}]{', ' + spec if spec else ''}}}\n"
    overlay = written.overlay(text)
    problems = [str(problem) for check in CHECKS for problem in check(overlay)]
    assert all(problem.startswith("file.yaml:4:") for problem in problems)
    return [problem.partition("Pod p: ")[2] for problem in problems]


def test_usual_pod_is_accepted() -> None:
    assert messages("restartPolicy: Never", "imagePullPolicy: Always, ports: [{name: ssh, containerPort: 2222}]") == []


LONG = f"a.b/{'x' * 64}"
WRONG = r"""
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: never
  dnsPolicy: Cluster
  terminationGracePeriodSeconds: -1
  activeDeadlineSeconds: 0
  hostname: a.b
  ephemeralContainers: [{name: e}]
  volumes:
    - {name: a, emptyDir: {}, secret: {secretName: s}}
    - {name: b, hostPath: {path: /a/../b}}
    - {name: c, nfs: {server: s, path: a}}
    - {name: d, configMap: {name: c, optional: true, defaultMode: 512}}
  tolerations: [{operator: exists}]
  hostAliases: [{ip: "1\u001b"}]
  initContainers: [{name: main, image: 'a:1'}]
  containers:
    - name: main
      image: a:1
      imagePullPolicy: Sometimes
      ports:
        - {containerPort: 70000}
        - {containerPort: 1, name: Web}
        - {containerPort: 1, name: a}
        - {containerPort: 2, name: a}
      env: [{name: 1A, value: b}, {name: A, value: "b\u0000"}]
      livenessProbe: {periodSeconds: 1}
      readinessProbe: {exec: {}, periodSeconds: -1}
      resources:
        limits: {nvidia.com/gpu: 0.5, hugepages-2Mi: 4Mi, gpu: 1}
        requests: {amd.com/gpu: 1}
    - name: second
      image: a:1
      resources:
        limits: {nvidia.com/gpu: 2, hugepages-2Mi: 3Mi, hugepages-big: 3Mi, cpu: 1, LONG: 1}
        requests: {nvidia.com/gpu: 1}
"""


def test_invalid_fields_of_a_pod_are_found() -> None:
    overlay = written.overlay(WRONG.lstrip().replace("LONG", LONG))
    problems = [str(problem) for check in CHECKS for problem in check(overlay)]
    assert [problem.removeprefix("file.yaml:").replace("Pod p: ", "") for problem in problems] == [
        "5:18: spec.restartPolicy: expected Always, OnFailure or Never, found 'never' (did you mean 'Never'?)",
        (
            "6:14: spec.dnsPolicy: expected ClusterFirst, ClusterFirstWithHostNet, Default or None, found "
            "'Cluster' (did you mean 'ClusterFirst'?)"
        ),
        "22:24: spec.containers[0].imagePullPolicy: expected Always, IfNotPresent or Never, found 'Sometimes'",
        (
            "16:28: spec.tolerations[0].operator: expected Exists, Equal, Lt or Gt, found 'exists' (did you "
            "mean 'Exists'?)"
        ),
        "7:34: spec.terminationGracePeriodSeconds: expected at least 0, found -1",
        "8:26: spec.activeDeadlineSeconds: expected 1 to 2147483647, found 0",
        "24:27: spec.containers[0].ports[0].containerPort: expected 1 to 65535, found 70000",
        "15:67: spec.volumes[3].configMap.defaultMode: expected 0 to 511, found 512",
        "30:49: spec.containers[0].readinessProbe.periodSeconds: expected 0 to 2147483647, found -1",
        "9:13: spec.hostname: expected at most 63 lower-case letters, digits and '-', found 'a.b'",
        "28:20: spec.containers[0].env[0].name: expected the name of a variable: letters, digits and '_', found '1A'",
        (
            "25:36: spec.containers[0].ports[1].name: expected at most 15 lower-case letters, digits and '-', "
            "with a letter among them, found 'Web'"
        ),
        "13:34: spec.volumes[1].hostPath.path: expected a path without '..', found '/a/../b'",
        "14:40: spec.volumes[2].nfs.path: expected an absolute path without '..', found 'a'",
        "10:3: spec.ephemeralContainers: a new pod cannot have them (remove them)",
        "27:36: spec.containers[0].ports[3].name: duplicate port 'a'",
        "29:22: spec.containers[0].livenessProbe: expected one of exec, httpGet, tcpSocket, grpc, found none",
        "12:7: spec.volumes[0]: a volume is of one kind, found emptyDir and secret",
        (
            "32:34: spec.containers[0].resources.limits.nvidia.com/gpu: expected a whole number of "
            "nvidia.com/gpu, found 0.5 (devices are not shared)"
        ),
        (
            "32:59: spec.containers[0].resources.limits.gpu: Kubernetes has no resource 'gpu' (a device has a "
            "domain: nvidia.com/gpu)"
        ),
        (
            "33:33: spec.containers[0].resources.requests.amd.com/gpu: a request for amd.com/gpu needs an "
            "equal limit, but there is none"
        ),
        (
            f"37:85: spec.containers[1].resources.limits.{LONG}: '{LONG}' is not a valid resource name (use at most 63 "
            "letters, digits and '-_.', after a domain and '/' for a device)"
        ),
        (
            "38:36: spec.containers[1].resources.requests.nvidia.com/gpu: requests 1 of nvidia.com/gpu, which "
            "must equal its limit of 2"
        ),
        "20:13: spec.containers[0].name: duplicate container 'main'",
        "17:22: spec.hostAliases[0].ip: contains the control character U+001B (remove it)",
        "28:52: spec.containers[0].env[1].value: contains the control character U+0000 (remove it)",
    ]


def test_pod_without_nameservers_is_found() -> None:
    assert messages("dnsPolicy: None") == ["spec.dnsPolicy: without nameservers in dnsConfig, no name would resolve"]


C = "spec.containers[0]"
VOLUMES = "volumes: [{name: o, emptyDir: {}}, {name: c, configMap: {name: c, optional: true}}]"
HIDES = "would hide what the container needs there: use another folder"


def test_invalid_mount_path_is_found() -> None:
    for path, problem in [
        ("''", "expected a folder, found ''"),
        ("/", f"a volume at / {HIDES}"),
        ("//", f"a volume at / {HIDES}"),
        ("/etc", f"a volume at /etc {HIDES}"),
        ("/etc/", f"a volume at /etc {HIDES}"),
        ("etc", f"a volume at /etc {HIDES}"),
        ("/./usr", f"a volume at /usr {HIDES}"),
        ("/proc/self", f"a volume at /proc/self {HIDES}"),
        ("/a/../etc", "expected a folder without '..', found '/a/../etc'"),
        ("/c/out", "/c/out is in /c, which is mounted from a ConfigMap, and no folder can be created there"),
        ("/c/", "two volumes are mounted at /c/"),
    ]:
        mounts = f"volumeMounts: [{{name: c, mountPath: /c}}, {{name: o, mountPath: {path}}}]"
        assert messages(VOLUMES, mounts) == [f"{C}.volumeMounts[1].mountPath: {problem}"]


def test_valid_mount_path_is_accepted() -> None:
    for path in ["/out", "/dev/shm", "/etc/app", "/tmp", "/opt/data", "ROOT/p/output", "/a..b"]:
        assert messages(VOLUMES, f"volumeMounts: [{{name: o, mountPath: {path}}}]") == []
        if path.startswith(("/", "ROOT")):
            assert mount_complaint(path) is None


@pytest.mark.parametrize("path", ["/etc", "/a:b"])
def test_invalid_output_dir_is_refused_by_lint_configure_and_verify(
    path: str, mlpack: Mlpack, tmp_path: Path, kubectl: Path
) -> None:
    complaint = mount_complaint(path)
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


def test_size_counts_characters_that_kubectl_escapes() -> None:
    fits = "x" * 262_000
    config = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{a: {fits}}}\n"
    assert list(containers.check(written.overlay(config))) == []
    escaped = config.replace("x" * 20, "<" * 20)
    [problem] = containers.check(written.overlay(escaped))
    assert "KiB, but `kubectl apply` accepts at most 256 KiB" in str(problem)


def test_invalid_config_map_key_is_found() -> None:
    for key in ["a+b.sh", "c@d.sh", "..", "..a", "a/b", "x" * 254]:
        config = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{{json.dumps(key)}: a}}\n"
        [problem] = containers.check(written.overlay(config))
        assert (
            problem.message == f"ConfigMap c: data.{key}: {key!r} is not a valid key of a ConfigMap: "
            "use at most 253 letters, digits and '-._'"
        )


def test_run_policy_out_of_range_is_found() -> None:
    spec = "{mpiReplicaSpecs: {Launcher: {}}, runPolicy: {activeDeadlineSeconds: 0, backoffLimit: -1}}"
    job = f"kind: MPIJob\nmetadata: {{name: j}}\nspec: {spec}\n"
    assert [problem.message for problem in objects.check_kinds(written.overlay(job))] == [
        "MPIJob j: spec.runPolicy.activeDeadlineSeconds: expected at least 1, found 0",
        "MPIJob j: spec.runPolicy.backoffLimit: expected 0 to 2147483647, found -1",
    ]


def test_build_refuses_list_of_files_too_long_for_a_pod(mlpack: Mlpack, tmp_path: Path) -> None:
    names = [f"{'f' * 60}/{number:04}.sh" for number in range(1_500)]
    listed = ", ".join(["train.sh", *names])
    spec = demo.write(tmp_path / "demo", demo.changed(f"[train.sh] => [{listed}]"), dict.fromkeys(names, "#!/bin/sh\n"))
    message = "the list of files in folders takes 232 KiB in the manifest of a pod; the limit is 200 KiB"
    hint = "pack them into one archive, list them under `assets`, or build with --with package-volume"
    done = mlpack("build", spec)
    assert (done.code, f"{spec}:5:1: {message} ({hint})\n" in done.stderr) == (3, True)
    linted = mlpack("lint", spec)
    assert (linted.code, f"warning: {spec}:5:1: {message} ({hint})\n" in linted.stderr) == (0, True)


def test_invalid_key_of_label_or_annotation_is_found() -> None:
    for metadata, where, problem in [
        ("labels: {a/b/c: d}", "labels.a/b/c", "'a/b/c' is not a valid key"),
        ("annotations: {'a b': d}", "annotations.a b", "'a b' is not a valid key"),
        (f"annotations: {{{'a' * 64}: d}}", f"annotations.{'a' * 64}", f"'{'a' * 64}' is not a valid key"),
    ]:
        text = POD.replace("name: p", f"name: p, {metadata}")
        [found_problem] = names.check(written.overlay(text))
        form = "use at most 63 letters, digits and '-_.', optionally after a domain and '/'"
        assert found_problem.message == f"Pod p: metadata.{where}: {problem}: {form}"


def test_invalid_node_selector_value_is_found() -> None:
    [problem] = names.check(written.overlay(f"{POD}spec: {{nodeSelector: {{kubernetes.io/arch: a b}}}}\n"))
    form = "use at most 63 letters, digits and '-_.', with a letter or digit at both ends"
    message = f"'a b' is not a valid label value: {form}"
    assert problem.message == f"Pod p: spec.nodeSelector.kubernetes.io/arch: {message}"
