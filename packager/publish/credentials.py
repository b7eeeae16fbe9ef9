"""Reads the credentials of registries as docker and podman keep them: their files, and their helper programs."""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.errors import ToolError, UsageError, unreadable
from packager.base.runner import SYSTEM, Runner
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packager.publish.reference import PackageReference

_HELPER_SECONDS = 30.0
_HELPER_BYTES = 1 << 20
_HELPER = re.compile(r"[A-Za-z0-9._-]{1,100}")
_TOKEN_USER = "<token>"  # noqa: S105 - the word by which helpers mark an identity token
_NOT_FOUND = "credentials not found"
"""The beginning of what a helper prints without credentials (docker-credential-helpers, credentials/error.go)."""

_DOCKER_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "registry-1.docker.io")


class Login(Value, frozen=True):
    """The credentials for a registry; they are in no message."""

    username: str = ""  # the name of the user; empty with a token
    password: str = ""
    identity_token: str = ""  # a token that is exchanged for others (OAuth 2.0's refresh token)
    registry_token: str = ""  # a token that the registry itself accepts
    source: str = ""  # the place where they come from, for messages

    def __repr__(self) -> str:
        return f"Login({self.source!r})"

    @property
    def basic(self) -> str:
        """The user and the password as the header Authorization names them."""
        return f"Basic {base64.b64encode(f'{self.username}:{self.password}'.encode()).decode()}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """All texts that must not be shown."""
        forms = (self.password, self.identity_token, self.registry_token, self.basic.partition(" ")[2])
        return tuple(text for text in forms if text)


def given(username: str, password: str) -> Login:
    """Return the credentials of a user, whose password was read from stdin. Raises UsageError."""
    if not username or ":" in username or not username.isprintable():
        raise UsageError("--username: expected the name of a user, without a colon")
    if not password or not password.isprintable():
        raise UsageError(f"expected one line with the password for {username}, on stdin")
    return Login(username, password, source="stdin")


def files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files that may have credentials, in the order in which they are read."""
    home = None
    with suppress(RuntimeError):  # a user without a home folder
        home = Path.home()
    docker = environment.get("DOCKER_CONFIG")
    runtime = environment.get("XDG_RUNTIME_DIR")
    listed = (
        environment.get("REGISTRY_AUTH_FILE") or None,
        runtime and Path(runtime, "containers", "auth.json"),
        Path(docker, "config.json") if docker else home and home / ".docker" / "config.json",
    )
    return tuple(Path(file) for file in listed if file)


def find(
    reference: PackageReference, paths: tuple[Path, ...], tell: Callable[[str], object], runner: Runner = SYSTEM
) -> Login | None:
    """Return the credentials for a repository in the first file that has some; None without any."""
    for path in paths:
        config = _config(path)
        if config is not None and (login := _in_file(config, reference, path, tell, runner)):
            return login
    return None


def _config(path: Path) -> dict[str, Any] | None:
    """Return the content of a file; None if there is no such file."""
    try:
        config = jsonio.read(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(path, error) from None
    except jsonio.JsonError:
        config = None
    if not isinstance(config, dict):
        raise ToolError(f"{path} is not a file of docker or podman: expected a JSON object", hint="log in again")
    return config


def _in_file(
    config: Mapping[str, Any], reference: PackageReference, path: Path, tell: Callable[[str], object], runner: Runner
) -> Login | None:
    names = _names(reference)
    helpers = config.get("credHelpers")
    for name in names:
        helper = helpers.get(name) if isinstance(helpers, dict) else None
        if isinstance(helper, str):
            return _of_helper(helper, name, tell, runner)
    auths = config.get("auths")
    if isinstance(auths, dict):
        entries = {_key(key): entry for key, entry in auths.items()}
        for key in _keys(reference):
            if isinstance(entries.get(key), dict) and (entry := _of_entry(entries[key], path)):
                return entry
    store = config.get("credsStore")
    for name in names if isinstance(store, str) and store else ():
        if answer := _of_helper(str(store), name, tell, runner):
            return answer
    return None


def _names(reference: PackageReference) -> tuple[str, ...]:
    """Return the names of a registry, as helpers know them."""
    return (_DOCKER_HUB_KEYS[0], reference.host) if reference.api_host != reference.host else (reference.host,)


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


def _of_entry(entry: Mapping[str, Any], path: Path) -> Login | None:
    """Return the credentials in an entry of a file; None if it has none."""
    texts = {name: value for name, value in entry.items() if isinstance(value, str) and value}
    if token := texts.get("identitytoken"):
        return Login(identity_token=token, source=str(path))
    if token := texts.get("registrytoken"):
        return Login(registry_token=token, source=str(path))
    if pair := texts.get("auth"):
        try:
            decoded = base64.b64decode(pair, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            decoded = ""
        username, colon, password = decoded.partition(":")
        if not colon:
            raise ToolError(f"{path}: expected a user and a password in base64 at 'auth'", hint="log in again")
        return Login(username, password.rstrip("\0"), source=str(path))
    if "username" in texts and "password" in texts:
        return Login(texts["username"], texts["password"], source=str(path))
    return None


def _of_helper(helper: str, server: str, tell: Callable[[str], object], runner: Runner) -> Login | None:
    """Return the credentials that a helper program prints; None if it has none, or fails."""
    program = f"docker-credential-{helper}"
    if not _HELPER.fullmatch(helper):
        tell("a helper for credentials was not started: expected the name of a program")
        return None
    try:
        done = runner.run([program, "get"], timeout=_HELPER_SECONDS, max_bytes=_HELPER_BYTES, stdin=server.encode())
    except ToolError as error:
        tell(f"{server} is used without credentials: {error}")
        return None
    if done.returncode:
        if not done.stdout.strip().startswith(_NOT_FOUND):
            tell(f"{server} is used without credentials: {program} has ended with exit code {done.returncode}")
        return None
    try:
        answer = jsonio.read(done.stdout.encode())
    except (jsonio.JsonError, UnicodeEncodeError):
        answer = None
    username, secret = (answer.get(key) for key in ("Username", "Secret")) if isinstance(answer, dict) else (None, None)
    if not isinstance(username, str) or not isinstance(secret, str) or not secret:
        tell(f"{server} is used without credentials: {program} has printed something else than credentials")
        return None
    if username == _TOKEN_USER:
        return Login(identity_token=secret, source=program)
    return Login(username, secret, source=program)
