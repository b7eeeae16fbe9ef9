"""The client of a task service: jobs, templates and definitions, as the JSON that its server answers."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Literal

from packager.base import rest, yamlio
from packager.base.errors import ClusterError, TimedOutError, UnreachableError, UsageError
from packager.base.names import is_label_value
from packager.base.problems import Problem, show
from packager.modelspec.settings import parse_setting, put

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.process import Runner, Tell
    from packager.base.rest import Answer, RestServer
    from packager.base.yamlio import Document

Kind = Literal["templates", "definitions"]

_ENDED = ("succeeded", "failed", "deleted")
"""The final statuses of a job."""

_POLL_SECONDS = 2.0
_LONGEST_POLL_SECONDS = 30.0
_PAGE = 100
_NO_LOG = "urn:mlpack:problem:no-log"
"""The type of the problem that a job has no log yet."""

_EXAMPLE = "process.train.number=5"

_MADE_BY_SERVER = ("revision", "created", "author", "required_values", "warnings")
"""The keys that the server adds to its response; they are removed, so that the output of show can be applied."""


def request(  # noqa: PLR0913, PLR0917 - what makes a request
    server: RestServer,
    method: str,
    where: str,
    body: dict[str, Any] | None = None,
    document: Document | None = None,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Send a request, and return the JSON object that the server answers; empty without one.

    Problems of the body are at the lines of `document`, if it is the file of the body.
    """
    answer = rest.ask(server, method, where, body, headers=headers)
    if not answer.is_ok:
        raise _refusal(server, answer, document)
    if answer.body is not None and not isinstance(answer.body, dict):
        raise _no_task_service(server)
    return answer.body or {}


def filled_values(
    definition: str | None, file: tuple[bytes, str] | None, settings: Sequence[str], project: str | None = None
) -> tuple[dict[str, Any], Document | None]:
    """Return the values that a user has filled in, and their file; what the command line names counts more."""
    document, problems = yamlio.load(*file) if file else (None, [])
    values: Any = {} if document is None or document.data is None else document.data
    if document and not problems and not isinstance(values, dict):
        problems = [document.problem((), f"expected a mapping, found {show(values)}")]
    for setting in [parse_setting(argument, _EXAMPLE) for argument in settings] if not problems else ():
        problems += put(values, setting, yamlio.scalar(setting.value), root="the values")
    if problems:
        raise UsageError("the values are not valid", problems=problems)
    named = {"taskDef": definition, "project": project}
    return {**values, **{key: value for key, value in named.items() if value is not None}}, document


def post_once(  # noqa: PLR0913, PLR0917 - what makes a request
    server: RestServer,
    where: str,
    runner: Runner,
    body: dict[str, Any] | None = None,
    document: Document | None = None,
    key: str | None = None,
) -> dict[str, Any]:
    """Create a job; if the response is lost, repeat the request with the same key, which creates no second job."""
    headers = {"Idempotency-Key": key or secrets.token_hex(16)}
    for attempt in (1, 2):
        try:
            return _job(server, request(server, "POST", where, body, document, headers))
        except UnreachableError:
            runner.sleep(attempt)
    return _job(server, request(server, "POST", where, body, document, headers))


def jobs(server: RestServer, limit: int, **filters: str | None) -> tuple[list[dict[str, Any]], bool]:
    """Return the newest jobs, at most `limit` (0 for all), and whether these are all.

    `filters` are the parameters of `GET /v1/jobs`; None filters nothing.
    """
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        size = min(limit - len(items), _PAGE) if limit else _PAGE
        page = request(server, "GET", rest.path("v1", "jobs", **filters, limit=size, cursor=cursor))
        items += (_job(server, item) for item in page.get("items", ()))
        cursor = page.get("next")
        if cursor is None or (limit and len(items) >= limit):
            return items, cursor is None


def job(server: RestServer, release: str) -> dict[str, Any]:
    """Return a job."""
    return _job(server, request(server, "GET", rest.path("v1", "jobs", release)))


def has_ended(job: dict[str, Any]) -> bool:
    """Return whether the status of a job is final."""
    return job["status"] in _ENDED


def follow(server: RestServer, release: str, runner: Runner, timeout: float | None) -> Iterator[dict[str, Any]]:
    """Yield a job at first and after each change of its status or reason, until it has ended, or for `timeout` seconds.

    Requests are repeated while the server does not answer.
    """
    end = None if timeout is None else runner.clock() + timeout
    last: tuple[Any, ...] = ()
    pause = _POLL_SECONDS
    while True:
        try:
            current = job(server, release)
        except UnreachableError:
            if not last:
                raise
            pause = min(pause * 2, _LONGEST_POLL_SECONDS)
        else:
            pause = _POLL_SECONDS
            state = (current["status"], current.get("reason"), current.get("message"))
            if state != last:
                yield current
            last = state
            if has_ended(current):
                return
        if end is not None and runner.clock() >= end:
            hint = f"mlpack task status {release} --wait waits again"
            raise TimedOutError(f"{release} has not ended: it is {last[0]}", hint=hint)
        runner.sleep(pause if end is None else max(0.0, min(pause, end - runner.clock())))


