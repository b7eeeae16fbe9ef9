"""The requests of the client of a task service, and its refusals as errors with their places."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from packager.base import rest
from packager.base.errors import ClusterError, UnreachableError, UsageError
from packager.base.names import is_label_value
from packager.base.problems import Problem, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.base.rest import Answer, RestServer
    from packager.base.runner import Runner

    Placed = Callable[[str, str, str | None], Problem]
    """Returns a problem with the value at a JSON pointer into a body: pointer, message, hint."""

_MAX_PROBLEMS = 200
_RETRIES = 3


def connect(url: str, token: str | None, *, is_insecure: bool = False) -> RestServer:
    """Return the server at `url`, with the caller's token. Raises UsageError, as `rest.server`."""
    return rest.server(url, token, is_insecure=is_insecure)


def checked_name(name: str) -> str:
    """Return the name of something that is registered, or of a job. Raises UsageError."""
    if not name or not is_label_value(name):
        raise UsageError(f"invalid name {show(name)}: expected at most 63 letters, digits and '-_.'")
    return name


def without_place(pointer: str, message: str, hint: str | None) -> Problem:
    """Return a problem with what was sent, by its JSON pointer."""
    return Problem("values", 0, 0, f"{pointer}: {message}" if pointer else message, hint)


def answered(  # noqa: PLR0913, PLR0917 - what makes a request
    server: RestServer,
    method: str,
    where: str,
    body: Any = None,
    placed: Placed = without_place,
    headers: dict[str, str] | None = None,
) -> Any:
    """Return the body of an answer. Raises ClusterError, with all problems, if the server refuses."""
    answer = rest.ask(server, method, where, body, headers=headers)
    if not answer.is_ok:
        raise refusal(server, answer, placed)
    return answer.body


def posted_once(  # noqa: PLR0913, PLR0917 - what makes a request, and who waits
    server: RestServer, where: str, runner: Runner, body: Any = None, placed: Placed = without_place, key: str = ""
) -> Any:
    """Return the answer to a POST; if it is lost, ask again with the same key, which does nothing twice.

    Args:
        server: The server.
        where: The path.
        runner: Waits before it asks again.
        body: What is sent.
        placed: Returns a problem with what is sent.
        key: The idempotency key; empty for a new one.

    Raises:
        ClusterError: As `answered`.
    """
    headers = {"Idempotency-Key": key or secrets.token_hex(16)}
    for attempt in range(1, _RETRIES):
        try:
            return answered(server, "POST", where, body, placed, headers)
        except UnreachableError:
            runner.sleep(attempt)
    return answered(server, "POST", where, body, placed, headers)


def detail_of(answer: Answer) -> str:
    """Return what a problem of RFC 9457 says; empty if the answer is none."""
    detail = answer.body.get("detail") if isinstance(answer.body, dict) else None
    return detail if isinstance(detail, str) else ""


def refusal(server: RestServer, answer: Answer, placed: Placed = without_place) -> ClusterError:
    """Return a problem of RFC 9457 as an error; for another answer, its status."""
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
    return ClusterError(message, hint=hint, problems=_problems(errors, placed))


def _problems(errors: Any, placed: Placed) -> list[Problem]:
    problems = []
    for error in errors[:_MAX_PROBLEMS] if isinstance(errors, list) else ():
        if isinstance(error, dict):
            hint = error.get("hint")
            pointer, detail = str(error.get("pointer") or ""), str(error.get("detail"))
            problems.append(placed(pointer, detail, None if hint is None else str(hint)))
    return problems


def no_task_service(server: RestServer) -> ClusterError:
    """Return the error that an answer is not one of a task service."""
    return ClusterError(f"the answer of {server.url} is not one of a task service", hint="is the address right?")


def mapping(server: RestServer, body: Any) -> dict[str, Any]:
    """Return the body of an answer that has keys. Raises ClusterError."""
    if not isinstance(body, dict):
        raise no_task_service(server)
    return body
