"""Runs the sessions of the documents that need a registry, keys or several builds, and compares what they print.

`make sessions` writes what the commands print now into the documents. Digests, key fingerprints, sizes and dates may
differ: a change of a package changes them, and each of them must only stand for the same thing in all of a document.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.web import Network
from packager.publish.artefact import MANIFEST, descriptor
from packager.publish.client import Access
from packager.publish.reference import parse
from packager.publish.registry import Repository
from tests import demo, kubectls
from tests.publish import real_registry
from tests.test_docs import CHECKOUT, DOCUMENTS, EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

RECORDS = "MLPACK_SESSIONS"
"""The variable of the environment with which the tests write the documents."""

_CONFIG = "application/vnd.oci.image.config.v1+json"
_BLOCK = re.compile(r"^```console\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_CHANGING = re.compile(
    r"(?P<digest>sha256[:-][0-9a-f]{64}|(?<=\()[0-9a-f]{12}(?=\)))|(?P<key>(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=)"
    r"|(?P<size>\b\d[\d,]* bytes)|(?P<date>\b20\d\d-\d\d-\d\d\b)"
)


@dataclass
class Stage:
    """The machine of a session: an empty folder, programs, and registries.

    Attributes:
        folder: The folder in which the commands run.
        hosts: The host of each registry here, by its name in the document.
    """

    folder: Path
    variables: dict[str, str]
    hosts: dict[str, str] = field(default_factory=dict)

    def run(self, command: str) -> str:
        """Run a command of the document, and return what it prints, with the names of the document."""
        done = subprocess.run(
            ["bash", "-c", self._replaced(command)],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        printed = (done.stdout + done.stderr).removesuffix("\n").replace(f"{CHECKOUT}/", "")
        for name, host in self.hosts.items():
            printed = printed.replace(host, name)
        return printed

    def prepare(self, *commands: str) -> None:
        """Run commands that the document does not show. Raises AssertionError if one fails."""
        for command in commands:
            argv = shlex.split(self._replaced(command))
            done = subprocess.run(
                argv, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False, timeout=300
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    @contextmanager
    def registry(self, name: str) -> Generator[None, None, None]:
        """Start a registry, which the document calls `name`, and stop it at the end."""
        files = self.folder.parent / f"files-{len(self.hosts)}"
        files.mkdir()
        with real_registry.serving(real_registry.DEBIAN, real_registry.ANONYMOUS, files) as (host, _):
            self.hosts[name] = host
            yield

    def store(self, registry: str, repository: str, tag: str) -> None:
        """Store an image, whose content does not matter, in a registry."""
        reference = parse(f"oci://{self.hosts[registry]}/{repository}:{tag}")
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"User": repository}})
        blob = descriptor(config.encode())
        entry = {"mediaType": _CONFIG, "digest": blob.digest, "size": blob.size}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": entry, "layers": []}
        with Repository(reference, Access(Network(), plain_http=True), may_push=True) as images:
            images.upload(blob, config.encode(), lambda _: None)
            images.put_manifest(tag, json.dumps(manifest).encode())

    def _replaced(self, command: str) -> str:
        for name, host in self.hosts.items():
            command = command.replace(name, host)
        return command


def _publish(stage: Stage) -> Generator[None, None, None]:
    with stage.registry("localhost:5000"):
        stage.prepare(
            "mlpack build hello-mpi",
            "mlpack key new other --no-password",
        )
        stage.store("localhost:5000", "mpioperator/mpi-pi", "openmpi")
        while True:
            yield


def _airgap(stage: Stage) -> Generator[None, None, None]:
    with stage.registry("registry.example.com"):
        stage.prepare(
            "mlpack build hello-mpi --registry registry.example.com",
            "mlpack key new prod --no-password",
        )
        stage.store("registry.example.com", "mpioperator/mpi-pi", "openmpi")
        yield
    with stage.registry("registry.lab.example.com"):
        while True:
            yield


_MODEL = """name: my-model
title: My model
version: VERSION
framework: mpi
image: {name: my-model, tag: "1.0"}
files: [train.sh]
environment:
  STEPS: {value: 5, description: How many steps to take.}
overlays:
  single-node: {kind: Pod}
variants:
  - {precision: fp32, mode: training, script: train.sh}
