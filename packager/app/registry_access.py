"""Returns the access to registries that a user asks for: the network, and the credentials.

Tests: cli/test_push.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import UsageError
from packager.base.web import Network
from packager.publish import credentials
from packager.publish.artefact import REVISION, SOURCE
from packager.publish.client import Access
from packager.publish.reference import is_reference, parse

__all__ = ["AccessRequest", "access", "chosen_annotations", "is_reference", "parse"]

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.base.progress import Tell
    from packager.base.runner import Runner
    from packager.publish.credentials import Login
    from packager.publish.reference import PackageReference


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """The options for the access to registries.

    Attributes:
        environment: The environment variables, which name the files of docker and podman.
        home: The home folder; None for a user without one.
        user: A user and a password; None for those in the files.
        plain_http: Whether registries are used over http.
        ca_file: Certificates to trust in addition to those of the system.
    """

    environment: Mapping[str, str]
    home: Path | None
    user: tuple[str, str] | None = None
    plain_http: bool = False
    ca_file: Path | None = None


def access(request: AccessRequest, *, show: Callable[[str], object], tell: Tell, runner: Runner) -> Access:
    """Return the access to registries.

    Args:
        request: The options.
        show: Receives a line about each request.
        tell: Receives a message about a helper that fails.
        runner: Starts helpers.

    Raises:
        UsageError: The user or the password is not valid.
    """
    given = None if request.user is None else credentials.given(*request.user, "stdin")
    files = credentials.files(request.environment, request.home)

    def login(reference: PackageReference) -> Login | None:
        return given or credentials.find(reference, files, tell, runner)

    ca_file = None if request.ca_file is None else str(request.ca_file)
    return Access(Network(ca_file=ca_file, show=show, sleep=runner.sleep), login, request.plain_http)


def chosen_annotations(pairs: Sequence[str], source: str | None, revision: str | None) -> dict[str, str]:
    """Return the annotations of `--annotation`, `--source` and `--revision`. Raises UsageError."""
    texts: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key in texts:
            raise UsageError(f"--annotation {pair}: expected KEY=VALUE, each key once")
        texts[key] = text
    return texts | {key: value for key, value in ((SOURCE, source), (REVISION, revision)) if value is not None}
