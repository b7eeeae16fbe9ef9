from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from packager.base.errors import MlpackError, SpecError
from packager.modelspec.importing import Imported, ModelDestination, import_intel
from tests.modelspec.importers.results import check_package, imported, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_golden.plugin import GoldenTestFixture

    from tests.conftest import Outcome

SPECS = "tools/docker/specs"


def write(root: Path, tree: dict[str, str]) -> Path:
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        path.chmod(0o755 if content.startswith("#!") else 0o644)
    return root


def one(path: Path, models: Path) -> Imported:
    (outcome,) = import_intel(path, ModelDestination(models))
    if isinstance(outcome, MlpackError):
        raise outcome
    return outcome


@pytest.mark.golden_test("../../golden/import/intel/zoo.yml")
def test_import_of_zoo_writes_the_golden_models(
    golden: GoldenTestFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubectl: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    zoo = write(tmp_path / "zoo", golden["tree"])
    outcomes = list(import_intel((zoo / SPECS).relative_to(tmp_path), ModelDestination(tmp_path / "models")))
    made = [outcome for outcome in outcomes if isinstance(outcome, Imported)]
    assert len(made) == len(outcomes)
    results = {result.folder.name: imported(result, tmp_path / "models") for result in made}
    assert results == golden.out["models"]
    for result in made:
        packages = tmp_path / "packages" / result.folder.name
        check_package(result, packages, kubectl)
        assert [path.name for path in packages.iterdir()] == [f"{result.folder.name}.tar.gz"]


@pytest.mark.golden_test("../../golden/import/intel/refused.yml")
def test_import_refuses_invalid_specs_with_problems(
    golden: GoldenTestFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some cases try to read files outside of the checkout, directly and through links."""
    monkeypatch.chdir(tmp_path)
    root = write(
        tmp_path / "zoo", {"good": "", "with-link/a": "", "with-folder-link/a": "", f"{SPECS}/x/y_spec.yml": ""}
    )
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    for link, target in (("link", "../secret"), ("linked", ".."), ("with-link/b", "../../secret")):
        (root / link).symlink_to(target)
    (root / "with-folder-link/b").symlink_to("../..")
    os.mkfifo(root / "pipe")
    path = root / SPECS / "x/y_spec.yml"
    messages = {}
    for case, text in golden["cases"].items():
        path.write_text(text, encoding="utf-8")
        messages[case] = refused(lambda: one(path.relative_to(tmp_path), tmp_path / "models"), root)
        assert not (tmp_path / "models").exists() or not any((tmp_path / "models").iterdir())
    assert messages == golden.out["problems"]


SMALL = {
    "quickstart/a.sh": '#!/bin/sh\necho "$PWD|$MODEL_DIR|$*"\n',
    f"{SPECS}/tensorflow/small_spec.yml": """\
releases: {v: {tag_specs: ["{small}"]}}
slice_sets:
  small:
    - args: [PACKAGE_NAME=small-fp32-training]
      documentation: {text_replace: {<docker image>: "example/small:1"}}
      files: [{source: quickstart, destination: quickstart}]
""",
}


def test_script_starts_in_the_folder_of_the_code(tmp_path: Path) -> None:
    zoo = write(tmp_path / "zoo", SMALL)
    result = one(zoo / SPECS / "tensorflow/small_spec.yml", tmp_path / "models")
    code = result.folder
    done = subprocess.run(
        [str(code / "run/a.sh")],
        env={"PATH": os.environ["PATH"], "MODEL_DIR": "/x", "SCRIPT_ARGS": "--steps 3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{code}|{code}|--steps 3\n"


def test_link_to_excluded_file_is_not_followed(tmp_path: Path) -> None:
    """The address of a checkout may contain a token."""
    zoo = write(tmp_path / "zoo", SMALL | {".git/config": "url = https://token@example.com\n"})
    (zoo / "quickstart/net.py").symlink_to("../.git/config")
    path = zoo / SPECS / "tensorflow/small_spec.yml"
    result = one(path, tmp_path / "models")
    assert [file.name for file in result.files if file.suffix == ".py"] == []


def test_oversized_code_runs_from_the_image(tmp_path: Path, kubectl: Path) -> None:
    zoo = write(tmp_path / "zoo", SMALL | {"quickstart/data.txt": "x" * 300_000})
    result = one(zoo / SPECS / "tensorflow/small_spec.yml", tmp_path / "models")
    spec = yaml.safe_load((result.folder / "spec.yaml").read_text(encoding="utf-8"))
    assert (spec["files"], spec["assets"]) == (["run"], ["quickstart"])
    assert spec["environment"]["CODE_DIR"] == "/workspace/small-fp32-training"
    assert any("does not fit into ConfigMaps" in finding.message for finding in result.findings)
    check_package(result, tmp_path / "packages", kubectl)


def test_import_command_prints_imports_and_failures(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    write(tmp_path / "zoo", SMALL | {f"{SPECS}/tensorflow/wrong_spec.yml": "PACKAGE_NAME=: ["})
    done = mlpack("import", "intel", f"zoo/{SPECS}", "-o", "models")
    assert (done.code, done.stdout.splitlines()[-1]) == (3, "models/small-fp32-training/spec.yaml")
    assert done.stderr.endswith("1 imported, 1 failed\n")
    again = mlpack("import", "intel", f"zoo/{SPECS}", "-o", "models", "-o", "json", "--force")
    assert [item["folder"] for item in again.json["imported"]] == ["models/small-fp32-training"]
    assert [item["exit_code"] for item in again.json["errors"]] == [3]
    outside = tmp_path / "alone_spec.yml"
    outside.write_text(SMALL[f"{SPECS}/tensorflow/small_spec.yml"], encoding="utf-8")
    alone = mlpack("import", "intel", outside)
    assert (alone.code, "is not in a folder tools/docker/specs of a checkout" in alone.stderr) == (3, True)
    assert mlpack("import", "intel", tmp_path / "models").code == 3


DOWNLOADS = """\
      downloads:
        - {source: "https://models.example/net.pb", destination: ./weights/net.pb}
        - {source: "ftp://models.example/net.pb", destination: net.pb}
        - {source: "https://models.example/net.pb", destination: ../net.pb}
"""


def test_downloads_are_imported_only_with_the_option(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    path = f"{SPECS}/tensorflow/small_spec.yml"
    write(tmp_path, SMALL | {path: SMALL[path] + DOWNLOADS})
    without = mlpack("import", "intel", path)
    assert (
        "net.pb to weights/net.pb) is not carried over: the zoo states no digest of it (import it with --d"
        in without.stderr
    )
    assert without.stderr.endswith("build it with: mlpack build ./small-fp32-training\n")
    done = mlpack("import", "intel", path, "--downloads", "--force")
    spec = yaml.safe_load((tmp_path / "small-fp32-training/spec.yaml").read_text(encoding="utf-8"))
    assert spec["downloads"] == [{"url": "https://models.example/net.pb", "path": "weights/net.pb"}]
    place = f"{path}:9:11: slice_sets.small[0].downloads[1]"
    message = "is not carried over: expected an http or https URL and a path in the package"
    assert f"{place} (ftp://models.example/net.pb to net.pb) {message}\n" in done.stderr
    assert f"(https://models.example/net.pb to ../net.pb) {message}\n" in done.stderr
    assert done.stderr.endswith("build it with: mlpack build ./small-fp32-training\n")
    assert mlpack("lint", "small-fp32-training/spec.yaml").code == 0


def test_second_spec_of_one_package_is_refused(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    """The second spec does not replace the first, even with --force."""
    text = SMALL[f"{SPECS}/tensorflow/small_spec.yml"]
    write(tmp_path, SMALL | {f"{SPECS}/centos/small_spec.yml": text.replace("example/small:1", "example/centos:1")})
    for arguments in ((), ("--force",)):
        done = mlpack("import", "intel", SPECS, "-o", "models", *arguments)
        message = f"{SPECS}/tensorflow/small_spec.yml and {SPECS}/centos/small_spec.yml both make the package"
        assert (done.code, f"error: {message} small-fp32-training\n" in done.stderr) == (2, True)
        assert "example/centos" in (tmp_path / "models/small-fp32-training/spec.yaml").read_text(encoding="utf-8")


def test_spec_in_folder_ignored_uses_slices_of_other_folders(tmp_path: Path) -> None:
    """Since v2.5 some specs are in a folder `ignored`, without the slices that they name."""
    tag = "{_TAG_PREFIX}{tools}{small}"
    text = SMALL[f"{SPECS}/tensorflow/small_spec.yml"].replace("{small}", tag)
    tools = "slice_sets: {tools: [{files: [{source: quickstart/a.sh, destination: quickstart/b.sh}]}]}\n"
    zoo = write(tmp_path, SMALL | {f"{SPECS}/ignored/small_spec.yml": text, f"{SPECS}/ml/tools_spec.yml": tools})
    result = one(zoo / SPECS / "ignored/small_spec.yml", tmp_path / "models")
    assert (result.folder / "quickstart/b.sh").exists()


K8S = {
    f"{SPECS}/k8s/net-k8s_spec.yml": """\
releases: {v: {tag_specs: ["{net}"]}}
slice_sets: {net: [{args: [PACKAGE_NAME=net-fp32-training-k8s], files: [{source: k8s/net, destination: quickstart}]}]}
""",
    "k8s/net/mlops/one/kustomization.yaml": "kind: Kustomization\n",
    "k8s/net/mlops/one/config-map.yaml": "kind: ConfigMap\ndata: {MODEL_DIR: /workspace/net, STEPS: 3}\n",
    "k8s/net/mlops/one/pod.yaml": """\
kind: Pod
metadata: {name: net, namespace: default}
spec:
  initContainers:
    - {name: a, image: "example/net:1", command: [mkdir, -p, $(OUTPUT_DIR)/x]}
    - {name: b, image: "example/net:1", command: [late]}
  containers:
    - name: net
      image: docker.io/example/net:1
      imagePullPolicy: Always
      command: [python, $(MODEL_DIR)/train.py, "--steps=$(STEPS)", $(NOBODY)]
      env: [{name: A, value: b}, {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
      envFrom: [{configMapRef: {name: net}}, {secretRef: {name: net}}]
      resources: {requests: {cpu: 2}, limits: {memory: 1Gi, nvidia.com/gpu: 1}}
    - {name: other, image: "example/other:1"}
""",
}


def test_every_key_of_a_manifest_is_carried_over_or_reported(tmp_path: Path, kubectl: Path) -> None:
    zoo = write(tmp_path / "zoo", K8S)
    result = one(zoo / SPECS / "k8s/net-k8s_spec.yml", tmp_path / "models")
    spec = yaml.safe_load((result.folder / "spec.yaml").read_text(encoding="utf-8"))
    assert spec["overlays"]["one"] == {
        "kind": "Pod",
        "init": {"command": ["mkdir", "-p", "$(OUTPUT_DIR)/x"]},
        "command": ["python", "/workspace/net/train.py", "--steps=$(STEPS)", "$$(NOBODY)"],
        "resources": {"requests": {"cpu": 2}, "limits": {"memory": "1Gi"}},
        "environment": {"A": "b", "STEPS": "3"},
    }
    gpu = "spec.containers[0].resources.limits.nvidia.com/gpu"
    pod = f"{tmp_path}/zoo/k8s/net/mlops/one/pod.yaml"
    assert [str(finding).removeprefix(f"{pod}:") for finding in result.findings if finding.file == pod] == [
        "2:23: metadata.namespace is not carried over",
        "6:7: spec.initContainers[1] is not carried over (do in the image, or in the command, what it prepares)",
        "10:7: spec.containers[0].imagePullPolicy is not carried over: Kubernetes decides by the tag",
        "12:34: spec.containers[0].env[1] 'C' is not carried over: a package has values only (set it in the program)",
        "13:47: spec.containers[0].envFrom[1].secretRef is not carried over",
        f"14:61: {gpu} is the option gpu of a site (--with gpu --site GPU_COUNT=1)",
        "15:7: spec.containers[1] is not carried over: a pod of a package has one container",
    ]
    check_package(result, tmp_path / "packages", kubectl)


def test_spec_that_is_a_link_is_not_imported(tmp_path: Path) -> None:
    zoo = write(tmp_path / "zoo", SMALL)
    (zoo / SPECS / "tensorflow/link_spec.yml").symlink_to("small_spec.yml")
    assert len(list(import_intel(zoo / SPECS, ModelDestination(tmp_path / "models")))) == 1
    (zoo / SPECS / "tensorflow/small_spec.yml").unlink()
    with pytest.raises(SpecError):
        list(import_intel(zoo / SPECS, ModelDestination(tmp_path / "models")))


def test_variable_whose_name_the_package_uses_is_renamed_or_left_out(tmp_path: Path, kubectl: Path) -> None:
    """Names that the package has taken since a workload was written do not prevent its import."""
    pod = K8S["k8s/net/mlops/one/pod.yaml"]
    data = "data: {MODEL_DIR: /workspace/net, STEPS: 3, CPU: 2, MEMORY: 64}"
    config = K8S["k8s/net/mlops/one/config-map.yaml"].replace("data: {MODEL_DIR: /workspace/net, STEPS: 3}", data)
    tree = K8S | {"k8s/net/mlops/one/config-map.yaml": config}
    tree["k8s/net/mlops/one/pod.yaml"] = pod.replace("--steps=$(STEPS)", "--steps=$(STEPS) $(MEMORY)")
    zoo = write(tmp_path / "zoo", tree)
    result = one(zoo / SPECS / "k8s/net-k8s_spec.yml", tmp_path / "models")
    overlay = yaml.safe_load((result.folder / "spec.yaml").read_text(encoding="utf-8"))["overlays"]["one"]
    assert overlay["environment"] == {"A": "b", "STEPS": "3", "MODEL_MEMORY": "64"}
    assert overlay["command"][2] == "--steps=$(STEPS) $(MODEL_MEMORY)"
    messages = [finding.message for finding in result.findings]
    assert "CPU is set by the package, to the same value" in messages
    assert any(message.startswith("MEMORY becomes MODEL_MEMORY: ") for message in messages)
    check_package(result, tmp_path / "packages", kubectl)