"""


def _upgrade(stage: Stage) -> Generator[None, None, None]:
    batch = "  BATCH: {value: 32, description: How many samples a step takes.}\noverlays:"
    specs = {
        "1.0.0": _MODEL,
        "1.1.0": _MODEL.replace("overlays:", batch),
        "2.0.0": _MODEL.replace("overlays:", batch).replace("value: 5", "value: 6"),
    }
    models = stage.folder.parent / "models"
    for version, spec in specs.items():
        demo.write(models, spec.replace("VERSION", version))
        stage.prepare("mlpack build ../models/spec.yaml --versioned")
    name = "my-model-fp32-training"
    stage.prepare(f"tar xf {name}-1.0.0.tar.gz", f"rm {name}-1.0.0.tar.gz")
    overlay = stage.folder / name / "quickstart/k8s/mlops/single-node"
    for file, old, new in (
        ("mlops.env", "STEPS=5", "STEPS=7"),
        ("pod-patch.yaml", "runAsUser: 1000", "runAsUser: 2000"),
    ):
        text = (overlay / file).read_text(encoding="utf-8")
        assert old in text
        (overlay / file).write_text(text.replace(old, new), encoding="utf-8")
    while True:
        yield


def _verify(stage: Stage) -> Generator[None, None, None]:
    with stage.registry("registry.example.com"):
        for minor in (kubectls.VERSIONS[0], kubectls.VERSIONS[-1]):
            name = ".".join(minor.split(".")[:2])
            (stage.folder.parent / "bin" / f"kubectl-{name}").symlink_to(kubectls.kubectl(minor))
        stage.prepare(
            "mlpack build hello-mpi",
            "mlpack key new prod --no-password",
            "mlpack push hello-mpi.tar.gz oci://registry.example.com/team/hello-mpi:2.0",
        )
        while True:
            yield


SESSIONS: dict[str, Callable[[Stage], Generator[None, None, None]]] = {
    "docs/airgap.md": _airgap,
    "docs/publish.md": _publish,
    "docs/upgrade.md": _upgrade,
    "docs/verify.md": _verify,
}
"""Documents with sessions, and what prepares the machine before each block of commands."""


@pytest.fixture
def stage(kubectl: Path, tmp_path: Path) -> Stage:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").symlink_to(kubectl)
    (tmp_path / "work").mkdir()
    path = [tmp_path / "bin", Path(sys.executable).parent, *map(Path, os.environ["PATH"].split(os.pathsep))]
    variables = {
        "PATH": os.pathsep.join(map(str, path)),
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        "MLPACK_KEY_PASSWORD": "secret",
        # No other machine is asked.
        "https_proxy": "http://127.0.0.1:1",
        "http_proxy": "http://127.0.0.1:1",
        "no_proxy": "localhost,127.0.0.1",
    }
    return Stage(tmp_path / "work", variables)


@pytest.mark.thorough
@pytest.mark.parametrize("document", SESSIONS)
def test_document_shows_output_of_its_session(document: str, stage: Stage) -> None:
    """If it fails, run `make sessions`, and read the diff."""
    path = CHECKOUT / document
    text = path.read_text(encoding="utf-8")
    scenario = SESSIONS[document](stage)
    recorded: dict[str, str] = {}
    for block in _BLOCK.findall(text):
        next(scenario)
        commands = [example.partition("\n")[0] for example in block.removeprefix("$ ").split("\n$ ")]
        recorded[block] = "\n".join(f"$ {command}\n{stage.run(command)}".rstrip("\n") for command in commands)
    scenario.close()
    assert recorded
    if os.environ.get(RECORDS) and _comparable(recorded.values()) != _comparable(recorded):
        for block, printed in recorded.items():
            text = text.replace(f"```console\n{block}\n```", f"```console\n{printed}\n```")
        path.write_text(text, encoding="utf-8")
        return
    assert _comparable(recorded.values()) == _comparable(recorded)


def test_every_console_block_of_the_documents_is_run() -> None:
    documents = {str(path.relative_to(CHECKOUT)) for path in DOCUMENTS if _BLOCK.search(path.read_text("utf-8"))}
    assert documents == {name for name in (*EXAMPLES, *SESSIONS) if name in documents}


def _comparable(blocks: Iterable[str]) -> list[str]:
    """Return the lines of a document's blocks, each value that may change replaced by its kind and its number."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        kind, value = str(match.lastgroup), match.group().replace("-", ":")
        if kind in ("size", "date"):
            return kind.upper()
        return f"{kind.upper()}{numbers.setdefault(value, len(numbers))}"

    return _CHANGING.sub(number, "\n".join(blocks)).splitlines()
