"""Tests of `push` for a package that was verified before on this machine."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.publish import signer

if TYPE_CHECKING:
    from tests.conftest import Mlpack
    from tests.publish.fake_registry import FakeRegistry

pytestmark = pytest.mark.usefixtures("no_logins")

NOTE = "verified before on this machine: not rendered again\n"
CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = Path("hello-mpi.tar.gz")
VERDICTS = Path("cache/mlpack/verdicts/verdicts.json")


@pytest.fixture(autouse=True)
def _kubectl(
    mlpack: Mlpack,  # noqa: ARG001
    kubectl: Path,
    archive: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Write down each render of kubectl."""
    program = Path("kubectl").absolute()
    program.write_text(f'#!/bin/sh\n[ "$1" != kustomize ] || echo x >>"{program}.renders"\nexec {kubectl} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("KUBECTL", str(program))
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").absolute()))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    shutil.copy(archive, PACKAGE)


def renders() -> int:
    path = Path("kubectl.renders")
    return len(path.read_text().splitlines()) if path.exists() else 0


def where(registry: FakeRegistry) -> str:
    return f"oci://{registry.host}/team/hello-mpi:1.0"


def test_second_push_renders_nothing_and_stores_the_same(mlpack: Mlpack, registry: FakeRegistry) -> None:
    first = mlpack("push", PACKAGE, where(registry))
    assert (first.code, renders(), NOTE in first.stderr) == (0, 2, False)
    second = mlpack("push", PACKAGE, f"oci://{registry.host}/team/other:1.0")
    assert (second.code, renders(), NOTE in second.stderr) == (0, 2, True)
    assert first.stdout.partition("@")[2] == second.stdout.partition("@")[2]
    assert VERDICTS.parent.stat().st_mode & 0o777 == 0o700


def test_push_after_a_stamp_renders_nothing(mlpack: Mlpack, registry: FakeRegistry) -> None:
    assert mlpack("stamp", PACKAGE).code == 0
    before = renders()
    done = mlpack("push", PACKAGE, where(registry))
    assert (done.code, renders(), NOTE in done.stderr) == (0, before, True)


def test_verification_at_a_pod_security_level_is_not_remembered(mlpack: Mlpack, registry: FakeRegistry) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    edits = ("--with", "nfs", "--site", "NFS_SERVER=nfs.example.com", "--root", "/srv")
    assert mlpack("configure", "hello-mpi", *edits).code == 0
    assert mlpack("verify", "hello-mpi", "--pod-security", "baseline").code == 0
    done = mlpack("push", "hello-mpi", where(registry))
    assert (done.code, NOTE in done.stderr) == (5, False)
    assert "--pod-security baseline accepts it" in done.stderr


def test_stamp_by_the_key_that_does_not_hold_is_still_refused(mlpack: Mlpack, registry: FakeRegistry) -> None:
    key, file = signer.new("prod"), PACKAGE.with_name(f"{PACKAGE}.stamp.json")
    Path("prod.key").write_bytes(key.pem(None))
    Path("prod.key").chmod(0o600)
    assert mlpack("stamp", PACKAGE).code == 0
    value = json.loads(file.read_text())
    for overlay in value["predicate"]["mlpack"]["overlays"].values():
        overlay["renders"][0]["sha256"] = "0" * 64
    file.write_bytes(key.bundle(json.dumps(value).encode()))
    done = mlpack("push", PACKAGE, where(registry), "--sign-key", "prod.key")
    assert (done.code, "renders otherwise (sha256:" in done.stderr, NOTE in done.stderr) == (5, True, True)
    assert registry.manifests == {}


@pytest.mark.parametrize("change", ["edit", "kubectl", "level", "allow", "damaged", "shared", "gone"])
def test_package_is_rendered_again_after_a_change(mlpack: Mlpack, registry: FakeRegistry, change: str) -> None:
    assert mlpack("push", PACKAGE, where(registry)).code == 0
    package, options = PACKAGE, []
    match change:
        case "edit":
            package = Path("edited.tar.gz")
            assert mlpack("configure", PACKAGE, "--registry", "example.com", "-d", package).code == 0
        case "kubectl":
            os.utime("kubectl", (1, 1))
        case "level":
            options = ["--pod-security", "restricted"]
        case "allow":
            options = ["--allow", "Lease"]
        case "damaged":
            VERDICTS.write_bytes(VERDICTS.read_bytes()[:-1])
        case "shared":
            VERDICTS.parent.chmod(0o777)
        case _:
            VERDICTS.unlink()
    before = renders()
    done = mlpack("push", package, f"oci://{registry.host}/team/other:1.0", *options)
    assert (done.code, renders() > before, NOTE in done.stderr) == (0, True, False)


def test_package_with_a_problem_is_refused_each_time(mlpack: Mlpack, registry: FakeRegistry) -> None:
    shutil.unpack_archive(PACKAGE, "folder")
    (Path("folder") / "hello-mpi/quickstart/scripts/hello.sh").write_text("#!/bin/sh\n")
    for _ in range(2):
        done = mlpack("push", "folder/hello-mpi", where(registry))
        assert (done.code, NOTE in done.stderr, VERDICTS.exists()) == (5, False, False)


def test_file_that_flux_leaves_out_is_refused_also_after_a_stamp(mlpack: Mlpack, registry: FakeRegistry) -> None:
    """`stamp` does not look for it, so its verdict is not used."""
    shutil.copytree(CHECKOUT / "model_specs/hello-mpi", "model")
    Path("model/logo.png").write_bytes(b"a picture")
    assert mlpack("build", "model/spec.yaml", "--set", "files.1=logo.png", "-d", "built").code == 0
    assert mlpack("stamp", "built/hello-mpi.tar.gz").code == 0
    done = mlpack("push", "built/hello-mpi.tar.gz", where(registry))
    assert (done.code, "an overlay uses this file, and Flux leaves it out" in done.stderr) == (5, True), done.stderr


def test_push_keeps_the_last_64_verdicts(mlpack: Mlpack, registry: FakeRegistry) -> None:
    VERDICTS.parent.mkdir(parents=True, mode=0o700)
    VERDICTS.write_text(json.dumps({str(number): {} for number in range(100)}))
    assert mlpack("push", PACKAGE, where(registry)).code == 0
    names = list(json.loads(VERDICTS.read_text()))
    assert (len(names), names[0], names[-2]) == (64, "37", "99")
    assert NOTE in mlpack("push", PACKAGE, where(registry)).stderr
