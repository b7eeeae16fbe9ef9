"""Findings about manifests that people may add to a package: each with its place, message and hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import Fault
from packager.verify import names, objects, references, schema
from tests import written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packager.base.problems import Problem
    from packager.rendering.overlay import RenderedOverlay

    Check = Callable[[RenderedOverlay], Iterator[Problem]]


def messages(check: Check, text: str) -> list[str]:
    return [str(problem) for problem in check(written.overlay(text))]


LABEL = "is not a valid label value: use at most 63 letters, digits and '-_.', with a letter or digit at both ends"
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
            spec: {containers: [{name: main}]}
"""


def test_invalid_name_or_label_is_found() -> None:
    for text, problem in [
        (
            f"kind: StatefulSet\nmetadata: {{name: {'a' * 61}}}\nspec: {{replicas: 11}}\n",
            (
                f"file.yaml:2:18: StatefulSet {'a' * 61}: metadata.name: makes the name '{'a' * 61}-10': "
                "64 characters, at most 63 and starting with a letter (shorten the name)"
            ),
        ),
        (
            "kind: StatefulSet\nmetadata: {name: 1st}\n",
            (
                "file.yaml:2:18: StatefulSet 1st: metadata.name: makes the name '1st-0': "
                "5 characters, at most 63 and starting with a letter (shorten the name)"
            ),
        ),
        (
            JOB_SET.replace("NAME", "a" * 46),
            (
                f"file.yaml:2:18: JobSet {'a' * 46}: metadata.name: makes the name '{'a' * 46}-workers-2-1-abcde': "
                "64 characters, at most 63 and starting with a letter (shorten the name)"
            ),
        ),
        (
            "kind: Job\nmetadata:\n  name: a\n  labels: {team: -x}\n",
            f"file.yaml:4:18: Job a: metadata.labels.team: '-x' {LABEL}",
        ),
        (
            "kind: Job\nmetadata: {name: a}\nspec:\n  template:\n    metadata:\n      labels: {team: a b}\n",
            f"file.yaml:6:22: Job a: spec.template.metadata.labels.team: 'a b' {LABEL}",
        ),
    ]:
        assert messages(names.check, text) == [problem]


def test_manifest_without_name_is_found() -> None:
    for text, place in [
        ("kind: Job\nmetadata: {}\n", "file.yaml:2:11: Job"),
        ("metadata: {}\n", "file.yaml:1:11: a manifest"),
    ]:
        form = "use lower-case letters, digits and '-', starting and ending with a letter or digit"
        assert messages(names.check, text) == [f"{place}: metadata.name: '' is not a valid name: {form}"]


WITH_MAP = """\
kind: ConfigMap
metadata: {name: settings}
data: {EPOCHS: "90"}
---
kind: Pod
metadata: {name: p}
spec:
  volumes:
    - name: code
      configMap: {name: settings}
  containers:
    - name: main
"""


def test_reference_to_missing_key_is_found() -> None:
    for line, place, field, hint in [
        (
            "env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: EPOCH}}}]",
            "13:74",
            "env[0].valueFrom.configMapKeyRef.key",
            " (did you mean 'EPOCHS'?)",
        ),
        (
            "volumeMounts: [{name: code, mountPath: /code, subPath: EPOCH}]",
            "13:62",
            "volumeMounts[0].subPath",
            " (did you mean 'EPOCHS'?)",
        ),
    ]:
        assert messages(references.check, f"{WITH_MAP}      {line}\n") == [
            f"file.yaml:{place}: Pod p: spec.containers[0].{field}: the ConfigMap settings has no key 'EPOCH'{hint}"
        ]


PROJECTED = """\
  volumes:
    - name: code
      projected:
        sources:
          - configMap: {name: settings, items: [{key: EPOCHS, path: src/train.py}]}
          - configMap: {name: settings, items: [{key: EPOCHS, path: src/model.py}]}
"""


