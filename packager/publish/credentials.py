"""Reads the credentials of registries as docker and podman keep them: their files, and their helper programs."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import ToolError, unreadable
from packager.base.process import SYSTEM, Runner
from packager.base.values import FieldsError, Value, from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packager.publish.reference import PackageReference

_HELPER_SECONDS = 30.0
_HELPER_BYTES = 1 << 20
_TOKEN_USER = "<token>"  # noqa: S105 - the word by which helpers mark an identity token
_NOT_FOUND = "credentials not found"
"""The beginning of what a helper prints without credentials (docker-credential-helpers, credentials/error.go)."""

_DOCKER_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "registry-1.docker.io")


class Login(Value, frozen=True):
    """The credentials for a registry; they are in no message."""

    username: str = ""  # the name of the user; empty with a token
    password: str = ""
    identity_token: str = ""  # a token that is exchanged for others (OAuth 2.0's refresh token)
    source: str = ""  # the place where they come from, for messages

    def __repr__(self) -> str:
        return f"Login({self.source!r})"

    @property
    def basic(self) -> str:
        """The user and the password as the header Authorization names them."""
        return f"Basic {base64.b64encode(f'{self.username}:{self.password}'.encode()).decode()}"


def files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files that may have credentials, in the order in which they are read."""
    runtime = environment.get("XDG_RUNTIME_DIR")
    listed = (
        environment.get("REGISTRY_AUTH_FILE"),
        runtime and f"{runtime}/containers/auth.json",
        f"{environment.get('DOCKER_CONFIG') or os.path.expanduser('~/.docker')}/config.json",  # noqa: PTH111 - no error
    )
    return tuple(Path(file) for file in listed if file)


class _Entry(Value, frozen=True):
    """The credentials for a registry in a file."""

    auth: bytes = b""  # the user and the password
    identitytoken: str = ""
    username: str = ""
    password: str = ""

    def login(self, source: str) -> Login | None:
        """Return the credentials; None if it has none."""
        if self.identitytoken:
            return Login(identity_token=self.identitytoken, source=source)
        if self.auth:
            username, colon, password = self.auth.decode(errors="replace").partition(":")
            if not colon:
                raise ToolError(f"{source}: expected a user and a password in base64 at 'auth'", hint="log in again")
            return Login(username, password.rstrip("\0"), source=source)
        return Login(self.username, self.password, source=source) if self.username and self.password else None


class _Config(Value, frozen=True, rename="camel"):
    """A file of docker or podman."""

    auths: Mapping[str, _Entry] = {}
    cred_helpers: Mapping[str, str] = {}
    creds_store: str = ""


class _Answer(Value, frozen=True, rename="pascal"):
    """The answer of a helper program."""

    username: str
    secret: str


def find(
    reference: PackageReference, paths: tuple[Path, ...], tell: Callable[[str], object], runner: Runner = SYSTEM
) -> Login | None:
    """Return the credentials for a repository in the first file that has some; None without any."""
    names = (reference.host,) if reference.api_host == reference.host else (_DOCKER_HUB_KEYS[0], reference.host)
    for path in paths:
        config = _config(path)
        for name in names:
            if helper := config.cred_helpers.get(name):
                return _of_helper(helper, name, tell, runner)
        entries = {_key(key): entry for key, entry in config.auths.items()}
        found = (entries[key].login(str(path)) for key in _keys(reference) if key in entries)
        stored = (_of_helper(config.creds_store, name, tell, runner) for name in names if config.creds_store)
        if login := next(filter(None, chain(found, stored)), None):
            return login
    return None


def _config(path: Path) -> _Config:
    try:
        return from_json(path.read_bytes(), _Config)
    except (FileNotFoundError, NotADirectoryError):
        return _Config()
    except OSError as error:
        raise unreadable(path, error) from None
    except FieldsError:
        message = f"{path} is not a file of docker or podman: expected a JSON object with logins"
        raise ToolError(message, hint="log in again") from None


def _keys(reference: PackageReference) -> Iterator[str]:
    """Yield the keys that may have the credentials of a repository, the longest first."""
    steps = reference.repository.split("/")
    for count in range(len(steps), 0, -1):
        yield "/".join((reference.host, *steps[:count]))
    yield reference.host
    if reference.api_host != reference.host:
        yield from map(_key, _DOCKER_HUB_KEYS)


def _key(key: str) -> str:
    """Return a key without its scheme, and without the version of the API at its end."""
    bare = key.partition("://")[2] or key
    return re.sub(r"/(v[12]/?)?$", "", bare)


def _of_helper(helper: str, server: str, tell: Callable[[str], object], runner: Runner) -> Login | None:
    """Return the credentials that a helper program prints; None if it has none, or fails."""
    program = f"docker-credential-{helper}"
    try:
        done = runner.run([program, "get"], timeout=_HELPER_SECONDS, max_bytes=_HELPER_BYTES, stdin=server.encode())
        if done.stdout.strip().startswith(_NOT_FOUND):
            return None
        answer = from_json(done.stdout, _Answer)
    except (ToolError, FieldsError) as error:
        why = f"{program} has printed something else than credentials" if isinstance(error, FieldsError) else error
        tell(f"{server} is used without credentials: {why}")
        return None
    if answer.username == _TOKEN_USER:
        return Login(identity_token=answer.secret, source=program)
    return Login(answer.username, answer.secret, source=program)
