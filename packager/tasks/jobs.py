"""The client of a task service: creates jobs from filled values, and follows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import rest, yamlio
from packager.base.errors import TimedOutError, UnreachableError, UsageError
from packager.base.names import is_label_value
from packager.base.problems import Problem, show
from packager.base.values import Fields, FieldsError, Value, convert
from packager.modelspec.settings import parse_setting, put
from packager.tasks.requests import (
    Body,
    at_pointer,
    checked_name,
    detail_of,
    mapping,
    no_task_service,
    pointer_steps,
    post_once,
    refusal,
    send,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.rest import RestServer
    from packager.base.runner import Runner, Tell
    from packager.base.yamlio import Location

ENDED = ("succeeded", "failed", "deleted")
"""The final statuses of a job."""

_POLL_SECONDS = 2.0
_LONGEST_POLL_SECONDS = 30.0
_PAGE = 100
_MAX_PAGES = 10_000
_NO_LOG = "urn:mlpack:problem:no-log"
"""The type of the problem that a job has no log yet."""

_EXAMPLE = "process.train.number=5"


class JobSummary(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The fields of a job that lists show."""

    release: str
    status: str
    created: str
    creator: str = ""
    definition: dict[str, Any] = {}
    reason: str | None = None
    message: str | None = None
    hint: str | None = None
    pods: list[dict[str, Any]] = []


class TaskJob(Value, frozen=True):
    """A job in a server's response."""

    summary: JobSummary  # the fields that lists show
    answer: dict[str, Any]  # the whole response

    @property
    def has_ended(self) -> bool:
        """Whether the status of the job is final."""
        return self.summary.status in ENDED

    @property
    def has_failed(self) -> bool:
        """Whether the job has ended without success."""
        return self.summary.status in ("failed", "deleted")

    def as_json(self) -> dict[str, Any]:
        """Return the server's response about the job."""
        return self.answer


class TaskJobs(Value, frozen=True):
    """Some jobs, the newest first."""

    jobs: tuple[TaskJob, ...]
    are_all: bool  # whether the list is complete

    def as_json(self) -> list[dict[str, Any]]:
        """Return the server's response about each job."""
        return [job.answer for job in self.jobs]


class Preview(Value, frozen=True):
    """The objects that a job would create."""

    release: str  # a possible name of the job
    manifests: tuple[Any, ...]  # the manifests of the objects
    warnings: tuple[str, ...]  # a warning about each resource that the cluster lacks

    def as_json(self) -> dict[str, Any]:
        """Return the server's response."""
        return {"release": self.release, "manifests": [*self.manifests], "warnings": [*self.warnings]}


class FilledValues(Value, frozen=True):
    """The values that a user has filled in."""

    values: dict[str, Any]
    document: yamlio.Document | None = None  # the file of the values, with its lines; None if there is none
    # the paths of values that `--set` has set, each with its name in problems
    set_locations: tuple[tuple[Location, str], ...] = ()

    @property
    def body(self) -> Body:
        """The body of a request with the values."""
        return Body(self.values, self.problem)

    def problem(self, pointer: str, message: str, hint: str | None) -> Problem:
        """Return a problem with the value at a JSON pointer, at its line in the file."""
        location = self._location(pointer)
        text = f"{pointer}: {message}" if pointer else message
        for begin, label in self.set_locations:
            if location[: len(begin)] == begin:
                return Problem(label, 0, 0, text, hint)
        if self.document is None or self.document.is_empty:
            return at_pointer(pointer, message, hint)
        return self.document.problem(location, text, hint=hint)

    def _location(self, pointer: str) -> Location:
        location: list[str | int] = []
        value: Any = self.values
        for step in pointer_steps(pointer):
            if isinstance(value, list) and step.isascii() and step.isdecimal() and len(step) < 7:
                index = int(step)
                value = value[index] if index < len(value) else None
                location.append(index)
            else:
                value = value.get(step) if isinstance(value, dict) else None
                location.append(step)
        return tuple(location)


