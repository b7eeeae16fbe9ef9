"""Tests of registries that the cluster pulls from: of locked images, and of a site without a network."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e import registry
from tests.e2e.site import CHECKOUT
from tests.testbed import dockerfiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.e2e.registry import ClusterRegistry
    from tests.e2e.site import Site

IMAGE = "mpioperator/mpi-pi"
POD = "hello-mpi-single-node"
PULLED = f"kubectl get pod {POD} -o jsonpath='{{.status.containerStatuses[0].imageID}}'"

_RUN = re.compile(r"^## Run$.*?^```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@pytest.fixture
def serving(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], AbstractContextManager[ClusterRegistry]]:
    """Return a function that starts a registry in a new folder of this name; mlpack trusts both."""
    if "MLPACK_E2E_CONTEXT" in os.environ:
        pytest.skip("only the node of tests/testbed is told which certificates to trust")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*")
        site.environment[name] = "*"
    site.environment["DOCKER_CONFIG"] = str(tmp_path / "no-docker")
    return lambda name: registry.serving(tmp_path / name)


def trust(site: Site, *registries: ClusterRegistry) -> None:
    """Let mlpack trust the certificates of registries."""
    path = site.folder.parent / "certificates.crt"
    path.write_bytes(b"".join(one.certificate.read_bytes() for one in registries))
    site.environment["SSL_CERT_FILE"] = str(path)


@pytest.mark.thorough
def test_locked_image_runs_after_its_tag_has_moved(
    site: Site, serving: Callable[[str], AbstractContextManager[ClusterRegistry]]
) -> None:
    with serving("registry") as images:
        trust(site, images)
        locked = images.store(IMAGE, "openmpi")
        package = site.build("hello-mpi", "--registry", images.host)
        site.run(f"cp -r {package.name} unlocked && mlpack lock {package.name}")
        site.run(f"mlpack lock {package.name} --check && mlpack verify {package.name} --require-locked")
        moved = images.store(IMAGE, "openmpi")
        refused = site.shell(f"mlpack lock {package.name} --check")
        assert (refused.returncode, moved in refused.stderr) == (5, True), refused.stderr
        for folder, digest in (("unlocked", moved), (package.name, locked)):
            overlay = f"{folder}/quickstart/k8s/mlops/single-node"
            site.run(f"kubectl -k {overlay} apply")
            assert site.end_of_pod(POD) == "Succeeded"
            assert site.run(PULLED) == f"{images.host}/{IMAGE}@{digest}"
            site.run(f"kubectl -k {overlay} delete")


@pytest.mark.thorough
def test_package_of_a_bundle_runs_from_the_second_registry(
    site: Site, serving: Callable[[str], AbstractContextManager[ClusterRegistry]]
) -> None:
    """The first registry is stopped before. The last commands are those of docs/airgap.md, and print the same."""
    site.run("mlpack key new prod --no-password")
    with serving("first") as first:
        trust(site, first)
        digest = first.store(IMAGE, "openmpi")
        site.run(f"mlpack build hello-mpi --registry {first.host}")
        reference = f"oci://{first.host}/team/hello-mpi:1.0"
        site.run(f"mlpack push hello-mpi.tar.gz {reference} --sign-key prod.key")
        site.run(f"mlpack bundle {reference} --key prod.pub && rm hello-mpi.tar.gz*")
    assert site.shell(f"mlpack inspect {reference}").returncode == 6
    with serving("second") as second:
        trust(site, second)
        site.run("mlpack verify hello-mpi.bundle.tar --key prod.pub")
        site.run(f"mlpack load hello-mpi.bundle.tar --registry {second.host} --key prod.pub --extract .")
        site.run(f"mlpack verify oci://{second.host}/hello-mpi:1.0 --key prod.pub")
        assert _session(site, second.host) == _recorded()
        assert site.run(PULLED) == f"{second.host}/{IMAGE}@{digest}"


def _recorded() -> str:
    """Return the session on the cluster in docs/airgap.md, without its digests."""
    match = _RUN.search((CHECKOUT / "docs/airgap.md").read_text("utf-8"))
    assert match
    return _DIGEST.sub("sha256:…", match[1])


def _session(site: Site, host: str) -> str:
    """Run the commands of this session, and return what they print in the same form."""
    commands = [line.removeprefix("$ ") for line in _recorded().splitlines() if line.startswith("$ ")]
    printed = "\n".join(f"$ {command}\n{site.run(command)}".rstrip("\n") for command in commands)
    return _DIGEST.sub("sha256:…", printed.replace(host, "registry.lab.example.com"))


SHOW = """#!/usr/bin/env python3
import os
print(open(os.path.join(os.environ["OUTPUT_DIR"], "labels.csv")).read())
"""
LABELS = "brought in the bundle\n"
SPEC: dict[str, Any] = {
    "name": "bundled",
    "title": "Bundled",
    "framework": "python",
    "image": {"registry": "localhost", "name": "clients", "tag": "1"},
    "files": ["show.py"],
    "overlays": {"single-node": {"kind": "Pod"}},
    "variants": [{"script": "show.py", "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "256Mi"}}}],
}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder on this machine, and yield the address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.thorough
def test_bundle_carries_a_source_and_an_image_of_this_machine(
    site: Site, serving: Callable[[str], AbstractContextManager[ClusterRegistry]], claim: str, tmp_path: Path
) -> None:
    """The server of the source is stopped, and the registry has seen neither before."""
    model, files = site.folder / "model", tmp_path / "files"
    for folder in (model, files):
        folder.mkdir()
    (files / "labels.csv").write_text(LABELS)
    (model / "show.py").write_text(SHOW)
    with served(files) as url:
        digest = hashlib.sha256(LABELS.encode()).hexdigest()
        source = {"from": f"{url}/labels.csv", "to": "OUTPUT_DIR/labels.csv", "sha256": digest, "size": len(LABELS)}
        (model / "spec.yaml").write_text(json.dumps({**SPEC, "sources": [source]}))
        site.run(f"mlpack build ./model --root /srv {claim}")
        image = dockerfiles.build(CHECKOUT / "tests/e2e/specs/clients")
        site.run(f"mlpack bundle bundled.tar.gz --image-archive {image} && rm bundled.tar.gz")
    with serving("second") as second:
        trust(site, second)
        site.run(f"mlpack load bundled.bundle.tar --registry {second.host} --extract .")
        site.run("mlpack workspace push bundled bundled.sources/OUTPUT_DIR --folder OUTPUT_DIR")
        site.run("kubectl -k bundled/quickstart/k8s/mlops/single-node apply")
        assert site.end_of_pod("bundled-single-node") == "Succeeded"
        assert site.log("bundled-single-node").strip() == LABELS.strip()
