from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base.errors import SpecError
from packager.modelspec.importing import ModelDestination, import_mxjob
from tests.modelspec.importers.results import check_package, imported, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_golden.plugin import GoldenTestFixture

    from tests.conftest import Outcome


@pytest.mark.golden_test("../../golden/import/mxjob/[!r]*.yml")
def test_import_of_job_writes_the_golden_model(
    golden: GoldenTestFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubectl: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(golden["input"], encoding="utf-8")
    result = import_mxjob(path.relative_to(tmp_path), ModelDestination(tmp_path / "models"))
    for key, value in imported(result, tmp_path / "models").items():
        assert value == golden.out[key]
    check_package(result, tmp_path / "packages", kubectl)


@pytest.mark.golden_test("../../golden/import/mxjob/refused.yml")
def test_import_refuses_invalid_jobs_with_problems(
    golden: GoldenTestFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    models = ModelDestination(tmp_path / "models")
    messages = {}
    for case, text in golden["cases"].items():
        path.write_text(text, encoding="utf-8")
        messages[case] = refused(lambda: import_mxjob(path.relative_to(tmp_path), models))
        assert not (tmp_path / "models").exists() or not any((tmp_path / "models").iterdir())
    assert messages == golden.out["problems"]


WORKER = """\
apiVersion: mxnet.mlkube.io/v1beta1
kind: MxJob
metadata: {name: single}
spec:
  jobMode: local
  replicaSpecs:
    - template: {spec: {containers: [{name: mxnet, image: "example/a:1", command: [train]}]}}
"""


@pytest.mark.parametrize(
    ("policies", "limit", "kept"),
    [
        (("Never", "ExitCode", "ExitCode"), 2, {"retries": 2, "permanent_exit_codes": "1-127"}),
        (("Never", "ExitCode", "ExitCode"), 0, {"retries": 0}),
        (("Never", "ExitCode", "OnFailure"), 2, {"retries": 2}),
    ],
)
def test_exit_codes_are_permanent_if_all_restarts_depend_on_them(
    tmp_path: Path, policies: tuple[str, ...], limit: int, kept: dict[str, Any]
) -> None:
    template = {"spec": {"containers": [{"name": "mxnet", "image": "example/a:1", "command": ["train"]}]}}
    roles = dict(zip(("Scheduler", "Server", "Worker"), policies, strict=True))
    replicas = {role: {"restartPolicy": policy, "template": template} for role, policy in roles.items()}
    spec = {"jobMode": "MXTrain", "runPolicy": {"backoffLimit": limit}, "mxReplicaSpecs": replicas}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "MXJob", "metadata": {"name": "a"}, "spec": spec}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job), encoding="utf-8")
    result = import_mxjob(tmp_path / "job.yaml", ModelDestination(tmp_path))
    overlay = yaml.safe_load((result.folder / "spec.yaml").read_text(encoding="utf-8"))["overlays"]["dist"]
    assert {key: value for key, value in overlay.items() if key in ("retries", "permanent_exit_codes")} == kept
    words = [finding.message for finding in result.findings if "is ExitCode" in finding.message]
    is_permanent = "permanent_exit_codes" in kept
    assert all(("after an exit code above 127" in word) is is_permanent for word in words)
    assert all(("exit codes 1 to 127 are retried too" in word) is not is_permanent for word in words)


