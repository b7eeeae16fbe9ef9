"""Reads server.yaml, and reports all its problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import rest, units, yamlio
from packager.base.errors import UsageError, unreadable
from packager.base.problems import Fault, ordered, show, similar
from packager.modelspec import conversion
from packager.service.callbacks.endpoints import read_receivers
from packager.service.config import ServerConfig
from packager.service.registry import policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.yamlio import Location
    from packager.service.config import OidcConfig


def read(path: Path | None) -> ServerConfig:
    """Return the configuration in a file, or the default one. Raises ToolError or UsageError."""
    if path is None:
        return ServerConfig()
    try:
        document, problems = yamlio.read(path)
    except OSError as error:
        raise unreadable(path, error) from None
    if problems and document.is_empty:
        raise UsageError(f"{path} is not valid", problems=problems)
    settings, faults = conversion.read(document, ServerConfig, _faults)
    problems += faults
    if problems or settings is None:
        raise UsageError(f"{path} is not valid", problems=ordered(problems))
    return settings


def _faults(settings: ServerConfig) -> Iterator[Fault]:
    """Yield the faults that the types cannot express."""
    allowed: list[tuple[Location, list[str]]] = [(("allow",), settings.allow)]
    allowed += [(("projects", name, "allow"), project.allow) for name, project in settings.projects.items()]
    yield from (fault.below(place) for place, words in allowed for fault in policy.faults(words))
    if settings.oidc is not None:
        yield from _faults_of_oidc(settings, settings.oidc)
    _, refused = read_receivers(settings.callbacks.allow)
    for index, message in refused.items():
        yield Fault(("callbacks", "allow", index), message)
    for key, text in (("jobs", settings.retention.jobs), ("logs", settings.retention.logs)):
        try:
            units.duration("1d" if text is None else text)
        except ValueError as error:
            yield Fault(("retention", key), str(error))


def _faults_of_oidc(settings: ServerConfig, oidc: OidcConfig) -> Iterator[Fault]:
    try:
        rest.server(oidc.issuer, None)
    except UsageError:
        message = f"expected an address with https, such as https://sso.example.com, found {show(oidc.issuer)}"
        yield Fault(("oidc", "issuer"), message)
    if oidc.client_id is not None and settings.url is None:
        message = "`url` is missing: the issuer leads people back to it"
        place: Location = ("oidc", "client_id")
        yield Fault(place, message, "url: https://train.example.com", needs=(("url",),))
    projects = [*settings.projects] or ["default"]
    for group, roles in oidc.roles.items():
        for project in roles if isinstance(roles, dict) else ():
            if project not in projects:
                place, message = ("oidc", "roles", group, project), f"project {show(project)} not found"
                hint = similar(project, projects)
                yield Fault(place, message, hint, at_key=True, needs=(("projects",),))
