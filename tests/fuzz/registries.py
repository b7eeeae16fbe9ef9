"""Hostile answers of a registry: mutated manifests, configs, layers and signatures, and answers that are not HTTP's."""

from __future__ import annotations

import gc
import gzip
import json
import os
from contextlib import ExitStack, suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest import mock

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from packager.publish import client
from tests.fuzz import inputs, mutate, packages
from tests.fuzz.demands import broken
from tests.publish import fake_registry
from tests.publish.fake_registry import digest_of

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from tests.fuzz.runner import Judge
    from tests.publish.fake_registry import FakeRegistry, Fault, Handler

_RUNNING = ExitStack()
"""The registry of this process, which ends with it."""

_REPOSITORY = "team/hello-mpi"
_TAG = "1.0"

_MOST = 32 << 20
"""The most bytes of answers that a command takes: several of 4 MiB, and what the system buffers of an endless one."""

_ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    b"HTTP/1.1 99999 ?\r\n\r\n",
    b"HTTP/9.9 200\r\n\r\n",
    b"\0" * 100,
    b"SSH-2.0-x\r\n\r\n",
    b"",
)
_PLACES = (
    "/v2/",
    "//localhost",
    "http://localhost:1/",
    "file:///etc/passwd",
    "http://[::1",
    "\x1b[2J",
    "x" * 100_000,
)
_CHALLENGES = (
    "Basic",
    "Bearer",
    'Bearer realm="file:///etc/passwd"',
    'Bearer realm="http://localhost:1/",service="x"',
    'Bearer realm="//x',
    'Bearer realm="' + "x" * 10_000,
    "Digest x",
    "=,=,=",
)
_LISTS = {"tags": ["1.0", "../x"], "manifests": [{"digest": "sha256:" + "0" * 64, "size": 1}], "token": "x"}
_COMMANDS = (
    ("inspect",),
    ("inspect", "-o", "json"),
    ("inspect", "--key", "KEY"),
    ("pull", "-d", "OUT", "--extract"),
    ("pull", "-d", "OUT", "--key", "KEY"),
)