class JobFilters(Value, frozen=True):
    """The filters of a list of jobs; None filters nothing."""

    status: str | None = None  # the status of the jobs
    definition: str | None = None  # the definition of the jobs
    creator: str | None = None  # the person who created the jobs
    application: str | None = None  # the application of the jobs
    project: str | None = None  # the project of the jobs
    since: str | None = None  # the earliest time of creation, in ISO 8601, or a duration before now, such as 12h
    until: str | None = None  # the time before which the jobs were created
    part: str | None = None  # a part of the names of the jobs


class LogPart(Value, frozen=True):
    """The part of a job's log to read."""

    pod: str | None = None  # the name of a pod; None for all pods
    container: str | None = None  # the name of a container; None for the default one
    tail: int | None = None  # the number of last lines to read; None for all
    since: str | None = None  # the earliest time, in RFC 3339, or a duration before now, such as 10m
    is_previous: bool = False  # whether to read the log before the container's last restart
    has_times: bool = False  # whether each line begins with its time
    is_following: bool = False  # whether to wait for further lines until the job has ended


def filled_values(
    definition: str | None, file: tuple[bytes, str] | None, settings: Sequence[str], project: str | None = None
) -> FilledValues:
    """Return filled values."""
    document, problems = yamlio.load(*file) if file else (None, [])
    values = {} if document is None or document.data is None else document.data
    if not problems and not isinstance(values, dict):
        assert document
        problems = [document.problem((), f"expected a mapping, found {show(values)}")]
    if problems:
        raise UsageError("the values are not valid", problems=problems)
    parsed = [parse_setting(argument, _EXAMPLE) for argument in settings]
    for setting in parsed:
        problems += put(values, setting, yamlio.scalar(setting.value), root="the values")
    for key, value in (("taskDef", definition), ("project", project)):
        if value is not None and values.setdefault(key, value) != value:
            message = f"expected {show(value)} as on the command line, found {show(values[key])}"
            problems.append(FilledValues(values, document).problem(f"/{key}", message, None))
    if problems:
        raise UsageError("the values are not valid", problems=problems)
    return FilledValues(values, document, tuple((setting.location, setting.label) for setting in parsed))


def preview(server: RestServer, filled: FilledValues) -> Preview:
    """Return the objects that a job would create. Raises ClusterError, with all problems of the values."""
    body = mapping(server, send(server, "POST", rest.path("v1", "jobs", dry_run="true"), filled.body))
    manifests, warnings = body.get("manifests"), body.get("warnings")
    if not isinstance(manifests, list) or not isinstance(warnings, list):
        raise no_task_service(server)
    return Preview(str(body.get("release")), tuple(manifests), tuple(map(str, warnings)))


def create(server: RestServer, filled: FilledValues, runner: Runner, key: str | None = None) -> TaskJob:
    """Create a job; if the response is lost, repeat the request with the same key, which creates no second job.

    Raises:
        ClusterError: The server refuses; with all problems of the values.
    """
    return _job(server, post_once(server, rest.path("v1", "jobs"), runner, filled.body, key or ""))


def rerun(server: RestServer, release: str, runner: Runner, *, is_pinned: bool) -> TaskJob:
    """Create a job from the values of another job; if pinned, with its revisions. Raises ClusterError."""
    where = rest.path("v1", "jobs", checked_name(release), "rerun", pinned="true" if is_pinned else None)
    return _job(server, post_once(server, where, runner))


