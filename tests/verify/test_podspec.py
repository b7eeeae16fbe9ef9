"""Values that prevent a pod from running: those that the API server refuses, and mounts that hide needed folders."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from packager.kubernetes import mountpath
from packager.package.opened import opened
from packager.verify import containers, kinds, names, podspec, references
from tests import demo, written
from tests.broken import build, seal
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"


def messages(spec: str, container: str = "") -> list[str]:
    """Return the messages about a pod, without the file and their common beginning."""
    own = f", {container}" if container else ""
    text = f"{POD}spec: {{containers: [{{name: main, image: 'a:1'{own}}}]{', ' + spec if spec else ''}}}\n"
    overlay = written.overlay(text)
    problems = [
        str(problem) for check in (podspec.check, containers.check, references.check) for problem in check(overlay)
    ]
    assert all(problem.startswith("file.yaml:4:") for problem in problems)
    return [problem.partition("Pod p: ")[2] for problem in problems]


def test_usual_pod_is_accepted() -> None:
    assert messages("restartPolicy: Never", "imagePullPolicy: Always, ports: [{name: ssh, containerPort: 2222}]") == []


def test_invalid_pod_field_is_found() -> None:
    for spec, problem in [
        (
            "restartPolicy: never",
            "spec.restartPolicy: expected Always, OnFailure or Never, found 'never' (did you mean 'Never'?)",
        ),
        (
            "dnsPolicy: Cluster",
            (
                "spec.dnsPolicy: expected ClusterFirst, ClusterFirstWithHostNet, Default or None, found "
                "'Cluster' (did you mean 'ClusterFirst'?)"
            ),
        ),
        ("dnsPolicy: None", "spec.dnsPolicy: without nameservers in dnsConfig, no name would resolve"),
        ("terminationGracePeriodSeconds: -1", "spec.terminationGracePeriodSeconds: expected at least 0, found -1"),
        ("activeDeadlineSeconds: 0", "spec.activeDeadlineSeconds: expected 1 to 2147483647, found 0"),
        ("hostname: a.b", "spec.hostname: expected at most 63 lower-case letters, digits and '-', found 'a.b'"),
        ("ephemeralContainers: [{name: e}]", "spec.ephemeralContainers: a new pod cannot have them (remove them)"),
        (
            "volumes: [{name: v, emptyDir: {}, secret: {secretName: s}}]",
            "spec.volumes[0]: a volume is of one kind, found emptyDir and secret",
        ),
        (
            "volumes: [{name: v, hostPath: {path: /a/../b}}]",
            "spec.volumes[0].hostPath.path: expected a path without '..', found '/a/../b'",
        ),
        (
            "volumes: [{name: v, nfs: {server: s, path: a}}]",
            "spec.volumes[0].nfs.path: expected an absolute path without '..', found 'a'",
        ),
        (
            "volumes: [{name: v, emptyDir: {}}, {name: w, configMap: {name: c, optional: true, defaultMode: 512}}]",
            "spec.volumes[1].configMap.defaultMode: expected 0 to 511, found 512",
        ),
        (
            "tolerations: [{operator: exists}]",
            "spec.tolerations[0].operator: expected Exists, Equal, Lt or Gt, found 'exists' (did you mean 'Exists'?)",
        ),
        (
            r'hostAliases: [{ip: "1\u001b"}]',
            "spec.hostAliases[0].ip: contains the control character U+001B (remove it)",
        ),
        ("initContainers: [{name: main, image: 'a:1'}]", "spec.containers[0].name: duplicate container 'main'"),
    ]:
        assert messages(spec) == [problem]


C = "spec.containers[0]"


def test_invalid_container_field_is_found() -> None:
    for container, problem in [
        (
            "imagePullPolicy: Sometimes",
            f"{C}.imagePullPolicy: expected Always, IfNotPresent or Never, found 'Sometimes'",
        ),
        ("ports: [{containerPort: 70000}]", f"{C}.ports[0].containerPort: expected 1 to 65535, found 70000"),
        (
            "ports: [{containerPort: 1, name: Web}]",
            (
                f"{C}.ports[0].name: expected at most 15 lower-case letters, digits and '-', with a letter among "
                f"them, found 'Web'"
            ),
        ),
        (
            "ports: [{containerPort: 1, name: a}, {containerPort: 2, name: a}]",
            f"{C}.ports[1].name: duplicate port 'a'",
        ),
        (
            "env: [{name: 1A, value: b}]",
            f"{C}.env[0].name: expected the name of a variable: letters, digits and '_', found '1A'",
        ),
        (r'env: [{name: A, value: "b\u0000"}]', f"{C}.env[0].value: contains the control character U+0000 (remove it)"),
        (
            "livenessProbe: {periodSeconds: 1}",
            f"{C}.livenessProbe: expected one of exec, httpGet, tcpSocket, grpc, found none",
        ),
        (
            "readinessProbe: {exec: {}, periodSeconds: -1}",
            f"{C}.readinessProbe.periodSeconds: expected 0 to 2147483647, found -1",
        ),
        (
            "resources: {limits: {nvidia.com/gpu: 0.5}}",
            (
                f"{C}.resources.limits.nvidia.com/gpu: expected a whole number of nvidia.com/gpu, found 0.5 "
                f"(devices are not shared)"
            ),
        ),
        (
            "resources: {requests: {nvidia.com/gpu: 1}}",
            (
                f"{C}.resources.requests.nvidia.com/gpu: a request for nvidia.com/gpu needs an equal limit, but "
                f"there is none"
            ),
        ),
        (
            "resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}",
            f"{C}.resources.requests.nvidia.com/gpu: requests 1 of nvidia.com/gpu, which must equal its limit of 2",
        ),
        (
            "resources: {limits: {hugepages-2Mi: 4Mi}}",
            f"{C}.resources.limits.hugepages-2Mi: hugepages-2Mi need a request or a limit of cpu or memory as well",
        ),
        (
            "resources: {limits: {hugepages-2Mi: 3Mi, cpu: 1}}",
            f"{C}.resources.limits.hugepages-2Mi: expected whole pages, found 3Mi (a multiple of 2Mi)",
        ),
        (
            "resources: {limits: {hugepages-big: 3Mi, cpu: 1}}",
            f"{C}.resources.limits.hugepages-big: 'hugepages-big' has no page size (write for example hugepages-2Mi)",
        ),
        (
            "resources: {limits: {gpu: 1}}",
            f"{C}.resources.limits.gpu: Kubernetes has no resource 'gpu' (a device has a domain: nvidia.com/gpu)",
        ),
        (
            f"resources: {{limits: {{a.b/{'x' * 64}: 1}}}}",
            (
                f"{C}.resources.limits.a.b/{'x' * 64}: 'a.b/{'x' * 64}' is not a valid resource name (use at most 63 "
                f"letters, digits and '-_.', after a domain and '/' for a device)"
            ),
        ),
    ]:
        assert messages("", container) == [problem]


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
            assert mountpath.complaint(path) is None


@pytest.mark.parametrize("path", ["", "/etc", "/a:b"])
def test_invalid_output_dir_is_refused_by_lint_configure_and_verify(
    path: str, mlpack: Mlpack, tmp_path: Path, kubectl: Path
) -> None:
    complaint = mountpath.complaint(path)
    spec = demo.write(tmp_path / "demo", demo.changed(f"environment: {{OUTPUT_DIR: {json.dumps(path)}}}"))
    assert mlpack("lint", spec).stdout == f"{spec}:11:27: {complaint}\n"
    package = build(tmp_path / "hello-mpi")
    done = mlpack("configure", package, "--set", f"OUTPUT_DIR={path}")
    assert (done.code, done.stderr) == (2, f"error: --set OUTPUT_DIR: {complaint}\n")
    if path == "relative":
        return  # the kubelet makes it absolute
    env = package / "quickstart/k8s/mlops/single-node/mlops.env"
    text = env.read_text(encoding="utf-8").replace("OUTPUT_DIR=ROOT/hello-mpi/output", f"OUTPUT_DIR={path}")
    env.write_text(text, encoding="utf-8")
    line = text.splitlines().index(f"OUTPUT_DIR={path}") + 1
    verified = mlpack("verify", package, "--kubectl", kubectl)
    assert verified.code == 5
    if path == "/home/mlpack":
        return  # the finding is about the other of the two mounts
    assert all(problem.startswith(f"{env}:{line}:1: ") for problem in verified.stdout.splitlines())


def test_object_larger_than_kubectl_apply_accepts_is_found() -> None:
    items = ", ".join(f"{{key: k{number}, path: {'p' * 180}{number}}}" for number in range(1_500))
    pod = f"{POD}spec: {{volumes: [{{name: v, configMap: {{items: [{items}]}}}}]}}\n"
    [problem] = [problem for problem in containers.check(written.overlay(pod)) if "KiB" in problem.message]
    assert problem.message == "Pod p: 306 KiB, but `kubectl apply` accepts at most 256 KiB"


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


def test_file_name_that_is_not_a_valid_key_is_found(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    base = package / "quickstart/common/mpi/k8s/mlops/base"
    shutil.copy(base / "identity.sh", base / "a+b.sh")
    replace(base / "kustomization.yaml", "      - identity.sh\n", "      - identity.sh\n      - a+b.sh\n")
    with opened(package) as whole:
        seal(whole)
    done = mlpack("verify", package, "--kubectl", kubectl)
    problem = "'a+b.sh' is not a valid key of a ConfigMap: use at most 253 letters, digits and '-._' (rename it)"
    assert (done.code, done.stdout.splitlines()) == (
        5,
        [
            f"{base}/kustomization.yaml:11:9: ConfigMap hello-mpi-runtime-{overlay}: data.a+b.sh: {problem}"
            for overlay in ("multi-node", "single-node")
        ],
    )


def test_run_policy_out_of_range_is_found() -> None:
    spec = "{mpiReplicaSpecs: {Launcher: {}}, runPolicy: {activeDeadlineSeconds: 0, backoffLimit: -1}}"
    job = f"kind: MPIJob\nmetadata: {{name: j}}\nspec: {spec}\n"
    assert [problem.message for problem in kinds.check(written.overlay(job))] == [
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


def test_more_workers_than_the_operator_can_list_are_found() -> None:
    job = "kind: MPIJob\nmetadata: {name: j}\nspec: {mpiReplicaSpecs: {Launcher: {}, Worker: {replicas: 1000000}}}\n"
    assert [problem.message for problem in kinds.check(written.overlay(job))] == [
        (
            "MPIJob j: spec.mpiReplicaSpecs.Worker.replicas: "
            "the list of 1000000 hosts takes more than the 1,024 KiB of a ConfigMap"
        )
    ]
