"""Projects: what a job belongs to. A project has a namespace, a Pod Security level, limits and perhaps a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import UsageError
from packager.base.values import Value
from packager.kubernetes.podsecurity import Level
from packager.service.config import SEPARATE_HINT
from packager.service.store.quota import Quota

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.service.config import ServerConfig

DEFAULT = "default"
"""The project of a server whose configuration names none."""

_STRICTEST_FIRST = (Level.restricted, Level.baseline, Level.privileged)


class Project(Value, frozen=True):
    """A project.

    Attributes:
        name: Its name.
        namespace: Where its jobs run.
        level: The Pod Security level that their pods keep within.
        limits: How many jobs and GPUs it may have at a time.
        queue: The LocalQueue of Kueue that decides when its jobs start; None if this server does.
        allowed: What its jobs may have beside what the table of allowed fields lists, in the words of `--allow`.
    """

    name: str
    namespace: str
    level: Level
    limits: Quota
    queue: str | None = None
    allowed: frozenset[str] = frozenset()

    @property
    def own_limits(self) -> Quota:
        """The limits that this server applies: with a queue, only that of how many jobs wait."""
        return Quota(queued=self.limits.queued) if self.queue else self.limits


def of_settings(settings: ServerConfig, namespace: str) -> dict[str, Project]:
    """Return the projects of a configuration, by name.

    Args:
        settings: The configuration.
        namespace: Where jobs run if nothing else is configured: that of the kubeconfig.

    Raises:
        UsageError: Projects share a namespace, and the configuration does not say so.
    """
    namespace = settings.namespace or namespace
    if not settings.projects:
        allowed = frozenset(settings.allow)
        return {DEFAULT: Project(DEFAULT, namespace, settings.pod_security, Quota(), allowed=allowed)}
    known = _configured(settings, namespace)
    if not settings.unsafe_shared_namespaces:
        for shared, names in shared_namespaces(known).items():
            raise UsageError(not_separate(names, shared), hint=SEPARATE_HINT)
    return known


def _configured(settings: ServerConfig, namespace: str) -> dict[str, Project]:
    return {
        name: Project(
            name,
            project.namespace or namespace,
            project.pod_security or settings.pod_security,
            Quota(
                running=project.max_running,
                running_per_creator=project.max_running_per_creator,
                gpus=project.max_gpus,
                queued=project.max_queued,
            ),
            project.queue,
            frozenset((*settings.allow, *project.allow)),
        )
        for name, project in settings.projects.items()
    }


def least_strict(projects: Iterable[Project]) -> Level:
    """Return the Pod Security level of the project that allows most."""
    return max((project.level for project in projects), key=_STRICTEST_FIRST.index)


def not_separate(names: Iterable[str], namespace: str) -> str:
    """Return what is wrong with projects in one namespace."""
    shown = ", ".join(names)
    return f"the projects {shown} share the namespace {namespace}, where nothing keeps their jobs and storage apart"


def shared_namespaces(projects: Mapping[str, Project]) -> dict[str, list[str]]:
    """Return the namespaces that several projects have, each with the names of these projects."""
    names: dict[str, list[str]] = {}
    for project in projects.values():
        names.setdefault(project.namespace, []).append(project.name)
    return {namespace: sharing for namespace, sharing in names.items() if len(sharing) > 1}


def warnings(projects: Mapping[str, Project]) -> list[str]:
    """Return what an administrator has to know of projects that are not kept apart."""
    return [f"WARNING: {not_separate(names, shared)}" for shared, names in shared_namespaces(projects).items()]


def namespaces(projects: Mapping[str, Project]) -> list[str]:
    """Return the namespaces of projects, each once, in their order."""
    return list(dict.fromkeys(project.namespace for project in projects.values()))