def subject(work: Path) -> Judge:
    """Return the judge of answers of a registry."""
    stack = _RUNNING
    registry = stack.enter_context(fake_registry.serving())
    home = work / "home"
    home.mkdir()
    stack.enter_context(mock.patch.dict(os.environ, {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}))
    for name in ("REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "MLPACK_KEYS", "XDG_CONFIG_HOME", "http_proxy", "https_proxy"):
        os.environ.pop(name, None)
    for name in ("_FIRST_PAUSE", "_LONGEST_PAUSE"):
        stack.enter_context(mock.patch.object(client, name, 0))
    _bombs()
    key = _push(work, registry)
    return _judge(work, registry, key, (dict(registry.blobs), dict(registry.manifests)))


def _push(work: Path, registry: FakeRegistry) -> Path:
    """Store a signed package in the registry, and return the public key."""
    seeds = inputs.Seeds(work / "seeds")
    package = work / "hello-mpi"
    for name, (content, mode) in seeds.packages["hello-mpi"].items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    temporary = work / "tmp"
    temporary.mkdir()
    where = f"oci://{registry.host}/{_REPOSITORY}:{_TAG}"
    private = ec.derive_private_key(1, ec.SECP256R1())  # always the same, so that the same seed makes the same inputs
    (work / "prod.key").write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (work / "prod.pub").write_bytes(public)
    argv = ["push", str(package), where, "--sign-key", str(work / "prod.key"), "--no-verify"]
    wrong, output = broken(inputs.Input(argv, work), work, temporary)
    if (_REPOSITORY, _TAG) not in registry.manifests:
        raise RuntimeError(f"{wrong}\n{output}")
    return work / "prod.pub"


def _judge(work: Path, registry: FakeRegistry, key: Path, stored: tuple[dict[str, bytes], dict[Any, bytes]]) -> Judge:
    def judge(random: Random) -> str | None:
        gc.collect()  # an error of the last input may still have its answers
        registry.blobs, registry.manifests = dict(stored[0]), dict(stored[1])
        registry.requests = []
        registry.has_referrers = random.random() < 0.5
        counted = _Counted(random, registry)
        version = random.choice(("", ":none")) if random.random() < 0.1 else f":{_TAG}"
        with packages.emptied(work) as (folder, temporary):
            out = folder / "out"
            out.mkdir()
            names = {"KEY": str(key), "OUT": str(out)}
            verb, *options = (names.get(word, word) for word in random.choice(_COMMANDS))
            argv = [verb, f"oci://{registry.host}/{_REPOSITORY}{version}", *options]
            destination = out if "-d" in argv else None
            demand, output = broken(inputs.Input(argv, destination, edited=True), folder, temporary)
        if demand is None and counted.sent > _MOST:
            demand = f"it read {counted.sent:,} bytes"
        return demand and f"{argv}: {demand}\n{output[-500:]}"

    return judge


class _Counted:
    """Answers as a hostile registry, and counts the bytes that are taken.

    Attributes:
        sent: The bytes of the answers that do not end.
    """

    def __init__(self, random: Random, registry: FakeRegistry) -> None:
        self.sent = 0
        self._random, self._registry = random, registry
        self._at = random.randrange(8)
        self._fault: Fault | None = None
        if random.random() < 0.6:
            names = random.sample(list(registry.manifests), random.choice((1, 1, 2, 3)))
            if random.random() < 0.7:
                names = [(_REPOSITORY, _TAG), *names]
            for name in dict.fromkeys(names):
                self._mutate(name)
        else:
            self._fault = self._chosen()
        registry.fault = self._answered

    def _answered(self, handler: Handler, number: int) -> bool:
        return self._fault is not None and number >= self._at and self._fault(handler)

    def _chosen(self) -> Fault:
        random = self._random
        statuses = (301, 400, 401, 403, 404, 416, 418, 429, 500, 503)
        texts = (b"[" * 200_000, b'{"a":' * 200_000, b"9" * 200_000, b'"' + b"\\u0000" * 50_000 + b'"')
        challenge, place = random.choice(_CHALLENGES), random.choice(_PLACES)
        return random.choice(
            (
                fake_registry.status(random.choice(statuses)),
                fake_registry.status(401, WWW_Authenticate=challenge),
                fake_registry.status(random.choice((301, 302, 307, 308)), Location=place),
                fake_registry.other_digest,
                fake_registry.short_body,
                fake_registry.cut,
                self._endless,
                _plain(mutate.raw(random, json.dumps(mutate.value(random, _LISTS)).encode())),
                _plain(random.choice(texts)),
                _raw(random.choice(_ANSWERS)),
                _raw(random.choice(_ANSWERS)),
            )
        )

    def _endless(self, handler: Handler) -> bool:
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        with suppress(OSError):
            while self.sent <= 2 * _MOST:
                handler.wfile.write(bytes(1 << 16))
                self.sent += 1 << 16
        return True

    def _mutate(self, name: tuple[str, str]) -> None:
        """Change something that is stored; its digests agree, or else it would not be read."""
        random, registry = self._random, self._registry
        content = registry.manifests[name]
        match random.randrange(5):
            case 0:
                changed = mutate.raw(random, content)
            case 1:
                changed = json.dumps(mutate.value(random, json.loads(content))).encode("utf-8", "replace")
            case _:
                changed = self._with_other_blob(json.loads(content))
        registry.manifests[name] = changed
        registry.manifests[name[0], digest_of(changed)] = changed

    def _with_other_blob(self, manifest: dict[str, Any]) -> bytes:
        random, registry = self._random, self._registry
        entries = [entry for entry in (manifest.get("config"), *manifest.get("layers", ())) if isinstance(entry, dict)]
        if entries:
            entry = random.choice(entries)
            content = registry.blobs.get(entry.get("digest", ""), b"{}")
            content = _other(random, content)
            registry.blobs[digest_of(content)] = content
            entry |= {"digest": digest_of(content), "size": len(content)}
            entry.pop("data", None)
        return json.dumps(manifest).encode()


def _other(random: Random, content: bytes) -> bytes:
    """Return a mutation of a blob: a layer, a config or a bundle."""
    if content[:2] == b"\x1f\x8b":
        changed = gzip.compress(mutate.raw(random, gzip.decompress(content)), 1)
        return random.choice((mutate.raw(random, content), random.choice(_bombs()), changed, changed))
    values = inputs.values("x.json", content)
    if not values or random.random() < 0.3:
        return mutate.raw(random, content)
    return json.dumps(mutate.value(random, values[0])).encode("utf-8", "replace")


@cache
def _bombs() -> tuple[bytes, ...]:
    return tuple(gzip.compress(bytes(size), 1) for size in (1 << 20, 64 << 20))


def _plain(content: bytes) -> Fault:
    def fault(handler: Handler) -> bool:
        handler.answer(200, content)
        return True

    return fault


def _raw(content: bytes) -> Fault:
    def fault(handler: Handler) -> bool:
        handler.wfile.write(content)
        return fake_registry.cut(handler)

    return fault
