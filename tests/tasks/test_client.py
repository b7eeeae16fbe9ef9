"""Tests of the client of a task service, with responses that the tests choose."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import rest
from packager.base.errors import ClusterError, UnreachableError
from packager.base.process import Runner
from packager.base.rest import Answer, RestServer
from packager.tasks import client

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = RestServer("https://h")
JOB = {"release": "a-1", "status": "running", "created": "2026-11-22T10:00:00Z", "more": [1]}


class Silent(Runner):
    """A machine on which sleeping takes no time."""

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0


RUNNER = Silent()


class Script:
    """Answers requests with prepared responses.

    Attributes:
        answers: The next responses, each an answer, an error or the parts of a log.
        requests: The received requests: method, path and headers.
    """

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.requests: list[tuple[str, str, Any]] = []

    def ask(self, _to: RestServer, method: str, where: str, _body: Any = None, *, headers: Any = None) -> Answer:
        self.requests.append((method, where, headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Answer) else Answer(200, "application/json", answer)

    @contextmanager
    def opened(self, _to: RestServer, where: str) -> Iterator[Any]:
        self.requests.append(("GET", where, None))
        yield self.answers.pop(0)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script()
    monkeypatch.setattr(rest, "ask", script.ask)
    monkeypatch.setattr(rest, "opened", script.opened)
    return script


NO_LOG = "urn:mlpack:problem:no-log"


def problem(status: int, **body: Any) -> Answer:
    return Answer(status, "application/problem+json", {"detail": "no", "errors": [], **body})


def test_answer_that_is_not_a_job_is_refused(script: Script) -> None:
    for answer in ([JOB], {}, {"release": "a-1"}):
        script.answers = [answer]
        with pytest.raises(ClusterError, match="is not one of a task service"):
            client.job(SERVER, "a-1")


def test_jobs_of_all_pages_are_listed(script: Script) -> None:
    script.answers = [{"items": [JOB], "next": "c"}, {"items": [JOB], "next": None}]
    assert client.jobs(SERVER, 0) == ([JOB, JOB], True)
    assert [where for _, where, _ in script.requests] == ["/v1/jobs?limit=100", "/v1/jobs?limit=100&cursor=c"]


def test_jobs_send_filters_and_limit(script: Script) -> None:
    script.answers = [{"items": [JOB, JOB], "next": "c"}]
    assert client.jobs(SERVER, 2, status="failed", q="a&b", creator=None) == ([JOB, JOB], False)
    assert script.requests[0][1] == "/v1/jobs?status=failed&q=a%26b&limit=2"


def test_job_reports_status_of_proxy_response(script: Script) -> None:
    script.answers = [Answer(502, "text/html")]
    with pytest.raises(ClusterError, match=r"^https://h has answered with status 502 \(text/html\)$"):
        client.job(SERVER, "a-1")
    script.answers = [Answer(503, "application/problem+json", {"detail": "away"}, retry_after=5)]
    with pytest.raises(ClusterError, match="away") as error:
        client.job(SERVER, "a-1")
    assert error.value.hint == "try again after 5 s"


def test_create_retries_lost_response_with_same_idempotency_key(script: Script) -> None:
    script.answers = [UnreachableError("cut"), UnreachableError("cut"), JOB]
    assert client.post_once(SERVER, "/v1/jobs", RUNNER, {"taskDef": "d"}) == JOB
    assert len({headers["Idempotency-Key"] for _, _, headers in script.requests}) == 1
    script.answers = [UnreachableError("cut")] * 3
    with pytest.raises(UnreachableError):
        client.post_once(SERVER, "/v1/jobs", RUNNER)


def test_follow_retries_unreachable_server(script: Script) -> None:
    script.answers = [JOB, UnreachableError("away"), UnreachableError("away"), JOB, {**JOB, "status": "succeeded"}]
    statuses = [job["status"] for job in client.follow(SERVER, "a-1", RUNNER, None)]
    assert statuses == ["running", "succeeded"]
    script.answers = [UnreachableError("away")]
    with pytest.raises(UnreachableError):
        next(client.follow(SERVER, "a-1", RUNNER, None))


def test_log_follow_waits_for_container(script: Script) -> None:
    no_pod = problem(409, type=NO_LOG, detail="the job has no pod: it has not started, or its pods were deleted")
    creating = problem(409, type=NO_LOG, detail='container "x" in pod "y" is waiting to start: ContainerCreating')
    messages: list[str] = []
    script.answers = [JOB, no_pod, JOB, creating, JOB, creating, JOB, iter([b"a\n", b"b\n"])]
    assert b"".join(client.log(SERVER, "a-1", RUNNER, messages.append, is_following=True)) == b"a\nb\n"
    assert messages == [f"waiting: {answer.body['detail']}" for answer in (no_pod, creating)]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([JOB, problem(409, detail="follow takes 20 pods at most: name one of a, b")], "follow takes 20"),
        ([JOB, problem(403, detail="the job belongs to bob")], "the job belongs to bob"),
        ([{**JOB, "status": "failed"}, problem(409, type=NO_LOG, detail="the job has no pod: x")], "no pod"),
    ],
)
def test_log_follow_fails_at_once_for_permanent_refusal(script: Script, answers: list[Any], message: str) -> None:
    script.answers = answers
    with pytest.raises(ClusterError, match=message):
        list(client.log(SERVER, "a-1", RUNNER, print, is_following=True))


def test_problem_converts_pointer_to_position_in_file(script: Script) -> None:
    text = b'taskDef: d\nprocess:\n  train: {maxStep: 1}\nendpoints:\n- {endpoint: x}\n- {endpoint: y}\n"a/b~c": 1\n'
    values, document = client.filled_values(None, (text, "v.yaml"), [])
    places = {
        "/process/train/saveStep": "v.yaml:3:10",
        "/endpoints/1/endpoint": "v.yaml:6:14",
        "/endpoints/9/endpoint": "v.yaml:5:1",
        "/a~1b~0c": "v.yaml:7:10",
        "": "v.yaml:1:1",
    }
    script.answers = [problem(422, errors=[{"pointer": pointer, "detail": "m"} for pointer in places])]
    with pytest.raises(ClusterError) as refused:
        client.request(SERVER, "POST", "/v1/jobs", values, document)
    assert [str(found).partition(": ")[0] for found in refused.value.problems] == [*places.values()]


def test_filled_values_parse_numbers_and_extend_lists() -> None:
    values, _ = client.filled_values("d", None, ["a.b=5", "c.0.d=x", "c.1.d=true", r"e\.f=1.10"])
    assert values == {"taskDef": "d", "a": {"b": 5}, "c": [{"d": "x"}, {"d": True}], "e.f": "1.10"}