def test_image_option_replaces_the_image(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(WORKER, encoding="utf-8")
    result = import_mxjob(tmp_path / "job.yaml", ModelDestination(tmp_path), image="registry.example/b:2")
    spec = yaml.safe_load((result.folder / "spec.yaml").read_text(encoding="utf-8"))
    assert spec["image"] == {"registry": "registry.example", "name": "b", "tag": "2"}
    assert [finding.message.partition(" ")[2] for finding in result.findings] == ["is replaced by --image"]
    digest = f"sha256:{'0' * 64}"
    pinned = import_mxjob(tmp_path / "job.yaml", ModelDestination(tmp_path, force=True), image=f"b:2@{digest}")
    spec = yaml.safe_load((pinned.folder / "spec.yaml").read_text(encoding="utf-8"))
    assert spec["image"] == {"registry": "docker.io", "name": "b", "tag": "2", "digest": digest}
    with pytest.raises(SpecError) as error:
        import_mxjob(tmp_path / "job.yaml", ModelDestination(tmp_path, force=True), image="No Image")
    (problem,) = error.value.problems
    assert problem.message == "expected an image as REGISTRY/NAME:TAG, found 'No Image'"


def test_import_command_prints_the_spec_and_keeps_user_files(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(WORKER.replace("example/a:1", "example/a"), encoding="utf-8")
    done = mlpack("import", "mxjob", "job.yaml", "-o", "models")
    assert (done.code, done.stdout) == (0, "models/single/spec.yaml\n")
    assert done.stderr == (
        "job.yaml:7:59: the image example/a has no tag: 'latest' may be another image tomorrow (--image REPOSITORY:TAG "
        "names one)\nbuild it with: mlpack build ./models/single\n"
    )
    again = mlpack("import", "mxjob", "job.yaml", "-o", "models", "-o", "json")
    assert (again.code, again.json["error"]["message"]) == (2, "models/single already exists and was left unchanged")
    forced = mlpack("import", "mxjob", "job.yaml", "-o", "models", "-o", "json", "--force")
    assert forced.code == 0
    assert forced.json["build"] == ["mlpack", "build", "./models/single"]
    (tmp_path / "models/single/notes").mkdir()
    (tmp_path / "models/single/notes/mine.txt").write_text("mine", encoding="utf-8")
    added = mlpack("import", "mxjob", "job.yaml", "-o", "models", "--force")
    assert (added.code, (tmp_path / "models/single/notes/mine.txt").read_text(encoding="utf-8")) == (2, "mine")
    assert added.stderr == (
        "error: models/single was left unchanged: the import would delete models/single/notes/mine.txt\n"
        "hint: move it elsewhere\n"
    )
    (tmp_path / "models/single/spec.yaml").write_text("mine: 1\n", encoding="utf-8")
    kept = mlpack("import", "mxjob", "job.yaml", "-o", "models", "--force")
    assert (kept.code, (tmp_path / "models/single/spec.yaml").read_text(encoding="utf-8")) == (2, "mine: 1\n")
    assert mlpack("import", "mxjob", "absent.yaml").code == 3
    assert mlpack("import", "mxjob", tmp_path).code == 3


def test_file_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(WORKER + "#" * (1 << 20), encoding="utf-8")
    with pytest.raises(SpecError) as error:
        import_mxjob(tmp_path / "job.yaml", ModelDestination(tmp_path))
    assert error.value.problems[0].message == "the file is larger than 1024 KiB, the limit for such a file"


def test_secrets_and_priority_class_are_carried_over_or_reported(tmp_path: Path, kubectl: Path) -> None:
    """Fields that a package cannot have unchanged are reported, and the package can still be built."""
    own = "{name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: TOKEN}}}"
    other = "{name: KEY, valueFrom: {secretKeyRef: {name: other, key: id}}}"
    field = "{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}"
    copy = "copy 'id' of the Secret 'other' to that key there"
    pod = "priorityClassName: high, imagePullSecrets: [{name: harbor-}], containers: [{name: mxnet"
    job = WORKER.replace("containers: [{name: mxnet", pod).replace("[train]", "[train, $(TOKEN)]")
    job = job.replace('"example/a:1"', f'"example/a:1", env: [{own}, {other}, {field}]')
    (tmp_path / "job.yaml").write_text(job, encoding="utf-8")
    result = import_mxjob(tmp_path / "job.yaml", ModelDestination(tmp_path))
    spec = yaml.safe_load((result.folder / "spec.yaml").read_text(encoding="utf-8"))
    assert spec["secrets"] == {"TOKEN": {}, "KEY": {}}
    assert spec["overlays"]["local"]["priority_class"] == "high"
    assert spec["overlays"]["local"]["command"] == ["train", "$(TOKEN)"]
    assert [str(finding).partition("containers[0].")[2] or finding.hint for finding in result.findings] == [
        "--with pull-secret, and another PULL_SECRET: expected the name of an object in Kubernetes, found 'harbor-'",
        f"env[1] 'KEY' is read from the key KEY of the Secret that SECRET in site.env names ({copy})",
        "env[2] 'NODE' is not carried over: a package has values only (set it in the program)",
    ]
    assert result.build[-1] == "--site=SECRET=hub"
    check_package(result, tmp_path / "packages", kubectl)
