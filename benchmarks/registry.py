"""A large blob to a registry and back, against curl and sha256sum; requests of `inspect`; CPU of a small push.

The registry is Debian's docker-registry, on this machine. Needs it, curl, and 8 GiB in the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks.measure import IMPORT_TYPER, MLPACK, PYTHON, Result, Usage, in_turn, run
from tests import kubectls, tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = int(os.environ.get("MLPACK_BENCH_BYTES", str(2 << 30)))
_PIECE = 1 << 20
_ROUNDS = 3

# The client alone, as push and pull use it: both compute the digest.
_CLIENT = """
import sys
from pathlib import Path
from packager.base.web import digest_of
from packager.publish.client import Access
from packager.publish.reference import parse
from packager.publish.registry import Repository
from packager.base.web import Network
from packager.publish.artefact import Descriptor
verb, name, path, digest, size = sys.argv[1:]
with Repository(parse(name), Access(Network()), may_push=verb == "push") as registry:
    if verb == "push":
        assert registry.upload(Descriptor(f"sha256:{digest_of(Path(path))}", int(size)), Path(path))
    else:
        with open(path, "wb") as stream:
            registry.download(Descriptor(digest, int(size)), stream)
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
Path(path).with_suffix(".memory").write_text(peak)
"""

_CURL_PUSH = r"""
digest=$(sha256sum <"$2" | cut -d' ' -f1)
place=$(curl -sS -D - -o /dev/null -X POST "$1/blobs/uploads/" | tr -d '\r' | sed -n 's/^Location: //p')
curl -sSf -o /dev/null -H 'Content-Type: application/octet-stream' -T "$2" "$place&digest=sha256:$digest"
"""
_CURL_PULL = r"""
curl -sSf -L "$1/blobs/$3" -o "$2"
test "sha256:$(sha256sum <"$2" | cut -d' ' -f1)" = "$3"
"""


def measure(folder: Path) -> Iterator[Result]:
    """Yield the results."""
    with _registry(folder) as host:
        yield from _transfers(folder, host)
        yield from _small(folder, host)


def _transfers(folder: Path, host: str) -> Iterator[Result]:
    blob, copy = folder / "blob", folder / "copy"
    usages: dict[str, list[tuple[Usage, Usage]]] = {"push": [], "pull": []}
    memory: dict[str, list[float]] = {"push": [], "pull": []}
    for number in range(_ROUNDS):
        digest = _fill(blob)
        for verb, path in (("push", blob), ("pull", copy)):
            pair = []
            for client, script in (("ours", ""), ("curls", _CURL_PUSH if verb == "push" else _CURL_PULL)):
                name = f"team/{client}{number}"
                copy.unlink(missing_ok=True)
                if script:
                    argv = ["sh", "-euc", script, "x", f"http://{host}/v2/{name}", str(path), digest]
                else:
                    argv = [PYTHON, "-c", _CLIENT, verb, f"oci://{host}/{name}:1", str(path), digest, str(SIZE)]
                pair.append(run(argv, folder / "caches"))
            usages[verb].append((pair[0], pair[1]))
            memory[verb].append(int(path.with_suffix(".memory").read_text(encoding="ascii")) / 1024)
    for verb, pairs in usages.items():
        ratios = tuple(ours.wall / curls.wall for ours, curls in pairs)
        yield Result(f"{verb} of {SIZE >> 20} MiB against curl and sha256sum", ratios, "", 1.3)
        yield Result(f"{verb}: memory", tuple(memory[verb]), "MiB", 64)
    for path in (blob, copy):
        path.unlink()


def _fill(path: Path) -> str:
    """Write random bytes, and return their digest."""
    hashed = hashlib.sha256()
    with path.open("wb") as stream:
        for _ in range(SIZE // _PIECE):
            piece = os.urandom(_PIECE)
            hashed.update(piece)
            stream.write(piece)
    return f"sha256:{hashed.hexdigest()}"


def _small(folder: Path, host: str) -> Iterator[Result]:
    variables = {"KUBECTL": str(kubectls.kubectl()), "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    os.environ.update(variables)
    run(
        [*MLPACK, "build", "resnet50", "--precision", "fp32", "--mode", "training", "-d", str(folder)],
        folder / "caches",
    )
    run([*MLPACK, "key", "new", str(folder / "prod"), "--no-password"], folder / "caches")
    package = str(next(folder.glob("*.tar.gz")))
    push = [*MLPACK, "push", package, f"oci://{host}/team/resnet50:1.0", "--sign-key", str(folder / "prod.key")]
    run(push, folder / "caches")
    overlays = folder / "unpacked"
    run([*MLPACK, "pull", push[len(MLPACK) + 2], "--extract", "-d", str(overlays)], folder / "caches")
    renders = " && ".join(
        f"$KUBECTL kustomize {path.parent}" for path in overlays.glob("*/quickstart/k8s/*/*/mlops.env")
    )
    rounds = in_turn([push[:-2], ["sh", "-c", renders], IMPORT_TYPER], folder / "caches", 5)
    ratios = tuple((ours.cpu - its.cpu) / base.cpu for ours, its, base in rounds)
    yield Result("push of resnet50, without kubectl's CPU, against import typer", ratios, "", 4)
    yield Result("the same, with it", tuple(ours.cpu / base.cpu for ours, _, base in rounds))
    done = subprocess.run(
        [*MLPACK, "inspect", "-v", f"oci://{host}/team/resnet50:1.0"], capture_output=True, text=True, check=True
    )
    requests = len(re.findall(r"^\+ GET ", done.stderr, re.MULTILINE))
    yield Result("inspect: requests", (float(requests),), "", 6)
    again = subprocess.run([*push, "-o", "json"], capture_output=True, text=True, check=True)
    yield Result("blobs that a second push sends", (float(len(json.loads(again.stdout)["sent"])),), "", 0)


@contextmanager
def _registry(folder: Path) -> Iterator[str]:
    """Run a registry, and yield its host and port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (folder / "config.yml").write_text(json.dumps(config), encoding="utf-8")
    argv = [tools.require("docker-registry"), "serve", str(folder / "config.yml")]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(200):
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
