"""The requests of the client of a task service, and its refusals as errors with places. Tests: tasks/test_jobs.py."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from packager.base import rest
from packager.base.errors import ClusterError, UnreachableError, UsageError
from packager.base.names import is_label_value
from packager.base.problems import Problem, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.base.process import Runner
    from packager.base.rest import Answer, RestServer

    Locate = Callable[[str, str, str | None], Problem]
    """Returns a problem for a JSON pointer, a message and a hint."""

_MAX_PROBLEMS = 200
_MAX_TEXT = 10_000
"""The most problems that are shown, and the most characters of each text: a response may have 32 MiB of them."""

_RETRIES = 3
_NO_CONTENT = 204


def checked_name(name: str) -> str:
    """Return the valid name of a job, template or definition. Raises UsageError for an invalid name."""
    if not name or not is_label_value(name):
        raise UsageError(f"invalid name {show(name)}: expected at most 63 letters, digits and '-_.'")
    return name


def at_pointer(pointer: str, message: str, hint: str | None) -> Problem:
    """Return a problem with the value at a JSON pointer into values that come from no file."""
    return Problem("values", 0, 0, f"{pointer}: {message}" if pointer else message, hint)


def pointer_steps(pointer: str) -> list[str]:
    """Return the keys and indices in a JSON pointer (RFC 6901)."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def send(  # noqa: PLR0913, PLR0917 - what makes a request
    server: RestServer,
    method: str,
    where: str,
    body: dict[str, Any] | None = None,
    problem: Locate = at_pointer,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Send a request, and return the body of the response, which must be a mapping; empty without one.

    `problem` returns a problem for a JSON pointer into the sent body, a message and a hint.
    """
    answer = rest.ask(server, method, where, body, headers=headers)
    if not answer.is_ok:
        raise refusal(server, answer, problem)
    if answer.status != _NO_CONTENT and not isinstance(answer.body, dict):
        raise no_task_service(server)
    return answer.body or {}


def post_once(  # noqa: PLR0913, PLR0917 - the same
    server: RestServer,
    where: str,
    runner: Runner,
    body: dict[str, Any] | None = None,
    problem: Locate = at_pointer,
    key: str = "",
) -> dict[str, Any]:
    """Send a POST, and return the body of the response; if it is lost, repeat the request with the same key."""
    headers = {"Idempotency-Key": key or secrets.token_hex(16)}
    for attempt in range(1, _RETRIES):
        try:
            return send(server, "POST", where, body, problem, headers)
        except UnreachableError:
            runner.sleep(attempt)
    return send(server, "POST", where, body, problem, headers)


def detail_of(answer: Answer) -> str:
    """Return the `detail` of a problem of RFC 9457; empty for another response."""
    detail = answer.body.get("detail") if isinstance(answer.body, dict) else None
    return detail[:_MAX_TEXT] if isinstance(detail, str) else ""


def refusal(server: RestServer, answer: Answer, problem: Locate = at_pointer) -> ClusterError:
    """Return the error for a refusal: a problem of RFC 9457 with its details, another response with its status."""
    message = detail_of(answer)
    if not message or answer.kind != "application/problem+json":
        kind = f" ({answer.kind})" if answer.kind else ""
        message = f"{server.url} has answered with status {answer.status}{kind}"
    hint = None
    if answer.status == 401:
        hint = "set MLPACK_TOKEN, or --token-file FILE: `mlpack serve token` on the server creates a token"
    elif answer.retry_after is not None:
        hint = f"try again after {answer.retry_after:g} s"
    errors = answer.body.get("errors") if isinstance(answer.body, dict) else None
    problems = []
    for error in errors[:_MAX_PROBLEMS] if isinstance(errors, list) else ():
        if isinstance(error, dict):
            texts = {key: str(error[key])[:_MAX_TEXT] for key in ("pointer", "detail", "hint") if error.get(key)}
            problems.append(problem(texts.get("pointer", ""), texts.get("detail", ""), texts.get("hint")))
    return ClusterError(message, hint=hint, problems=problems)


def no_task_service(server: RestServer) -> ClusterError:
    """Return the error for a response that does not come from a task service."""
    return ClusterError(f"the answer of {server.url} is not one of a task service", hint="is the address right?")
