"""Failure: the error of a refused request, which becomes a problem of RFC 9457. Tests: service/api/test_document.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import MlpackError
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.problems import Fault, Problem
    from packager.base.yamlio import Location


TITLES: dict[str, tuple[int, str]] = {
    "invalid-json": (400, "The body is not valid JSON"),
    "invalid-query": (400, "A parameter is not valid"),
    "unauthenticated": (401, "A token is needed"),
    "forbidden": (403, "The caller may not do this"),
    "not-found": (404, "Not found"),
    "method-not-allowed": (405, "The method is not allowed here"),
    "too-slow": (408, "The body is too slow"),
    "exists": (409, "It already exists"),
    "conflict": (409, "The request does not fit the state"),
    "no-log": (409, "There is no log yet"),
    "revision-mismatch": (412, "It has another revision"),
    "too-large": (413, "The body is too large"),
    "not-json": (415, "The body is not JSON"),
    "invalid-template": (422, "The template is not valid"),
    "invalid-definition": (422, "The definition is not valid"),
    "invalid-values": (422, "The filled values are not valid"),
    "invalid-body": (422, "The body is not valid"),
    "policy": (422, "The policy refuses the objects"),
    "cluster-refused": (422, "The cluster refuses the objects"),
    "idempotency-mismatch": (422, "The key was used for another request"),
    "quota": (429, "The project has no room"),
    "too-many-requests": (429, "Too many requests of this kind are at work"),
    "internal": (500, "The server has failed"),
    "cluster-unreachable": (503, "The cluster does not answer"),
    "issuer-unreachable": (503, "The issuer of tokens does not answer"),
    "database-unreachable": (503, "The database does not answer"),
}
"""The status and the title of each type of problem."""

RETRY_SECONDS = {429: 60, 503: 5}
"""The seconds after which a refused request may be repeated, by status."""


_LONGEST_DETAIL = 2_000


def over_limit(limit: str, detail: str) -> Failure:
    """Return the error of a request for which one of `limits` in server.yaml leaves no room."""
    return Failure("quota", f"{detail} (limits.{limit} in the configuration of the server)")


class Failure(MlpackError):  # noqa: N818 - it is an answer
    """The request is refused.

    Args:
        complaints: The faults in the body; only the first MOST of them are listed.
        retry_after: The seconds after which the request may be repeated; None for the default of the status.
    """

    def __init__(
        self, kind: str, detail: str, complaints: Sequence[Complaint] = (), *, retry_after: int | None = None
    ) -> None:
        super().__init__(cut(detail, _LONGEST_DETAIL))
        self.kind = kind
        self.complaints = listed(complaints)
        self.retry_after = RETRY_SECONDS.get(self.status) if retry_after is None else retry_after

    @property
    def status(self) -> int:
        """The HTTP status."""
        return TITLES[self.kind][0]

    @property
    def title(self) -> str:
        """The title of the type of problem."""
        return TITLES[self.kind][1]

    def as_problem(self, instance: str) -> dict[str, object]:
        """Return the body of the response, with `instance` as the path of the request."""
        status, title = TITLES[self.kind]
        return {
            "type": f"urn:mlpack:problem:{self.kind}",
            "title": title,
            "status": status,
            "detail": str(self),
            "instance": instance,
            "errors": [
                {"pointer": item.pointer, "detail": item.detail, **({"hint": item.hint} if item.hint else {})}
                for item in self.complaints
            ],
        }


class Complaint(Value, frozen=True):
    """A fault in a request."""

    pointer: str  # the place in the body; empty for the body as a whole
    detail: str  # the expected and the found value
    hint: str | None = None  # the fix, if it is known


MOST = 50
"""The maximum number of complaints that a response lists."""

_LONGEST_POINTER = 300
_LONGEST_TEXT = 600


def counted(complaints: Sequence[Complaint]) -> str:
    """Return the number of complaints as text, such as "2 problems"."""
    count = len(complaints)
    return f"more than {MOST} problems" if count > MOST else f"{count} problem{'s' if count != 1 else ''}"


def listed(complaints: Sequence[Complaint]) -> tuple[Complaint, ...]:
    """Return complaints for a response: at most MOST, with shortened texts, and one about the others."""
    short = tuple(
        Complaint(
            cut(item.pointer, _LONGEST_POINTER),
            cut(item.detail, _LONGEST_TEXT),
            None if item.hint is None else cut(item.hint, _LONGEST_TEXT),
        )
        for item in complaints[:MOST]
    )
    return (*short, Complaint("", "there are more problems")) if len(complaints) > MOST else short


def cut(text: str, most: int) -> str:
    """Return a text, shortened to `most` characters if it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def pointer(location: Location) -> str:
    """Return a location as a JSON pointer."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in location)


def of_fault(fault: Fault, above: Location = ()) -> Complaint:
    """Return the complaint about a fault in the body, or in the value at `above`."""
    return Complaint(pointer((*above, *fault.location)), fault.message, fault.hint)


def of_problem(problem: Problem, key: str) -> Complaint:
    """Return the complaint about a problem in the text at `key` of the body."""
    place = f"line {problem.line}, column {problem.column}: " if problem.line else ""
    return Complaint(pointer((key,)), place + problem.message, problem.hint)
