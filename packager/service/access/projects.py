"""Projects of jobs: namespace, Pod Security level, limits and queue. Tests: service/test_config_file.py."""

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
    """A project."""

    name: str
    namespace: str  # the namespace of its jobs
    level: Level  # the Pod Security level of the pods
    limits: Quota  # the most jobs and GPUs that the project may have at a time
    queue: str | None = None  # the LocalQueue of Kueue that decides when jobs start; None if this server decides
    allowed: frozenset[str] = frozenset()  # permissions of jobs beyond the table of allowed fields, as in `--allow`

    @property
    def own_limits(self) -> Quota:
        """The limits that this server applies: with a queue, only the number of waiting jobs."""
        return Quota(queued=self.limits.queued) if self.queue else self.limits


def of_settings(settings: ServerConfig, namespace: str) -> dict[str, Project]:
    """Return the projects of a configuration, by name. Raises UsageError.

    Args:
        settings: The configuration.
        namespace: The namespace of the kubeconfig, for projects without a configured namespace.
    """
    namespace = settings.namespace or namespace
    if not settings.projects:
        allowed = frozenset(settings.allow)
        return {DEFAULT: Project(DEFAULT, namespace, settings.pod_security, Quota(), allowed=allowed)}
    configured = _configured(settings, namespace)
    if not settings.unsafe_shared_namespaces:
        for shared, names in shared_namespaces(configured).items():
            raise UsageError(not_separate(names, shared), hint=SEPARATE_HINT)
    return configured


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
    """Return the least strict Pod Security level of projects."""
    return max((project.level for project in projects), key=_STRICTEST_FIRST.index)


def not_separate(names: Iterable[str], namespace: str) -> str:
    """Return the message about projects that share a namespace."""
    shown = ", ".join(names)
    return f"the projects {shown} share the namespace {namespace}, where nothing keeps their jobs and storage apart"


def shared_namespaces(projects: Mapping[str, Project]) -> dict[str, list[str]]:
    """Return the namespaces that several projects share, each with the names of these projects."""
    names: dict[str, list[str]] = {}
    for project in projects.values():
        names.setdefault(project.namespace, []).append(project.name)
    return {namespace: sharing for namespace, sharing in names.items() if len(sharing) > 1}


def warnings(projects: Mapping[str, Project]) -> list[str]:
    """Return a warning to administrators for each namespace that several projects share."""
    return [f"WARNING: {not_separate(names, shared)}" for shared, names in shared_namespaces(projects).items()]


def namespaces(projects: Mapping[str, Project]) -> list[str]:
    """Return the namespaces of projects, each once, in their order."""
    return list(dict.fromkeys(project.namespace for project in projects.values()))
