"""Reads server.yaml: how a server listens, what it stores where, and what the site has decided about jobs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from packager.base import rest, yamlio
from packager.base.errors import UsageError, unreadable
from packager.base.names import LABEL, LABEL_VALUE
from packager.base.problems import show, similar
from packager.base.values import Fields, FieldsError, Meta, convert
from packager.kubernetes.podsecurity import Level
from packager.service import times
from packager.service.callbacks.addresses import read_allowed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Document

DEFAULT_LISTEN = "127.0.0.1:8080"

URL = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~/-]*)?")
"""The address by which others reach a server."""


class CallbacksConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where callbacks may go, and how they are signed."""

    allow: list[str] = []
    signing_secret_file: str | None = None


class RetentionConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long jobs and logs are kept."""

    jobs: str | None = None
    logs: str = "30d"


ProjectName = Annotated[str, Meta(max_length=63, pattern=rf"^{LABEL}$")]
Namespace = Annotated[str, Meta(max_length=63, pattern=rf"^{LABEL}$")]
Limit = Annotated[int, Meta(ge=0, le=1_000_000)]


class ProjectConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the site has decided about the jobs of a project; without a limit, there is none."""

    namespace: Namespace | None = None
    pod_security: Level | None = None
    max_running: Limit | None = None
    max_running_per_creator: Limit | None = None
    max_gpus: Limit | None = None
    max_queued: Limit | None = None
    queue: Annotated[str, Meta(max_length=63, pattern=rf"^{LABEL}$")] | None = None


Role = Literal["viewer", "user", "developer", "admin"]


class OidcConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer of tokens, and what their claims mean.

    Attributes:
        issuer: Its address, as in the claim `iss`.
        audience: For whom its tokens are, as in the claim `aud`.
        roles: The role of each group, in all projects or in some.
        name_claim: The claim with the caller's name.
        groups_claim: The claim with their groups.
        client_id: What the page is called at the issuer; without it, people sign in with tokens only.
        client_secret_file: Where the page's secret is; without one, it is a public client.
        scopes: What the page asks the issuer for.
    """

    issuer: str
    audience: Annotated[str, Meta(min_length=1)]
    roles: dict[str, Role | dict[str, Role]]
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    client_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    client_secret_file: str | None = None
    scopes: tuple[Annotated[str, Meta(pattern=r"^[!#-\[\]-~]+$")], ...] = ("openid", "profile")


class PackagesConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where packages of definitions may come from, beside those that are bundled."""

    folder: str | None = None


class ServerConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a server."""

    listen: str = DEFAULT_LISTEN
    prometheus_listen: str | None = None
    database: str | None = None
    url: str | None = None
    name: Annotated[str, Meta(max_length=63, pattern=rf"^{LABEL_VALUE}$")] = "default"
    context: str | None = None
    namespace: Namespace | None = None
    pod_security: Level = Level.restricted
    projects: dict[ProjectName, ProjectConfig] = {}
    storage_classes: dict[str, str] = {}
    node_selectors: dict[str, dict[str, str]] = {}
    callbacks: CallbacksConfig = CallbacksConfig()
    retention: RetentionConfig = RetentionConfig()
    oidc: OidcConfig | None = None
    packages: PackagesConfig = PackagesConfig()

    @property
    def public_url(self) -> str:
        """The address by which others reach the server."""
        return (self.url or f"http://{self.listen}").rstrip("/")


def read(path: Path | None) -> ServerConfig:
    """Return the configuration in a file, or the default one.

    Raises:
        ToolError: The file cannot be read.
        UsageError: It is not valid.
    """
    if path is None:
        return ServerConfig()
    try:
        document, problems = yamlio.read(path)
    except OSError as error:
        raise unreadable(path, error) from None
    if problems:
        raise UsageError(f"{path} is not valid", problems=problems)
    try:
        settings = convert(document.data or {}, ServerConfig)
    except FieldsError as error:
        raise UsageError(f"{path}: {error}") from None
    if problems := list(_problems(document, settings)):
        raise UsageError(f"{path} is not valid", problems=problems)
    return settings


def _problems(document: Document, settings: ServerConfig) -> Iterator[Problem]:
    """Yield what no type can express."""
    if settings.url is not None and not URL.fullmatch(settings.url):
        message = f"expected an address such as https://train.example.com, found {show(settings.url)}"
        yield document.problem(("url",), message)
    if settings.prometheus_listen is not None:
        try:
            address(settings.prometheus_listen)
        except UsageError as error:
            yield document.problem(("prometheus_listen",), str(error))
    if settings.oidc is not None:
        yield from _problems_of_oidc(document, settings, settings.oidc)
    _, refused = read_allowed(settings.callbacks.allow)
    for index, message in refused.items():
        yield document.problem(("callbacks", "allow", index), message)
    for key, text in (("jobs", settings.retention.jobs), ("logs", settings.retention.logs)):
        try:
            times.duration("1d" if text is None else text)
        except ValueError as error:
            yield document.problem(("retention", key), str(error))


def _problems_of_oidc(document: Document, settings: ServerConfig, oidc: OidcConfig) -> Iterator[Problem]:
    try:
        rest.server(oidc.issuer, None)
    except UsageError:
        message = f"expected an address with https, such as https://sso.example.com, found {show(oidc.issuer)}"
        yield document.problem(("oidc", "issuer"), message)
    if oidc.client_id is not None and settings.url is None:
        message = "`url` is missing: the issuer leads people back to it"
        yield document.problem(("oidc", "client_id"), message, hint="url: https://train.example.com")
    if oidc.client_id is None and oidc.client_secret_file is not None:
        yield document.problem(("oidc", "client_secret_file"), "`client_id` is missing, whose secret this is")
    if "openid" not in oidc.scopes:
        yield document.problem(("oidc", "scopes"), "expected `openid` among them, without which no one is named")
    projects = [*settings.projects] or ["default"]
    for group, roles in oidc.roles.items():
        for project in roles if isinstance(roles, dict) else ():
            if project not in projects:
                place, message = ("oidc", "roles", group, project), f"project {show(project)} not found"
                yield document.problem(place, message, hint=similar(project, projects), at_key=True)


def default_database() -> Path:
    """Return where a server keeps its database if nothing else is asked for (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_DATA_HOME", "")
    folder = Path(home) if home.startswith("/") else Path.home() / ".local/share"
    return folder / "mlpack/server.db"


def address(listen: str) -> tuple[str, int]:
    """Return the host and the port of `127.0.0.1:8080` or `[::1]:8080`. Raises UsageError."""
    host, colon, port = listen.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 65_536) or "/" in host:
        raise UsageError(f"invalid address {listen!r}: expected HOST:PORT, such as {DEFAULT_LISTEN}")
    return host, int(port)
