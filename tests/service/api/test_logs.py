from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import UnreachableError
from packager.service.access.tokens import create
from tests.service.api.conftest import FILLED

if TYPE_CHECKING:
    from packager.service.jobs.kube import LogOptions
    from tests.service.api.conftest import Service


def ended(service: Service, lines: list[str], *, exit_code: int = 0) -> tuple[str, str]:
    """Create a job that ends; return its release and the name of its pod."""
    release = service.created()
    pod = f"{release}-x2x9p"
    service.cluster.logs[pod] = lines
    service.cluster.pod(release, "Failed" if exit_code else "Succeeded", exit_code=exit_code)
    service.cluster.end(release, "Failed" if exit_code else "Complete")
    service.status(release, "failed" if exit_code else "succeeded")
    return release, pod


def test_job_log_outlives_the_pods(service: Service) -> None:
    release, pod = ended(service, ["3\n", "2\n", "1\n"])
    path = f"/v1/jobs/{release}/logs"
    live = service.get(path)
    assert live.text == "3\n2\n1\n"
    del service.cluster.objects["Pod", pod]
    kept = service.get(path)
    assert (kept.status_code, kept.text) == (200, "3\n2\n1\n")
    assert kept.headers["content-type"] == live.headers["content-type"] == "text/plain; charset=utf-8"
    assert service.get(f"{path}?tail=1&follow=true").text == "1\n"
    assert service.get(f"{path}?tail=1&timestamps=true").text == "2026-11-22T10:00:02.500000Z 1\n"
    assert service.get(f"{path}?since=2026-11-22T10:00:02Z").text == "1\n"
    assert service.get(f"{path}?since=1s").text == ""
    assert service.get(f"{path}?pod={pod}&container=counter").text == "3\n2\n1\n"
    assert service.get(path, "viewer").status_code == 403
    service.cluster.error = UnreachableError("the cluster does not answer: connection refused")
    assert service.get(path).text == "3\n2\n1\n"
    service.cluster.error = None
    assert service.call("DELETE", f"/v1/jobs/{release}").status_code == 202
    service.until(lambda: service.get(path).status_code == 404, "the record to be deleted")


def test_owner_who_became_a_viewer_reads_the_log_and_changes_nothing(service: Service) -> None:
    token, service.tokens["ada"] = create(service.server.store, "ada", "user", None)
    release = str(service.post("/v1/jobs", FILLED, "ada").json()["release"])
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    service.cluster.logs[f"{release}-x2x9p"] = ["3\n"]
    service.cluster.pod(release, "Running")
    service.status(release, "running")
    service.server.store.tokens.remove(token.id)
    service.tokens["ada"] = create(service.server.store, "ada", "viewer", None)[1]
    path = f"/v1/jobs/{release}"
    assert service.get(f"{path}/logs", "ada").text == "3\n"
    assert service.get(f"{path}/logs", "viewer").status_code == 403
    for method, part in (("GET", "/callbacks"), ("POST", "/cancel"), ("POST", "/rerun"), ("DELETE", "")):
        assert service.call(method, f"{path}{part}", "ada").status_code == 403, part
    assert service.status(release, "running")


def test_cancelled_job_keeps_its_log(service: Service) -> None:
    release = service.created()
    service.cluster.logs[f"{release}-x2x9p"] = ["so far\n"]
    service.cluster.pod(release, "Running")
    service.status(release, "running")
    assert service.post(f"/v1/jobs/{release}/cancel").status_code == 202
    service.status(release, "deleted")
    service.cluster.objects.pop(("Pod", f"{release}-x2x9p"), None)
    assert service.get(f"/v1/jobs/{release}/logs").text == "so far\n"


def test_logs_of_deleted_pods_are_shown_with_logs_of_existing_pods(service: Service) -> None:
    release, pod = ended(service, ["failed\n"], exit_code=1)
    item = service.cluster.objects.pop(("Pod", pod))
    other = f"{release}-a1b2c"
    service.cluster.logs[other] = ["alive\n"]
    service.cluster.put({**item, "metadata": {**item["metadata"], "name": other, "uid": "other"}})
    answer = service.get(f"/v1/jobs/{release}/logs")
    assert answer.text == f"{other}: alive\n{pod}: failed\n"
    follow = service.get(f"/v1/jobs/{release}/logs?follow=true")
    assert sorted(follow.text.splitlines()) == [f"{other}: alive", f"{pod}: failed"]
    timed = service.get(f"/v1/jobs/{release}/logs?timestamps=true").text.splitlines()
    assert timed == [f"{other}: 2026-11-22T10:00:00.500000Z alive", f"{pod}: 2026-11-22T10:00:00.500000Z failed"]


def test_follow_includes_pods_that_start_later(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("packager.service.use.logs._POLL_SECONDS", 0.01)
    release = service.created()
    first, second = f"{release}-x2x9p", f"{release}-a1b2c"
    service.cluster.logs[first] = ["one\n", "two\n"]
    service.cluster.pod(release, "Running")
    service.status(release, "running")
    item = service.cluster.objects["Pod", first]
    answers: list[str] = []
    followed: list[str] = []
    log = service.cluster.log

    def asked(pod: str, namespace: str, options: LogOptions) -> Any:
        followed.extend([pod] if options.is_following else [])
        return log(pod, namespace, options)

    monkeypatch.setattr(service.cluster, "log", asked)
    path = f"/v1/jobs/{release}/logs?follow=true&tail=1"
    reader = threading.Thread(target=lambda: answers.append(service.get(path).text))
    reader.start()
    service.until(lambda: followed, "the log to be followed")
    service.cluster.put({**item, "status": {"phase": "Failed"}})  # and the Job tries again
    labelled = {**item["metadata"], "name": second, "uid": "second"}
    service.cluster.put({**item, "metadata": labelled})
    service.until(lambda: len(service.get(f"/v1/jobs/{release}").json()["pods"]) == 2, "both pods")
    service.cluster.logs[second] = ["again\n", "done\n"]  # its container has started
    service.cluster.put({**item, "metadata": labelled, "status": {"phase": "Succeeded"}})
    service.cluster.end(release, "Complete")
    reader.join(60)
    assert answers == [f"two\n{second}: again\n{second}: done\n"]


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("previous=true", 409, "no such log of {pod} was kept: the containers are none"),
        ("pod=other", 404, "pod 'other' not found: the pods are {pod}"),
        (
            "since=soon",
            400,
            (
                "since: expected a duration such as 90s, 1h30m or 7d, or a time such as 2026-11-22T10:00:00Z, "
                "found 'soon'"
            ),
        ),
    ],
)
def test_archived_log_refuses_missing_parts_and_invalid_queries(
    query: str, status: int, detail: str, service: Service
) -> None:
    release, pod = ended(service, ["1\n"])
    del service.cluster.objects["Pod", pod]
    answer: Any = service.get(f"/v1/jobs/{release}/logs?{query}")
    assert (answer.status_code, answer.json()["detail"]) == (status, detail.format(pod=pod))


def test_log_before_a_container_restart_can_be_read(service: Service) -> None:
    release = service.post("/v1/jobs", FILLED).json()["release"]
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    service.cluster.pod(release, "Running")
    pod = f"{release}-x2x9p"
    service.cluster.logs |= {pod: ["second\n"], f"{pod}/previous": ["first\n"]}
    assert service.get(f"/v1/jobs/{release}/logs?previous=true").text == "first\n"
    assert service.get(f"/v1/jobs/{release}/logs?since=2026-11-22T09:00:00Z").text == "second\n"
