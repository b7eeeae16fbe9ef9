"""Tests of the client of a task service, with responses that the tests choose."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import rest
from packager.base.errors import ClusterError, MlpackError, UnreachableError
from packager.base.process import Runner
from packager.base.rest import Answer, RestServer
from packager.tasks import jobs as task

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


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {**JOB, "release": 5},
        {**JOB, "pods": "x"},
        {**JOB, "release": "a\n; rm -rf x"},
        {**JOB, "release": ""},
    ],
)
def test_job_refuses_invalid_response(script: Script, answer: Any) -> None:
    script.answers = [answer]
    with pytest.raises(ClusterError, match="is not one of a task service"):
        task.job(SERVER, "a-1")


@pytest.mark.parametrize("page", [{}, {"items": 5, "next": None}, {"items": [], "next": 5}, {"items": [JOB] * 3}])
def test_jobs_refuse_invalid_page(script: Script, page: Any) -> None:
    script.answers = [page]
    with pytest.raises(ClusterError, match="is not one of a task service"):
        task.jobs(SERVER, 2)


def test_jobs_stop_at_page_limit_or_repeated_cursor(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_MAX_PAGES", 3)
    script.answers = [{"items": [JOB], "next": str(number)} for number in range(4)]
    jobs, are_all = task.jobs(SERVER, 0)
    assert (len(jobs), are_all) == (3, False)
    script.answers = [{"items": [JOB], "next": "same"}] * 3
    assert len(task.jobs(SERVER, 0)[0]) == 2


def test_jobs_send_filters_and_limit(script: Script) -> None:
    script.answers = [{"items": [JOB, JOB], "next": "c"}]
    jobs, _ = task.jobs(SERVER, 2, status="failed", q="a&b", creator=None)
    assert [job.answer for job in jobs] == [JOB, JOB]
    assert script.requests[0][1] == "/v1/jobs?status=failed&q=a%26b&limit=2"


def test_create_limits_problems_of_server_in_number_and_length(script: Script) -> None:
    errors = [{"pointer": f"/{number}", "detail": "x"} for number in range(1000)]
    script.answers = [problem(422, errors=[5, *errors])]
    with pytest.raises(ClusterError) as error:
        task.create(SERVER, task.filled_values("d", None, []), RUNNER)
    assert len(error.value.problems) < 300
    assert str(error.value.problems[0]) == "values: /0: x"
    endless = "y" * 1_000_000
    script.answers = [problem(422, detail=endless, errors=[{"pointer": endless, "detail": endless, "hint": endless}])]
    with pytest.raises(ClusterError) as error:
        task.create(SERVER, task.filled_values("d", None, []), RUNNER)
    [only] = error.value.problems
    assert max(len(str(error.value)), len(str(only))) < 50_000


def test_job_reports_status_of_proxy_response(script: Script) -> None:
    script.answers = [Answer(502, "text/html")]
    with pytest.raises(ClusterError, match=r"^https://h has answered with status 502 \(text/html\)$"):
        task.job(SERVER, "a-1")
    script.answers = [Answer(503, "application/problem+json", {"detail": "away"}, retry_after=5)]
    with pytest.raises(ClusterError, match="away") as error:
        task.job(SERVER, "a-1")
    assert error.value.hint == "try again after 5 s"


def test_create_retries_lost_response_with_same_idempotency_key(script: Script) -> None:
    script.answers = [UnreachableError("cut"), UnreachableError("cut"), JOB]
    assert task.create(SERVER, task.filled_values("d", None, []), RUNNER).release == "a-1"
    assert len({headers["Idempotency-Key"] for _, _, headers in script.requests}) == 1
    script.answers = [UnreachableError("cut")] * 3
    with pytest.raises(UnreachableError):
        task.create(SERVER, task.filled_values("d", None, []), RUNNER)


def test_follow_retries_unreachable_server(script: Script) -> None:
    script.answers = [JOB, UnreachableError("away"), UnreachableError("away"), JOB, {**JOB, "status": "succeeded"}]
    statuses = [job.status for job in task.follow(SERVER, "a-1", RUNNER, None)]
    assert statuses == ["running", "succeeded"]
    script.answers = [UnreachableError("away")]
    with pytest.raises(UnreachableError):
        next(task.follow(SERVER, "a-1", RUNNER, None))


def test_log_follow_waits_for_container(script: Script) -> None:
    no_pod = problem(409, type=NO_LOG, detail="the job has no pod: it has not started, or its pods were deleted")
    creating = problem(409, type=NO_LOG, detail='container "x" in pod "y" is waiting to start: ContainerCreating')
    messages: list[str] = []
    script.answers = [JOB, no_pod, JOB, creating, JOB, creating, JOB, iter([b"a\n", b"b\n"])]
    assert b"".join(task.log(SERVER, "a-1", RUNNER, messages.append, is_following=True)) == b"a\nb\n"
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
        list(task.log(SERVER, "a-1", RUNNER, print, is_following=True))


@pytest.mark.parametrize(
    ("pointer", "place"),
    [
        ("/process/train/saveStep", "v.yaml:3:10"),
        ("/endpoints/1/endpoint", "v.yaml:6:14"),
        ("/endpoints/9/endpoint", "v.yaml:5:1"),
        ("/a~1b~0c", "v.yaml:7:10"),
        ("", "v.yaml:1:1"),
        ("/name/x", "--set name"),
    ],
)
def test_problem_converts_pointer_to_position_in_file(pointer: str, place: str) -> None:
    text = b'taskDef: d\nprocess:\n  train: {maxStep: 1}\nendpoints:\n- {endpoint: x}\n- {endpoint: y}\n"a/b~c": 1\n'
    filled = task.filled_values(None, (text, "v.yaml"), ["name=x"])
    assert str(filled.problem(pointer, "m", None)).startswith(f"{place}: ")


def test_filled_values_parse_numbers_and_extend_lists() -> None:
    filled = task.filled_values("d", None, ["a.b=5", "c.0.d=x", "c.1.d=true", r"e\.f=1.10"])
    assert filled.values == {"taskDef": "d", "a": {"b": 5}, "c": [{"d": "x"}, {"d": True}], "e.f": "1.10"}


@pytest.mark.parametrize("name", ["a/b", "x" * 64])
def test_job_refuses_invalid_name(name: str) -> None:
    with pytest.raises(MlpackError, match="invalid name"):
        task.job(SERVER, name)