def log(
    server: RestServer, release: str, runner: Runner, tell: Tell, *, is_following: bool = False, **part: Any
) -> Iterator[bytes]:
    """Yield the log of a job in parts; while following, wait for its container first, and until it ends.

    `part` has parameters of `GET /v1/jobs/…/logs`: the pod, how many lines, and so on; None leaves one out.
    """
    where = rest.path("v1", "jobs", release, "logs", **part, follow="true" if is_following else None)
    last = ""
    while True:
        is_waiting = is_following and not has_ended(job(server, release))
        with rest.opened(server, where) as answer:
            if not isinstance(answer, rest.Answer):
                yield from answer
                return
        has_log = not isinstance(answer.body, dict) or answer.body.get("type") != _NO_LOG
        if not is_waiting or has_log:
            raise _refusal(server, answer)
        if (detail := str(answer.body.get("detail"))) != last:
            tell(f"waiting: {detail}")
            last = detail
        runner.sleep(_POLL_SECONDS)


def registrations(kind: Kind, file: tuple[bytes, str]) -> list[Document]:
    """Return the documents of a file that each register a template or definition, and have its name."""
    documents, problems = yamlio.load_all(*file)
    filled = [document for document in documents if not document.is_empty and document.data is not None]
    for document in filled if not problems else ():
        if not isinstance(document.data, dict) or "name" not in document.data:
            problems.append(document.problem((), "expected a mapping with the key `name`"))
        elif not is_label_value(str(document.data["name"])):
            problems.append(document.problem(("name",), "expected a name of letters, digits and '-_.'"))
    if problems:
        raise UsageError(f"the {kind} are not valid", problems=problems)
    if not filled:
        raise UsageError(f"{file[1]} has no {kind}")
    return filled


def apply(server: RestServer, kind: Kind, document: Document, *, is_trial: bool) -> tuple[str, dict[str, Any]]:
    """Register a template or definition: for the first time, or as the next revision if it has changed.

    Returns what was done, or would be done, and the server's answer, which has warnings.
    """
    content = {key: value for key, value in document.data.items() if key not in _MADE_BY_SERVER}
    if is_trial:
        answer = request(server, "POST", rest.path("v1", kind, dry_run="true"), content, document)
        return str(answer.get("outcome")), answer
    where = rest.path("v1", kind, str(content["name"]))
    present = rest.ask(server, "GET", where)
    if present.status == 404:
        return "created", request(server, "POST", rest.path("v1", kind), content, document)
    if not present.is_ok or not isinstance(present.body, dict):
        raise _refusal(server, present)
    revision = present.body.get("revision")
    answer = request(server, "PUT", where, content, document, {"If-Match": f'"{revision}"'})
    return "unchanged" if answer.get("revision") == revision else "changed", answer


def _problem(document: Document | None, pointer: str, message: str, hint: str | None) -> Problem:
    """Return a problem with the value at a JSON pointer (RFC 6901), at its line in the file if there is one."""
    text = f"{pointer}: {message}" if pointer else message
    if document is None or document.is_empty:
        return Problem("values", 0, 0, text, hint)
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    location = tuple(int(step) if step.isdecimal() and len(step) < 7 else step for step in steps)
    return document.problem(location, text, hint=hint)


def _refusal(server: RestServer, answer: Answer, document: Document | None = None) -> ClusterError:
    """Return the error for a refusal: a problem of RFC 9457 with its details, another response with its status."""
    body = answer.body if isinstance(answer.body, dict) else {}
    kind = f" ({answer.kind})" if answer.kind else ""
    message = body.get("detail") or f"{server.url} has answered with status {answer.status}{kind}"
    hint = None if answer.retry_after is None else f"try again after {answer.retry_after:g} s"
    if answer.status == 401:
        hint = "set MLPACK_TOKEN, or --token-file FILE: `mlpack serve token` on the server creates a token"
    errors = [error for error in body.get("errors") or () if isinstance(error, dict)]
    problems = [
        _problem(document, str(error.get("pointer") or ""), str(error.get("detail")), error.get("hint"))
        for error in errors
    ]
    return ClusterError(str(message), hint=hint, problems=problems)


def _no_task_service(server: RestServer) -> ClusterError:
    return ClusterError(f"the answer of {server.url} is not one of a task service", hint="is the address right?")


def _job(server: RestServer, answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict) or not {"release", "status", "created"} <= answer.keys():
        raise _no_task_service(server)
    return answer