def test_missing_file_of_projected_config_maps_is_found() -> None:
    for word, problem in [
        ("/code/src/train.py", None),
        ("/code/src", None),
        ("/code", None),
        ("/codes/x", None),
        ("--file=/code/x", None),
        (
            "/code/src/tain.py",
            "the ConfigMaps settings, settings, mounted there, have no 'src/tain.py' (did you mean 'src/train.py'?)",
        ),
        ("/code/src/../x", "the ConfigMaps settings, settings, mounted there, have no 'x'"),
    ]:
        start, _, rest = WITH_MAP.partition("  volumes:\n    - name: code\n      configMap: {name: settings}\n")
        text = (
            f"{start}{PROJECTED}{rest}      command: [{word}]\n      volumeMounts: [{{name: code, mountPath: /code}}]\n"
        )
        place = "file.yaml:16:17: Pod p: spec.containers[0].command[0]: "
        assert messages(references.check, text) == ([f"{place}{problem}"] if problem else [])


def test_duplicate_path_in_projected_volume_is_found() -> None:
    text = WITH_MAP.replace("  volumes:\n    - name: code\n      configMap: {name: settings}\n", PROJECTED)
    assert messages(references.check, text.replace("model.py", "train.py")) == [
        (
            "file.yaml:13:69: Pod p: spec.volumes[0].projected.sources[1].configMap.items[0].path: "
            "two files of the volume are called 'src/train.py'"
        )
    ]


def test_volume_item_with_missing_key_is_found() -> None:
    text = WITH_MAP.replace("{name: settings}\n  con", "{name: settings, items: [{key: x, path: x}]}\n  con")
    assert messages(references.check, text) == [
        "file.yaml:10:49: Pod p: spec.volumes[0].configMap.items[0].key: the ConfigMap settings has no key 'x'"
    ]


MPI_JOB = """\
kind: MPIJob
metadata: {name: j}
spec:
  mpiImplementation: OpenMPI
  mpiReplicaSpecs:
    Launcher:
      template:
        metadata: {annotations: {kubectl.kubernetes.io/default-container: launcher}}
        spec:
          containers:
            - name: launcher
              command: [sh, /etc/mlpack/runtime/mpi-launcher.sh, openmpi, all, train.sh]
    Worker: {replicas: 1}
"""


def test_value_of_wrong_type_is_found() -> None:
    for field, value, message, hint in [
        ("tty", '"true"', "expected true or false, found the text 'true'", "write true without quotes"),
        ("tty", '"yes"', "expected true or false, found the text 'yes'", None),
        ("workingDir", "7", "expected text, found the number 7", 'quote it: "7"'),
        ("workingDir", "true", "expected text, found true", 'quote it: "true"'),
        ("args", "all", "expected a list, found the text 'all'", None),
        ("securityContext", "[]", "expected a mapping, found a list", None),
    ]:
        spec = f"{{containers: [{{name: main, {field}: {value}}}]}}"
        text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {spec}\n"
        [manifest] = written.overlay(text).manifests
        location = ("spec", "containers", 0, field)
        assert list(schema.faults(manifest.data, ("1.37",))) == [Fault(location, message, hint)]


def test_mpijob_of_another_group_is_not_checked() -> None:
    job = "apiVersion: example.org/v1\nkind: MPIJob\nmetadata: {name: j}\nspec: {slotsPerWorker: 0}\n"
    assert messages(objects.check_kinds, job) == []
    assert messages(objects.check_kinds, job.replace("example.org/v1", "kubeflow.org/v2beta1")) == [
        "file.yaml:4:24: MPIJob j: spec.slotsPerWorker: expected 1 to 2147483647, found 0",
    ]


def test_object_named_like_one_of_mpi_operator_is_found() -> None:
    for kind, name in [("Job", "j-launcher"), ("Pod", "j-worker-0"), ("Service", "j")]:
        message = f"mpi-operator creates a {kind} of this name for the MPIJob (give it another name)"
        other = f"kind: {kind}\nmetadata: {{name: {name}}}\n---\n"
        assert messages(names.check, other + MPI_JOB) == [f"file.yaml:2:18: {kind} {name}: metadata.name: {message}"]
        near = f"kind: {kind}\nmetadata: {{name: {name}-x}}\n---\n"
        assert messages(names.check, near + MPI_JOB) == []


def test_mpijobs_that_need_the_same_secret_are_found() -> None:
    message = "MPIJob j and this workload both need the Secret j-ssh (give it another name)"
    [problem] = messages(names.check, f"{MPI_JOB}---\n{MPI_JOB}")
    assert problem.endswith(f"MPIJob j: metadata.name: {message}")
