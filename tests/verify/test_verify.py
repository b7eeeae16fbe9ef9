"""Tests of `mlpack verify`: no output for a valid package, all findings at once, unchecked parts listed separately."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from packager.base.process import Runner
from packager.package.opened import opened
from packager.verify import Checks, verify
from tests.broken import pack, seal
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

MULTI = "quickstart/k8s/mlops/multi-node"
SINGLE = "quickstart/k8s/mlops/single-node"


def _line(path: Path, text: str) -> str:
    """Return the line and column of the only `text` in a file, as findings write them."""
    content = path.read_text(encoding="utf-8")
    assert content.count(text) == 1
    before = content.partition(text)[0]
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _stub(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_verify_prints_nothing_for_valid_package(mlpack: Run, package: Path, kubectl: Path) -> None:
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout, done.stderr) == (0, "", "")


SECRETS = "quickstart/common/mpi/k8s/mlops/secrets/kustomization.yaml"


@pytest.fixture
def with_secrets(mlpack: Run, tmp_path: Path) -> Path:
    """The package hello-mpi, built with a secret."""
    build = ("build", "hello-mpi", "--format", "dir", "--set", "secrets.HF_TOKEN.description=A token.")
    assert mlpack(*build).code == 0
    return tmp_path / "hello-mpi"


def test_verify_notes_secrets_that_pods_read(mlpack: Run, with_secrets: Path, kubectl: Path) -> None:
    done = mlpack("verify", with_secrets, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    for overlay in ("multi-node", "single-node"):
        assert f"the pods of {overlay} read HF_TOKEN from the Secret 'hello-mpi' of the namespace\n" in done.stderr
    site = with_secrets / "quickstart/common/mpi/k8s/mlops/site/site.env"
    assert "SECRET=hello-mpi\n" in site.read_text()


def test_secret_references_beyond_the_spec_need_allow(mlpack: Run, with_secrets: Path, kubectl: Path) -> None:
    file = with_secrets / SECRETS
    component = file.read_text().partition("replacements:")[0]
    file.write_text(component.replace("key: HF_TOKEN", "key: PASSWORD").replace("name: SECRET", "name: hello-mpi"))
    with opened(with_secrets) as package:
        seal(package)
    done = mlpack("verify", with_secrets, "--kubectl", kubectl)
    assert done.code == 5
    assert "of the namespace, which no build does (--allow Secret permits it)" in done.stdout
    assert mlpack("verify", with_secrets, "--kubectl", kubectl, "--allow", "Secret").code == 0


def test_secret_value_in_env_file_is_refused(mlpack: Run, with_secrets: Path, kubectl: Path) -> None:
    done = mlpack("configure", with_secrets, "--set", "HF_TOKEN=geheim")
    assert (done.code, "geheim" in done.stderr) == (2, False)
    assert "--set HF_TOKEN: it is a secret, and anyone can read what is in the package" in done.stderr
    env = with_secrets / SINGLE / "mlops.env"
    env.write_text(env.read_text() + "HF_TOKEN=geheim\n")
    done = mlpack("verify", with_secrets, "--kubectl", kubectl)
    assert (done.code, "geheim" in done.stdout + done.stderr) == (5, False)
    assert "HF_TOKEN is a secret: pods read it from a Secret, and anyone can read this file" in done.stdout


def test_tarball_findings_name_paths_in_the_tarball(mlpack: Run, package: Path, kubectl: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.tar.gz"
    replace(package / SINGLE / "pod.yaml", "name: hello-mpi-env", "name: other-env")
    pack(package, path)
    done = mlpack("verify", path, "--kubectl", kubectl)
    assert done.code == 5
    assert f"edited: {path}:{SINGLE}/pod.yaml\n" in done.stderr
    where = _line(package / SINGLE / "pod.yaml", "other-env")
    assert f"{path}:{SINGLE}/pod.yaml:{where}: Pod hello-mpi-single-node: " in done.stdout
    assert all(line.startswith(f"{path}:") for line in done.stdout.splitlines())


def test_verify_reports_all_findings_at_once_with_their_lines(mlpack: Run, package: Path, kubectl: Path) -> None:
    replace(package / SINGLE / "pod-patch.yaml", "runAsUser: 1000", 'runAsUser: "1000"')
    quoted, one_thousand = "'/dataset'", '"1000"'
    replace(package / SINGLE / "mlops.env", "DATASET_DIR=/dataset", f"DATASET_DIR={quoted}")
    replace(package / MULTI / "mpi-job.yaml", "cleanPodPolicy: Running", "cleanPodPolicy: Sometimes")
    (package / "extra").touch()
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert done.stderr.endswith("4 problems\n")
    lines = done.stdout.splitlines()
    assert lines == sorted(lines)
    assert [line.removeprefix(f"{package}/").split(": ")[0] for line in lines] == [
        "extra",
        f"{MULTI}/mpi-job.yaml:{_line(package / MULTI / 'mpi-job.yaml', 'Sometimes')}",
        f"{SINGLE}/mlops.env:{_line(package / SINGLE / 'mlops.env', quoted)}",
        f"{SINGLE}/pod-patch.yaml:{_line(package / SINGLE / 'pod-patch.yaml', one_thousand)}",
    ]
    assert "(write 1000 without quotes)" in lines[-1]


def test_json_contains_validity_problems_and_levels(mlpack: Run, package: Path, kubectl: Path) -> None:
    good = mlpack("verify", package, "--kubectl", kubectl, "-o", "json").json
    assert good["valid"] is True
    assert good["kubernetes"][0] == "1.25"
    assert good["security"] == [
        {"overlay": name, "level": "restricted", "exceeded": [], "levels": {"restricted": good["kubernetes"]}}
        for name in ("multi-node", "single-node")
    ]
    replace(package / SINGLE / "pod.yaml", "allowPrivilegeEscalation: false", "privileged: true")
    done = mlpack("verify", package, "--kubectl", kubectl, "-o", "json")
    assert done.code == 5
    assert done.json["valid"] is False
    assert [problem["file"] for problem in done.json["problems"]] == [f"{package}/{SINGLE}/pod.yaml"] * 2
    single = done.json["security"][1]
    assert (single["level"], single["levels"]) == ("privileged", {"privileged": good["kubernetes"]})
    assert {field["field"].rpartition(".")[2] for field in single["exceeded"]} == {
        "privileged",
        "allowPrivilegeEscalation",
    }
    line = (package / SINGLE / "pod.yaml").read_text().splitlines().index("        privileged: true") + 1
    assert single["exceeded"][0]["place"]["line"] == line


def test_verbose_reports_each_level_with_its_versions(mlpack: Run, package: Path, kubectl: Path) -> None:
    probe = "livenessProbe: {httpGet: {host: 10.6.6.6, port: 80}}"
    replace(package / SINGLE / "pod.yaml", "    - name: main\n", f"    - name: main\n      {probe}\n")
    done = mlpack("verify", package, "--kubectl", kubectl, "-v")
    assert done.code == 5
    levels = "Pod Security restricted in Kubernetes 1.25 to 1.33, privileged in Kubernetes 1.34 to 1.37"
    assert f"single-node: {levels}\n" in done.stderr
    assert "multi-node: Pod Security restricted\n" in done.stderr
    one = mlpack("verify", package, "--kubectl", kubectl, "-v", "--kubernetes-version", "1.30")
    assert f"rendered by {kubectl}; schemas and levels of Kubernetes 1.30\n" in one.stderr


def test_package_is_unchecked_without_kubectl(mlpack: Run, package: Path) -> None:
    done = mlpack("verify", package, "--kubectl", "no-such-kubectl")
    assert (done.code, done.stdout) == (6, "")
    assert done.stderr == "".join(
        f"not checked: no-such-kubectl: program not found, so {name} was not rendered with it\n"
        for name in ("multi-node", "single-node")
    )
    assert mlpack("verify", package, "--kubectl", "no-such-kubectl", "-o", "json").json["valid"] is None


def test_kubectl_warning_is_a_finding(mlpack: Run, package: Path, kubectl: Path, tmp_path: Path) -> None:
    warns = _stub(tmp_path / "warns", f'echo "# Warning: that is old" >&2; exec "{kubectl}" "$@"')
    done = mlpack("verify", package, "--kubectl", warns)
    assert done.code == 5
    assert f"{MULTI}/kustomization.yaml:1:1: {warns}: # Warning: that is old\n" in done.stdout


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 0", "{} kustomize printed nothing"),
        ("echo '- a'", "what it renders to: expected an object, found a list"),
        ("kill -9 $$", "{} kustomize: exit code -9"),
    ],
)
def test_kubectl_without_valid_output_is_a_finding(
    script: str, message: str, mlpack: Run, package: Path, tmp_path: Path
) -> None:
    stub = _stub(tmp_path / "stub", script)
    done = mlpack("verify", package, "--kubectl", stub)
    assert done.code == 5
    assert f"{package}/{MULTI}/kustomization.yaml:1:1: {message.format(stub)}" in done.stdout


def test_kubectl_with_endless_output_is_stopped(mlpack: Run, package: Path, tmp_path: Path) -> None:
    stub = _stub(tmp_path / "stub", "exec yes")
    done = mlpack("verify", package, "--kubectl", stub)
    assert (done.code, done.stdout) == (6, "")
    assert f"not checked: {stub} printed more than " in done.stderr
    assert mlpack("status", package, "--kubectl", stub).code == 6


def test_unknown_field_names_the_versions_without_it(mlpack: Run, package: Path, kubectl: Path) -> None:
    replace(
        package / SINGLE / "pod.yaml", "    - name: identity\n", "    - name: identity\n      restartPolicy: Always\n"
    )
    with opened(package) as opened_package:
        seal(opened_package)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert "unknown field 'restartPolicy' (in Kubernetes 1.25 to 1.27)\n" in done.stdout
    later = mlpack("verify", package, "--kubectl", kubectl, "--kubernetes-version", "1.28", "-o", "json")
    assert [problem["allow"] for problem in later.json["problems"]] == ["pod.spec.initContainers[].restartPolicy"]
    words = ("--allow", "pod.spec.initContainers[].restartPolicy", "--kubernetes-version", "1.28")
    assert mlpack("verify", package, "--kubectl", kubectl, *words).code == 0


def test_custom_resource_without_schema_is_unchecked(mlpack: Run, package: Path, kubectl: Path) -> None:
    (package / SINGLE / "more.yaml").write_text(
        "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: hello-mpi-a}\n"
    )
    replace(package / SINGLE / "kustomization.yaml", "  - pod.yaml\n", "  - pod.yaml\n  - more.yaml\n")
    with opened(package) as opened_package:
        seal(opened_package)
    done = mlpack("verify", package, "--kubectl", kubectl, "--allow", "Thing")
    assert (done.code, done.stdout) == (6, "")
    assert "Thing hello-mpi-a-single-node was not checked against a schema" in done.stderr


SERVER = [
    ("Unable to connect to the server: dial tcp 127.0.0.1:1: connect: connection refused", 6, "could not check"),
    ('Error from server (Forbidden): pods is forbidden: User "x" cannot create resource', 6, "could not check"),
    ("Warning: would violate PodSecurity", 5, "the cluster says: Warning: would violate PodSecurity"),
    (
        'The Pod "hello-mpi-single-node" is invalid: spec.restartPolicy: Unsupported value',
        5,
        "the cluster says: The Pod",
    ),
]


@pytest.mark.parametrize(("stderr", "code", "expected"), SERVER, ids=[case[0][:30] for case in SERVER])
def test_server_dry_run_reports_rejections_and_failed_checks(
    stderr: str, code: int, expected: str, mlpack: Run, package: Path, kubectl: Path, tmp_path: Path
) -> None:
    script = (
        f"""case "$*" in *--dry-run=server*) cat >&2 <<'END'\n{stderr}\nEND\nexit 1;; *) exec "{kubectl}" "$@";; esac"""
    )
    done = mlpack("verify", package, "--kubectl", _stub(tmp_path / "kubectl", script), "--server")
    assert done.code == code
    assert expected in (done.stdout if code == 5 else done.stderr)
    assert not (done.stdout if code == 6 else "")
    if "restartPolicy" in stderr:
        line = (package / SINGLE / "pod.yaml").read_text().splitlines().index("  restartPolicy: Never") + 1
        assert f"{SINGLE}/pod.yaml:{line}:" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kubernetes-version", "1.20"], "there are schemas for 1.25 to 1.37"),
        (["-n", "mine"], "say which cluster --server asks"),
    ],
)
def test_invalid_options_are_refused(options: list[str], message: str, mlpack: Run, package: Path) -> None:
    done = mlpack("verify", package, *options)
    assert done.code == 2
    assert message in done.stderr


def test_hint_to_fix_a_mode_runs_in_a_shell(mlpack: Run, package: Path, kubectl: Path, tmp_path: Path) -> None:
    script = "quickstart/scripts/hello.sh"
    (package / script).chmod(0o644)
    folder = package.rename(tmp_path / "-a b")
    pack(folder, tmp_path / "p.tar.gz")
    done = mlpack("verify", "--kubectl", kubectl, "--", folder.name)
    fix = f"chmod 0755 './-a b/{script}'"
    assert done.stdout == f"-a b/{script}: expected the mode 0755, found 0644 ({fix})\n"
    assert mlpack("verify", "--kubectl", kubectl, "p.tar.gz").stdout == (
        f"p.tar.gz:{script}: expected the mode 0755, found 0644\n"
    )
    subprocess.run(["sh", "-c", fix], cwd=tmp_path, check=True)
    assert mlpack("verify", "--kubectl", kubectl, "--", folder.name).code == 0


def test_kustomizations_that_are_not_overlays_are_refused(mlpack: Run, package: Path, kubectl: Path) -> None:
    files = (
        "quickstart/k8s/mlops/more/kustomization.yml",
        "quickstart/k8s/mlops/other/Kustomization",
        f"{SINGLE}/more/kustomization.yaml",
        "quickstart/k8s/mlops/kustomization.yaml",
        "quickstart/k8s/more/KUSTOMIZATION.yaml",
        "quickstart/kustomization.yaml",
        "quickstart/multi-node/kustomization.yaml",
    )
    for file in files:
        (package / file).parent.mkdir(exist_ok=True)
        (package / file).write_text("resources: []\n")
    with opened(package) as whole:
        seal(whole)
    done = mlpack("verify", package, "--kubectl", kubectl)
    message = "kubectl would use this as an overlay, but it is not one of the package's"
    hint = "an overlay is quickstart/k8s/mlops/NAME/kustomization.yaml"
    assert done.code == 5
    assert set(done.stdout.splitlines()) == {f"{package}/{file}: {message} ({hint})" for file in files}


def test_sequence_with_missing_overlay_is_refused(mlpack: Run, package: Path, kubectl: Path) -> None:
    inventory = json.loads((package / "manifest.json").read_text())
    inventory["sequence"] = ["single-node", "serving"]
    (package / "manifest.json").write_text(json.dumps(inventory))
    done = mlpack("verify", package, "--kubectl", kubectl)
    message = "the sequence names the overlay 'serving', which the package does not have"
    assert (done.code, done.stdout) == (5, f"{package}/manifest.json: {message}\n")


class _SlowRunner(Runner):
    """Starts programs; the clock advances by 100 seconds at each call."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clock(self) -> float:
        self.seconds += 100
        return self.seconds


def test_overlays_are_unchecked_after_the_time_for_rendering(package: Path, kubectl: Path) -> None:
    with opened(package) as opened_package:
        report = verify(opened_package, Checks(kubectls=(str(kubectl),), runner=_SlowRunner()))
    assert report.problems == ()
    assert [security.overlay for security in report.security] == ["multi-node"]
    assert report.unchecked == ("the other overlays took more than 120 seconds, so single-node was not rendered",)
