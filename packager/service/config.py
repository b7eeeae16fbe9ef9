"""The configuration of a server: its addresses, its storage, its limits and its projects."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from packager.base.errors import UsageError
from packager.base.names import LABEL, LABEL_VALUE
from packager.base.values import Fields, Meta
from packager.kubernetes.podsecurity import Level

DATABASE = "MLPACK_DATABASE"
"""The variable with the database; it has precedence over the one in the configuration."""

SECRET_KEY = "MLPACK_SECRET_KEY"  # noqa: S105 - a name
"""The variable with the key to the secrets in the database: 32 bytes in base64."""

DEFAULT_LISTEN = "127.0.0.1:8080"

URL = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+((?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*)/?")
"""The public address of a server: its path is the prefix of the pages and of the API."""

Listen = Annotated[str, Meta(pattern=":[0-9]+$", title=f"HOST:PORT, such as {DEFAULT_LISTEN}")]
DnsLabel = Annotated[
    str,
    Meta(max_length=63, pattern=rf"^{LABEL}$", title="a name of lower-case letters, digits and '-' (at most 63)"),
]
Limit = Annotated[int, Meta(ge=0, le=1_000_000)]
Allowed = Annotated[list[str], Meta(max_length=1_000)]
AtLeastOne = Annotated[int, Meta(ge=1, le=1_000_000)]
NotEmpty = Annotated[str, Meta(min_length=1, max_length=255, title="a text that is not empty (at most 255)")]


class CallbacksConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The permitted receivers of callbacks, and the secret that signs callbacks."""

    allow: list[str] = []
    signing_secret_file: str | None = None


class RetentionConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The retention times of jobs and logs."""

    jobs: str | None = None
    logs: str = "30d"


class ProjectConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of the site for the jobs of a project. A limit that is None does not apply."""

    namespace: DnsLabel | None = None
    pod_security: Level | None = None
    max_running: Limit | None = None
    max_running_per_creator: Limit | None = None
    max_gpus: Limit | None = None
    max_queued: Limit | None = None
    queue: DnsLabel | None = None
    signing_secret_file: str | None = None
    allow: Allowed = []


Role = Literal["viewer", "user", "developer", "admin"]


class OidcConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer of tokens, and the roles that follow from claims of its tokens.

    With `client_id`, people sign in with the issuer on the page; without `client_secret_file`, as with a public client.
    """

    issuer: Annotated[str, Meta(title="the claim `iss` of the tokens")]
    audience: Annotated[str, Meta(min_length=1, title="the claim `aud` of the tokens")]
    roles: Annotated[dict[str, Role | dict[str, Role]], Meta(title="the role of each group")]
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    client_id: NotEmpty | None = None
    client_secret_file: str | None = None
    scopes: tuple[Annotated[str, Meta(pattern=r"^[!#-\[\]-~]+$", title="a scope without spaces")], ...] = (
        "openid",
        "profile",
    )


class LimitsConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a server for callers and projects."""

    caller_requests_per_second: AtLeastOne = 100  # a burst may have those of three seconds
    requests_at_once: AtLeastOne = 32  # of a caller, streams among them
    streams: AtLeastOne = 20  # of events and logs, of a caller
    caller_jobs: AtLeastOne = 3_000  # that have not ended, in a project
    project_jobs: AtLeastOne = 10_000  # that have not ended
    job_pods: AtLeastOne = 1_000  # at the same time
    project_tokens: AtLeastOne = 1_000
    project_mib: AtLeastOne = 10_240  # in the database, of jobs, their logs and definitions
    connections: AtLeastOne = 1_000  # in total; a proxy limits those of an address


class ServerConfig(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a server."""

    listen: Listen = DEFAULT_LISTEN
    database: str | None = None
    url: (
        Annotated[str, Meta(pattern=f"^{URL.pattern}$", title="an address such as https://train.example.com")] | None
    ) = None
    name: Annotated[
        str, Meta(max_length=63, pattern=rf"^{LABEL_VALUE}$", title="at most 63 letters, digits and '-_.'")
    ] = "default"
    context: str | None = None
    namespace: DnsLabel | None = None
    pod_security: Level = Level.restricted
    allow: Allowed = []
    projects: dict[DnsLabel, ProjectConfig] = {}
    storage_classes: dict[str, str] = {}
    node_selectors: dict[str, dict[str, str]] = {}
    callbacks: CallbacksConfig = CallbacksConfig()
    retention: RetentionConfig = RetentionConfig()
    limits: LimitsConfig = LimitsConfig()
    oidc: OidcConfig | None = None
    documentation: Annotated[str, Meta(pattern="^https?://", title="the address of the site of `make site`")] | None = (
        None
    )

    @property
    def public_url(self) -> str:
        """The public address of the server, without a slash at the end."""
        return (self.url or f"http://{self.listen}").rstrip("/")

    @property
    def root(self) -> str:
        """The path of the public address, such as `/mlpack`; empty if the server is at the root of its host."""
        match = URL.fullmatch(self.url or "")
        return match[1] if match else ""


def default_database() -> Path:
    """Return the default path of the database (XDG Base Directory Specification)."""
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
