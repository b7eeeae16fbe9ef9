"""Tests of `mlpack push`, with `mlpack pull` and `mlpack inspect` of the result."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from packager.base import yamlio
from packager.base.process import Finished, Runner
from packager.cli.host import Host
from tests.conftest import Mlpack
from tests.publish import fake_registry, real_registry
from tests.publish.fake_registry import PASSWORD, REGISTRY_TOKEN, USER, FakeRegistry
from tests.publish.real_registry import DEBIAN, DISTRIBUTION, MODES, REFERRERS

ENV = "quickstart/k8s/mlops/single-node/mlops.env"


class Patient(Runner):
    """Waits for nothing."""

    def sleep(self, seconds: float) -> None:
        """Do not wait."""


@pytest.fixture(autouse=True)
def _tools(mlpack: Mlpack, kubectl: Path, no_logins: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    monkeypatch.setenv("KUBECTL", str(kubectl))
    mlpack.host = Host(Patient())


def where(registry: FakeRegistry, tag: str = ":1.0") -> str:
    return f"oci://{registry.host}/team/hello-mpi{tag}"


def test_pushed_archive_comes_back_unchanged(mlpack: Mlpack, registry: FakeRegistry, archive: Path) -> None:
    planned = mlpack("push", archive, where(registry), "--dry-run", "-o", "json").json
    assert registry.requests == []
    assert planned["images"] == ["docker.io/mpioperator/mpi-pi:openmpi"]
    done = mlpack("push", archive, where(registry))
    assert (done.code, done.stdout) == (0, f"{where(registry, '')}@{planned['digest']}\n")
    assert "layer hello-mpi.tar.gz " in done.stderr
    again = mlpack("push", archive, where(registry))
    assert (again.code, again.stdout) == (0, done.stdout)
    assert "the registry has it already: nothing was sent\n" in again.stderr
    pulled = mlpack("pull", done.stdout.strip(), "-d", "out")
    assert (pulled.code, pulled.stdout) == (0, "out/hello-mpi.tar.gz\n")
    assert Path("out/hello-mpi.tar.gz").read_bytes() == archive.read_bytes()
    assert mlpack("pull", where(registry), "-d", "out").code == 2
    assert mlpack("pull", where(registry), "-d", "out", "--force").code == 0


class Counting(Patient):
    """Counts what kubectl renders."""

    renders = 0

    def run(self, argv: Sequence[str], **options: Any) -> Finished:
        """Run a program."""
        Counting.renders += "kustomize" in argv
        return super().run(argv, **options)


def test_pushed_folder_carries_its_edits(mlpack: Mlpack, registry: FakeRegistry, package: Path) -> None:
    (package / ENV).write_text((package / ENV).read_text().replace("REGISTRY=docker.io", "REGISTRY=example.com"))
    done = mlpack("push", package, where(registry))
    assert done.code == 0
    assert f"edited: {ENV}\n" in done.stderr
    inspected = mlpack("inspect", where(registry), "-o", "json").json
    assert inspected["edited"] == [ENV]
    assert [image["image"] for image in inspected["images"]] == [
        "docker.io/mpioperator/mpi-pi:openmpi",
        "example.com/mpioperator/mpi-pi:openmpi",
    ]
    assert mlpack("pull", where(registry), "-d", "out", "--extract").stdout == "out/hello-mpi\n"
    assert "REGISTRY=example.com" in Path("out/hello-mpi", ENV).read_text()
    assert mlpack("verify", "out/hello-mpi").code == 0


def test_push_refuses_packages_that_verify_refuses(mlpack: Mlpack, registry: FakeRegistry, package: Path) -> None:
    (package / "README.md").write_text("mine")
    done = mlpack("push", package, where(registry))
    assert (done.code, done.stdout) == (5, "")
    assert "README.md: the content differs from what the package was sealed with\n" in done.stderr
    assert "did not pass verification; nothing was pushed" in done.stderr
    assert registry.requests == []


def test_version_is_reported_and_compared_with_the_tag(mlpack: Mlpack, registry: FakeRegistry, kubectl: Path) -> None:
    """Whoever may write to a registry can give an older package, signed as it is, the tag of a newer one."""
    assert mlpack("build", "hello-mpi", "--set", "version=1.0.0").code == 0
    digest = mlpack("push", "hello-mpi.tar.gz", where(registry, ":1.1.0")).stdout.strip()
    warning = f"warning: {where(registry, ':1.1.0')} is the version 1.0.0, which is also {digest}\n"
    done = mlpack("pull", where(registry, ":1.1.0"), "-d", "out", "-o", "json")
    assert done.json["package"]["version"] == "1.0.0"
    assert warning in done.stderr
    assert "package hello-mpi 1.0.0 sha256:" in done.stderr
    done = mlpack("verify", where(registry, ":1.1.0"), "--kubectl", kubectl)
    assert done.code == 5
    assert "the tag is 1.1.0, and the version of the package is 1.0.0" in done.stdout
    assert "version:        1.0.0\n" in mlpack("inspect", where(registry, ":1.1.0")).stdout
    done = mlpack("verify", digest, "--kubectl", kubectl)
    assert (done.code, done.stderr) == (0, "hello-mpi 1.0.0\n")


def test_inspect_reads_no_layer(mlpack: Mlpack, registry: FakeRegistry, archive: Path) -> None:
    layer = mlpack("push", archive, where(registry), "-o", "json").json["layer"]["digest"]
    registry.requests.clear()
    done = mlpack("inspect", where(registry))
    assert done.code == 0
    assert "image:          docker.io/mpioperator/mpi-pi:openmpi (not locked)\n" in done.stdout
    assert f"file:           {ENV}\n" in done.stdout
    assert [method for method, _, _ in registry.requests] == ["GET"] * 4
    assert not any(path.endswith(layer) for _, path, _ in registry.requests)
    assert mlpack("inspect", where(registry), "-o", "images").stdout == "docker.io/mpioperator/mpi-pi:openmpi\n"
    assert mlpack("inspect", where(registry), "-o", "name").stdout.startswith(where(registry, "@sha256:"))
    shown = mlpack("inspect", where(registry), "-o", "yaml").stdout
    assert yamlio.load(shown.encode(), "x")[0].data == mlpack("inspect", where(registry), "-o", "json").json
    assert mlpack("inspect", archive, "-o", "json").json["images"][0]["locked"] is False


def test_secrets_are_in_no_output(
    mlpack: Mlpack, registry: FakeRegistry, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.asks_for, registry.echo = "bearer", True
    login = {"username": USER, "password": PASSWORD}
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {registry.host: login}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    printed = []
    for code in (0, 500, 403, 400):
        for verb in (["push", archive, where(registry)], ["pull", where(registry), "-d", "out"]):
            registry.fault = partial(echoing, code=code)
            done = mlpack(*verb, "-v", *(["--no-verify"] if verb[0] == "push" else ["--force"]))
            printed += [done.stdout, done.stderr]
    text = "".join(printed)
    assert "+ PUT http://" in text
    for secret in (PASSWORD, REGISTRY_TOKEN, "cm9ib3Q6cGE1NS13b3Jk", "secret-state"):
        assert secret not in text


def echoing(handler: fake_registry.Handler, _number: int, *, code: int) -> bool:
    """Refuse authenticated requests with an error that repeats the credentials."""
    sent = handler.headers.get("Authorization")
    if code == 0 or sent is None or handler.path.startswith("/token"):
        return False
    handler.refuse(code, f"bad {sent}")
    return True


def test_push_without_tag_is_named_by_digest(mlpack: Mlpack, registry: FakeRegistry, archive: Path) -> None:
    done = mlpack("push", archive, where(registry, ""))
    assert done.code == 0
    assert "without a tag: only the digest names it\n" in done.stderr
    assert mlpack("pull", done.stdout.strip()).code == 0
    assert "names neither a tag nor a digest\n" in mlpack("pull", where(registry, "")).stderr


KINDS = (DEBIAN, *((DISTRIBUTION, REFERRERS) if real_registry.VARIABLE in os.environ else ()))
"""`python -m tests.registries` builds those that Debian does not have."""


@pytest.fixture(params=[f"{kind}-{mode}" for kind in KINDS for mode in MODES])
def real(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, list[str]]]:
    """A registry of another project: its host, and the options for it."""
    kind, mode = next((kind, mode) for kind in KINDS for mode in MODES if request.param == f"{kind}-{mode}")
    folder = tmp_path / "registry"
    folder.mkdir()
    with real_registry.serving(kind, mode, folder) as (host, options):
        login = {"auths": {host: {"username": real_registry.USER, "password": real_registry.PASSWORD}}}
        (tmp_path / "auth.json").write_text(json.dumps(login))
        monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
        monkeypatch.setenv("SSL_CERT_FILE", str(folder / "tls.crt"))
        yield host, options


@pytest.mark.thorough
def test_real_registry_stores_and_returns_the_archive(
    mlpack: Mlpack,
    real: tuple[str, list[str]],
    archive: Path,
) -> None:
    host, options = real
    reference = f"oci://{host}/team/hello-mpi"
    done = mlpack("push", archive, f"{reference}:1.0", "--tag", "latest", *options)
    assert (done.code, done.stderr.count("error")) == (0, 0)
    assert "nothing was sent" in mlpack("push", archive, f"{reference}:1.0", *options).stderr
    assert mlpack("inspect", f"{reference}:latest", "-o", "name", *options).stdout == done.stdout
    assert mlpack("pull", done.stdout.strip(), "-d", "out", *options).code == 0
    assert Path("out/hello-mpi.tar.gz").read_bytes() == archive.read_bytes()
    moved = mlpack("push", archive, f"{reference}:1.0", "--annotation", "a=b", *options)
    assert (moved.code, "--force moves the tag" in moved.stderr) == (5, True)
    assert mlpack("pull", f"{reference}:2.0", *options).code == 6
    image = mlpack("push", archive, f"oci://{host}/mpioperator/mpi-pi:openmpi", *options).stdout.strip()
    locked = mlpack("lock", archive, "--registry", host, "-d", "locked.tar.gz", *options)
    assert (locked.code, locked.stderr.count(f" is {image.partition('@')[2]}\n")) == (0, 2)
    assert mlpack("lock", "locked.tar.gz", "--check", *options).code == 0
    assert mlpack("bundle", "locked.tar.gz", "-d", "bundle.tar", *options).code == 0
    loaded = mlpack("load", "bundle.tar", "--registry", f"{host}/lab", *options).stdout.splitlines()
    assert loaded[1].removeprefix("oci://") == f"{host}/lab/mpioperator/mpi-pi@{image.partition('@')[2]}"
    assert mlpack("pull", loaded[0], "-d", "lab", *options).code == 0
    assert Path("lab/hello-mpi.tar.gz").read_bytes() == Path("locked.tar.gz").read_bytes()


@pytest.mark.thorough
def test_real_registry_keeps_a_signature(mlpack: Mlpack, real: tuple[str, list[str]], archive: Path) -> None:
    host, _ = real
    shutil.copy(archive, "hello-mpi.tar.gz")
    assert mlpack("key", "new", "prod", "--no-password").code == 0
    reference = f"oci://{host}/team/signed:1.0"
    push = ("push", "hello-mpi.tar.gz", reference, "--sign-key", "prod.key")
    assert mlpack(*push).code == 0
    assert "nothing was sent" in mlpack(*push).stderr
    trusted = ("--key", "prod.pub")
    shown = mlpack("inspect", reference, *trusted, "-o", "json").json
    assert [signature["trusted"] for signature in shown["signatures"]] == [True]
    assert mlpack("verify", reference, *trusted).code == 0
    assert mlpack("bundle", reference, "--no-images", *trusted).code == 0
    assert mlpack("load", "hello-mpi.bundle.tar", "--registry", f"{host}/lab", *trusted).code == 0
    assert mlpack("verify", f"oci://{host}/lab/signed:1.0", *trusted).code == 0
