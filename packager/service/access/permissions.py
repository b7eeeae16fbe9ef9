"""Checks the permissions of callers: to see and to change projects, definitions and jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import UsageError
from packager.base.values import Value
from packager.kubernetes.podsecurity import Level
from packager.service.access import tokens
from packager.service.access.tokens import EVERY
from packager.service.failures import Complaint, Failure
from packager.service.store.quota import Quota

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packager.service.access.tokens import Caller
    from packager.service.config import ServerConfig
    from packager.service.store.models import StoredJob, StoredTemplate


def check_role(caller: Caller, role: str) -> None:
    """Raise Failure unless a caller has a role in at least one project."""
    if not caller.may_anywhere(role):
        raise Failure("forbidden", f"expected the role {role}, found {', '.join(caller.roles.values())}")


def check_admin(caller: Caller, project: str | None) -> None:
    """Raise Failure unless a caller is an admin of a project, or of all projects for None."""
    check_role(caller, "admin")
    if not caller.may("admin", project):
        raise Failure("forbidden", f"expected an admin of {project or 'all projects'}")


def check_knows_project(caller: Caller, project: str, projects: Mapping[str, Project]) -> None:
    """Raise Failure unless a project exists and a caller has a role in it."""
    if project not in projects or not caller.may("viewer", project):
        raise Failure("invalid-body", "the project was not found", [_not_found(project)])


def projects_of(caller: Caller, role: str) -> tuple[str, ...] | None:
    """Return the projects in which a caller has a role; None for all, also those that are no longer configured."""
    if caller.may(role):
        return None
    return tuple(sorted(project for project in caller.roles if project != EVERY and caller.may(role, project)))


def project_of_job(caller: Caller, project: object, projects: Mapping[str, Project]) -> Project:
    """Return the project of a new job: the requested one, or the only one that the caller may use, or `default`.

    Raises:
        Failure: The project was not found, the caller may not create jobs in it, or there are several to choose from.
    """
    usable = [name for name in projects if caller.may("user", name)]
    if project is None:
        if len(usable) == 1:
            return projects[usable[0]]
        if DEFAULT in usable:
            return projects[DEFAULT]
        if not usable:
            raise Failure("forbidden", "expected the role user in a project of this server")
        complaint = Complaint("/project", f"is missing: expected {' or '.join(usable)}")
        raise Failure("invalid-values", "the project is missing", [complaint])
    if not isinstance(project, str) or project not in projects or not caller.may("viewer", project):
        raise Failure("invalid-values", "the project was not found", [_not_found(project)])
    if project not in usable:
        raise Failure("forbidden", f"expected the role user in the project {project!r}, found {caller.role(project)}")
    return projects[project]


def _not_found(project: object) -> Complaint:
    shown = repr(project)
    return Complaint("/project", f"project {shown if len(shown) < 80 else shown[:80] + '…'} not found")


def project_of_definition(caller: Caller, project: str | None, projects: Mapping[str, Project]) -> str | None:
    """Return the project that a new definition belongs to: the requested one, or the only one of a developer.

    None stands for all projects. Raises Failure.
    """
    usable = [name for name in projects if caller.may("developer", name)]
    if project is None:
        if caller.may("developer"):
            return None
        if len(usable) == 1:
            return usable[0]
        complaint = Complaint("/project", f"is missing: expected {' or '.join(usable) or 'a project of this server'}")
        raise Failure("invalid-body", "the project is missing", [complaint])
    check_knows_project(caller, project, projects)
    if project not in usable:
        raise Failure("forbidden", f"expected the role developer in the project {project!r}")
    return project


def sees(caller: Caller, row: StoredTemplate) -> bool:
    """Whether a caller may see a template, or a definition, which may belong to a project."""
    project = getattr(row, "project", None)
    return project is None or caller.may("viewer", project)


def visible_job(
    caller: Caller, release: str, job: Callable[[str], StoredJob | None], role: str = "viewer"
) -> StoredJob:
    """Return a job in whose project a caller has a role; without any role there, the job is not found.

    Raises Failure.
    """
    check_role(caller, role)
    row = job(release)
    held = None if row is None else caller.role(row.project)
    if row is None or held is None:
        raise Failure("not-found", f"job {release!r} not found")
    if not caller.may(role, row.project):
        raise Failure("forbidden", f"expected the role {role} in the project {row.project!r}, found {held}")
    return row


def owns(caller: Caller, owner: str, project: str) -> bool:
    """Whether a caller owns a job of `owner`, or acts for others in its project."""
    return owner == caller.key or caller.acts_for_others(project)


def owner_of_job(caller: Caller, creator: str) -> str:
    """Return the key of the owner of a new job.

    Args:
        caller: The caller who creates the job.
        creator: The name of the person for whom the job is created: the name of the caller, or for callers who act for
            others the name of a token. A name does not identify a person of an issuer, so callers from an issuer own
            the jobs that they create for others.
    """
    is_of_issuer = caller.key != tokens.key_of(caller.name) and not caller.is_trusted
    return caller.key if creator == caller.name or is_of_issuer else tokens.key_of(creator)


def own_job(
    caller: Caller, release: str, job: Callable[[str], StoredJob | None], action: str, role: str = "user"
) -> StoredJob:
    """Return a job that a caller owns, or in whose project they act for others. Raises as `visible_job`."""
    row = visible_job(caller, release, job, role)
    if not owns(caller, row.owner, row.project):
        raise Failure("forbidden", f"the job belongs to {row.creator}: only developers {action}")
    return row


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
    """Return the projects of a configuration, by name. Raises UsageError."""
    namespace = settings.namespace or namespace
    if not settings.projects:
        allowed = frozenset(settings.allow)
        return {DEFAULT: Project(DEFAULT, namespace, settings.pod_security, Quota(), allowed=allowed)}
    configured = {
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
    first: dict[str, str] = {}
    for name, project in configured.items():
        if first.setdefault(project.namespace, name) != name:
            message = f"the project {name} shares the namespace {project.namespace} with {first[project.namespace]}"
            hint = "give each a namespace of its own: nothing else keeps their jobs and storage apart"
            raise UsageError(message, hint=hint)
    return configured


def least_strict(projects: Iterable[Project]) -> Level:
    """Return the least strict Pod Security level of projects."""
    return max((project.level for project in projects), key=_STRICTEST_FIRST.index)


def namespaces(projects: Mapping[str, Project]) -> list[str]:
    """Return the namespaces of projects, each once, in their order."""
    return list(dict.fromkeys(project.namespace for project in projects.values()))
