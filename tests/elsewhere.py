"""Kustomizations that would let kustomize fetch or run something outside of the package; and a counting server.

Each case replaces files of a valid hello-mpi. `URL` is the server's address. `^` marks the position that the problem
must have, and is removed.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SINGLE = "quickstart/k8s/mlops/single-node"
COMMON = "quickstart/common/mpi/k8s/mlops"
KUSTOMIZATION = f"{SINGLE}/kustomization.yaml"
GPU = f"{COMMON}/gpu/patch"

FETCHED = "is fetched from elsewhere, but a package must contain all it needs"
FORBIDDEN = "it can make kustomize fetch or run something outside the package"
NO_TRANSFORMER = "expected a folder of PatchTransformers: a package has no other transformers"
NOT_HERE = "expected a PatchTransformer (apiVersion: builtin) or the options' PodTemplate: no others are allowed here"


@dataclass(frozen=True)
class Case:
    """A hostile kustomization.

    Attributes:
        name: A short description of the attack.
        content: The overlay's kustomization.
        message: The expected problem with its hint.
        others: More files, by path.
        fetches: Whether the default kubectl without mlpack sends a request to the server.
    """

    name: str
    content: str
    message: str
    others: dict[str, str] = field(default_factory=dict)
    fetches: bool = False

    def put_in(self, package: Path, address: str) -> str:
        """Write the case into a package, and return the position that the problem must have: `path:line:column`."""
        place = ""
        for path, text in {KUSTOMIZATION: self.content, **self.others}.items():
            before, mark, after = text.replace("URL", address).partition("^")
            file = package / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(before + after, encoding="utf-8")
            if mark:
                place = f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        return place


@dataclass
class Server:
    """Answers every request with a manifest, and counts the connections."""

    address: str
    hits: int = 0


@contextmanager
def server() -> Iterator[Server]:
    """Serve on the loopback until the block ends."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: fetched\n"
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = Server(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                serving.hits += 1
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield serving
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


HEAD = "resources:\n  - pod.yaml\n"
WITH_GPU = f"{HEAD}components:\n  - ../../../common/mpi/k8s/mlops/gpu\n"


def _address(entry: str, message: str = f"ENTRY {FETCHED}", *, fetches: bool = False) -> Case:
    content = f"{HEAD}  - ^{entry}\n"
    return Case(f"resource {entry}", content, message.replace("ENTRY", entry), fetches=fetches)


def _field(text: str, message: str = f"URL/x.yaml {FETCHED}", *, fetches: bool = True) -> Case:
    return Case(text.replace(chr(10), " "), f"{HEAD}{text}\n", message, fetches=fetches)


def _key(text: str, known: str, *, fetches: bool = True) -> Case:
    key = text.partition("^")[2].partition(":")[0]
    return _field(text, f"unknown field {key!r} (did you mean {known!r}?)", fetches=fetches)


def _transformer(manifest: str, message: str) -> Case:
    return Case(f"transformer {manifest.replace(chr(10), ' ')}", WITH_GPU, message, {f"{GPU}/gpu.yaml": manifest})


def _among(addition: str, message: str) -> Case:
    kustomization = f"kind: Kustomization\nresources:\n  - gpu.yaml\n{addition}\n"
    return Case(
        f"transformers {addition.replace(chr(10), ' ')}",
        WITH_GPU,
        message,
        {f"{GPU}/kustomization.yaml": kustomization},
    )


CASES = (
    _address("URL/x.yaml", fetches=True),
    _address("URL/a/b.git?ref=main"),
    _address("git@example.com:a/b"),
    _address("github.com/a/b"),
    _address("my_git/b"),
    _address("C:/a"),
    _address("example.com/a/b", "there is no ENTRY"),
    _address("/etc/hosts", "ENTRY leads out of the package"),
    _field(
        "^bases:\n  - URL/x.yaml",
        "unknown field 'bases' (it is deprecated: list them under `resources`)",
        fetches=False,
    ),
    _field("components:\n  - ^URL/x.yaml", fetches=False),
    _field("crds:\n  - ^URL/x.yaml"),
    _field("configurations:\n  - ^URL/x.yaml"),
    _field("patches:\n  - path: ^URL/x.yaml"),
    _field("replacements:\n  - path: ^URL/x.yaml"),
    _field("configMapGenerator:\n  - name: a\n    files:\n      - ^URL/x.yaml"),
    _field("configMapGenerator:\n  - name: a\n    files:\n      - ^a=URL/x.yaml"),
    _field("configMapGenerator:\n  - name: a\n    envs:\n      - ^URL/x.yaml"),
    _field(
        "configMapGenerator:\n  - name: a\n    ^env: URL/x.yaml", "unknown field 'env' (it is deprecated: use `envs`)"
    ),
    _field("secretGenerator:\n  - name: a\n    envs:\n      - ^URL/x.yaml"),
    _field("transformers:\n  - ^URL/x.yaml"),
    _field("transformers:\n  - ^pod.yaml", NO_TRANSFORMER, fetches=False),
    _field("^generators:\n  - URL/x.yaml", f"unknown field 'generators' ({FORBIDDEN})"),
    _field("^openapi:\n  path: URL/x.yaml", f"unknown field 'openapi' ({FORBIDDEN})"),
    _field(
        "^helmCharts: []", "unknown field 'helmCharts' (it needs more than kubectl: list what it makes)", fetches=False
    ),
    _field("images:\n  - ^tag: x", "unknown field 'tag'", fetches=False),
    _key("^crd\u017f:\n  - URL/x.yaml", "crds"),
    _key("^\u212aind: Kustomization", "kind", fetches=False),
    _key("patches:\n  - ^Path: URL/x.yaml", "path"),
    _key("configMapGenerator:\n  - name: a\n    ^Files: [URL/x.yaml]", "files"),
    _field(
        "^<<: {crds: [URL/x.yaml]}",
        "<< is not allowed here: not every YAML parser merges keys (write the entries out)",
    ),
    _field(
        "namePrefix: ^&a URL/x.yaml\ncrds:\n  - *a",
        "anchors are not allowed here, found &a (write the value out wherever it is needed)",
    ),
    _field(
        "crds:\n  - ^!!binary aHR0cDovL2V4YW1wbGUuY29t",
        "YAML tags are not allowed here, found tag:yaml.org,2002:binary (remove it, or quote the value)",
        fetches=False,
    ),
    _field("crds: []\n^crds:\n  - URL/x.yaml", "duplicate key 'crds' (keep one of them)", fetches=False),
    _field("crds: ^URL/x.yaml", "expected a list", fetches=False),
    Case("JSON", '^{"crds": ["URL/x.yaml"]}', "expected one mapping, with one key per line", fetches=True),
    Case("two documents", f"^{HEAD}---\ncrds: [URL/x.yaml]\n", "expected one mapping, with one key per line"),
    Case(
        "a directive",
        f"^%YAML 1.1\n---\n{HEAD}crds: [URL/x.yaml]\n",
        "YAML directives are not allowed here (remove them)",
        fetches=True,
    ),
    Case(
        "a line that some readers end",
        f"{HEAD}# a comment^\u0085crds: [URL/x.yaml]\n",
        "the character U+0085 ends a line for some YAML parsers but not for others",
        fetches=True,
    ),
    Case(
        "a second kustomization",
        f"^{HEAD}",
        f"the folder {SINGLE} has kustomization.yaml and kustomization.yml: kubectl accepts only one of them",
        {f"{SINGLE}/kustomization.yml": "crds: [URL/x.yaml]\n"},
    ),
    Case(
        "a file of replacements",
        f"{HEAD}replacements:\n  - path: more.yaml\n",
        "unknown field 'Source' (did you mean 'source'?)",
        {f"{SINGLE}/more.yaml": "- targets: []\n  ^Source: {}\n"},
    ),
    _transformer(
        "apiVersion: builtin\nkind: PatchTransformer\n^path: URL/x.yaml\n",
        "unknown field 'path' (did you mean 'patch'?)",
    ),
    _transformer("apiVersion: builtin\nkind: ^PatchJson6902Transformer\npath: URL/x.yaml\n", NOT_HERE),
    _transformer("apiVersion: v1\nkind: ^List\nitems: [{apiVersion: builtin, kind: ConfigMapGenerator}]\n", NOT_HERE),
    _among("patches:\n  - ^path: gpu.yaml", "unknown field 'path' (did you mean 'patch'?)"),
    _among(
        "patches:\n  - ^patch: '[{op: add, path: /path, value: URL/x.yaml}]'",
        "expected `$patch: delete` in the patch: other patches are not allowed there",
    ),
    _among(
        "replacements:\n  - source: {kind: ConfigMap, name: a}\n"
        "    targets:\n      - ^select: {kind: PatchTransformer}\n        fieldPaths: [path]",
        "expected the field `patch` of a PatchTransformer: transformers may set nothing else",
    ),
    _among("^transformers: []", "unknown field 'transformers'"),
)
