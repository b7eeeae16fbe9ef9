"""The client of a task service: creates jobs from filled values, and follows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import rest, yamlio
from packager.base.errors import TimedOutError, UnreachableError, UsageError
from packager.base.names import is_label_value
from packager.base.problems import Problem, show
from packager.base.values import Fields, FieldsError, Value, convert, replace
from packager.modelspec.settings import parse_setting, put
from packager.tasks.requests import (
    at_pointer,
    checked_name,
    detail_of,
    no_task_service,
    pointer_steps,
    post_once,
    refusal,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.process import Runner, Tell
    from packager.base.rest import RestServer
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


class TaskJob(Fields, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A job in a server's response."""

    release: str
    status: str
    created: str
    creator: str = ""
    definition: dict[str, Any] = {}
    reason: str | None = None
    message: str | None = None
    hint: str | None = None
    pods: list[dict[str, Any]] = []
    answer: dict[str, Any] = {}  # the whole response, which `-o json` prints

    @property
    def has_ended(self) -> bool:
        """Whether the status of the job is final."""
        return self.status in ENDED

    @property
    def has_failed(self) -> bool:
        """Whether the job has ended without success."""
        return self.status in ("failed", "deleted")


class FilledValues(Value, frozen=True):
    """The values that a user has filled in."""

    values: dict[str, Any]
    document: yamlio.Document | None = None  # the file of the values, with its lines; None if there is none
    # the paths of values that `--set` has set, each with its name in problems
    set_locations: tuple[tuple[Location, str], ...] = ()

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


def preview(server: RestServer, filled: FilledValues) -> dict[str, Any]:
    """Return the objects that a job would create, as `manifests`, with its `release`, and `warnings`.

    Raises ClusterError, with all problems of the values.
    """
    where = rest.path("v1", "jobs", dry_run="true")
    body = send(server, "POST", where, filled.values, filled.problem)
    if not isinstance(body.get("manifests"), list) or not isinstance(body.get("warnings"), list):
        raise no_task_service(server)
    return {key: body.get(key) for key in ("release", "manifests", "warnings")}


def create(server: RestServer, filled: FilledValues, runner: Runner, key: str | None = None) -> TaskJob:
    """Create a job; if the response is lost, repeat the request with the same key, which creates no second job."""
    where = rest.path("v1", "jobs")
    return _job(server, post_once(server, where, runner, filled.values, filled.problem, key or ""))


def rerun(server: RestServer, release: str, runner: Runner, *, is_pinned: bool) -> TaskJob:
    """Create a job from the values of another job; if pinned, with its revisions. Raises ClusterError."""
    where = rest.path("v1", "jobs", checked_name(release), "rerun", pinned="true" if is_pinned else None)
    return _job(server, post_once(server, where, runner))


def jobs(server: RestServer, limit: int, **filters: str | None) -> tuple[list[TaskJob], bool]:
    """Return the newest jobs, at most `limit` (0 for all), and whether these are all. Raises ClusterError.

    `filters` are the parameters of `GET /v1/jobs`; None filters nothing.
    """
    items: list[TaskJob] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        size = min(limit - len(items), _PAGE) if limit else _PAGE
        page = send(server, "GET", rest.path("v1", "jobs", **filters, limit=size, cursor=cursor))
        listed, following = page.get("items"), page.get("next")
        if not isinstance(listed, list) or not isinstance(following, str | None) or len(listed) > size:
            raise no_task_service(server)
        items += (_job(server, item) for item in listed)
        if following is None or following == cursor or not listed:
            return items, True
        if limit and len(items) >= limit:
            return items, False
        cursor = following
    return items, False


def job(server: RestServer, release: str) -> TaskJob:
    """Return a job. Raises ClusterError."""
    return _job(server, send(server, "GET", rest.path("v1", "jobs", checked_name(release))))


def follow(server: RestServer, release: str, runner: Runner, timeout: float | None) -> Iterator[TaskJob]:
    """Yield a job at first and after each change of its status or reason, until it has ended, or for `timeout` seconds.

    Requests are repeated while the server does not answer.
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
            state = (current.status, current.reason, current.message)
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


def log(
    server: RestServer,
    release: str,
    runner: Runner,
    tell: Tell,
    *,
    is_following: bool = False,
    **part: str | int | None,
) -> Iterator[bytes]:
    """Yield the log of a job in parts; while following, wait for its container first, and until it ends.

    `part` has parameters of `GET /v1/jobs/…/logs`: the pod, how many lines, and so on; None leaves one out.
    """
    follow = "true" if is_following else None
    where = rest.path("v1", "jobs", checked_name(release), "logs", **part, follow=follow)
    last = ""
    while True:
        is_waiting = is_following and not job(server, release).has_ended
        with rest.opened(server, where) as answer:
            if not isinstance(answer, rest.Answer):
                yield from answer
                return
            detail = detail_of(answer)
            has_log = not isinstance(answer.body, dict) or answer.body.get("type") != _NO_LOG
            if not is_waiting or has_log:
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
        found = convert(body, TaskJob)
    except FieldsError:
        raise no_task_service(server) from None
    if not found.release or not is_label_value(found.release):  # shells read the printed name
        raise no_task_service(server)
    return replace(found, answer=body)