def jobs(server: RestServer, filters: JobFilters, limit: int) -> TaskJobs:
    """Return the newest jobs, at most `limit` (0 for all). Raises ClusterError."""
    query: dict[str, str | int | None] = {
        **{key: getattr(filters, key) for key in ("status", "definition", "creator", "application", "project")},
        **{key: getattr(filters, key) for key in ("since", "until")},
        "q": filters.part,
    }
    items: list[TaskJob] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        size = min(limit - len(items), _PAGE) if limit else _PAGE
        page = mapping(server, send(server, "GET", rest.path("v1", "jobs", **query, limit=size, cursor=cursor)))
        listed, following = page.get("items"), page.get("next")
        if not isinstance(listed, list) or not isinstance(following, str | None) or len(listed) > size:
            raise no_task_service(server)
        items += (_job(server, item) for item in listed)
        if following is None or following == cursor or not listed:
            return TaskJobs(tuple(items), are_all=True)
        if limit and len(items) >= limit:
            return TaskJobs(tuple(items), are_all=False)
        cursor = following
    return TaskJobs(tuple(items), are_all=False)


def job(server: RestServer, release: str) -> TaskJob:
    """Return a job. Raises ClusterError."""
    return _job(server, send(server, "GET", rest.path("v1", "jobs", checked_name(release))))


def follow(server: RestServer, release: str, runner: Runner, timeout: float | None) -> Iterator[TaskJob]:
    """Yield a job at first and after each change of its status or reason, until it has ended.

    Requests are repeated while the server does not answer.

    Args:
        server: The server.
        release: The name of the job.
        runner: Reads the clock, and waits.
        timeout: The longest wait in seconds; None for no limit.
    """
    end = None if timeout is None else runner.clock() + timeout
    last: tuple[str, str | None, str | None] | None = None
    pause = _POLL_SECONDS
    while True:
        try:
            current = job(server, release)
            pause = _POLL_SECONDS
        except UnreachableError:
            if last is None:
                raise
            pause = min(pause * 2, _LONGEST_POLL_SECONDS)
        else:
            state = (current.summary.status, current.summary.reason, current.summary.message)
            if state != last:
                yield current
            last = state
            if current.has_ended:
                return
        if end is not None and runner.clock() >= end:
            status = last[0] if last else "unknown"
            raise TimedOutError(
                f"{release} has not ended: it is {status}", hint=f"mlpack task status {release} --wait waits again"
            )
        runner.sleep(pause if end is None else max(0.0, min(pause, end - runner.clock())))


def log(server: RestServer, release: str, runner: Runner, part: LogPart, tell: Tell) -> Iterator[bytes]:
    """Yield the log of a job in parts; while following, wait for its container first, and until it ends."""
    query: dict[str, str | int | None] = {
        **{key: getattr(part, key) for key in ("pod", "container", "tail", "since")},
        "previous": "true" if part.is_previous else None,
        "timestamps": "true" if part.has_times else None,
        "follow": "true" if part.is_following else None,
    }
    where = rest.path("v1", "jobs", checked_name(release), "logs", **query)
    last = ""
    while True:
        is_waiting = part.is_following and not job(server, release).has_ended
        with rest.opened(server, where) as answer:
            if not isinstance(answer, rest.Answer):
                yield from answer
                return
            detail = detail_of(answer)
            if not is_waiting or type_of(answer) != _NO_LOG:
                raise refusal(server, answer)
        if detail != last:
            tell(f"waiting: {detail}")
            last = detail
        runner.sleep(_POLL_SECONDS)


def cancel(server: RestServer, release: str) -> TaskJob:
    """Stop a job; its record and its claims stay. Raises ClusterError."""
    return _job(server, send(server, "POST", rest.path("v1", "jobs", checked_name(release), "cancel")))


def delete(server: RestServer, release: str, *, with_storage: bool) -> TaskJob:
    """Stop a job, and delete its objects and its record; its claims on request. Raises ClusterError."""
    storage = "delete" if with_storage else "keep"
    return _job(server, send(server, "DELETE", rest.path("v1", "jobs", checked_name(release), storage=storage)))


def _job(server: RestServer, body: Any) -> TaskJob:
    try:
        summary = convert(mapping(server, body), JobSummary)
    except FieldsError:
        raise no_task_service(server) from None
    if not summary.release or not is_label_value(summary.release):  # shells read the printed name
        raise no_task_service(server)
    return TaskJob(summary, body)
