from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.service.jobs.follower import Follower
from tests.service import bodies
from tests.service.api.conftest import Service

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HOOK = {"endpoint": "https://hooks.example.com/cb", "type": "event", "headers": {"x-api-key": "123qweasd"}}


def filled(*hooks: dict[str, Any]) -> dict[str, Any]:
    return bodies.filled(endpoints=[{"endpoint": "s3://bucket/digits/", "type": "dataset"}, *hooks])


def created(service: Service, *hooks: dict[str, Any], role: str = "developer") -> str:
    values = {**filled(*(hooks or (HOOK,))), "creator": role}
    answer = service.post("/v1/jobs", values, role)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["release"])


def test_callbacks_are_sent_on_creation_and_success(digits: Service) -> None:
    release = created(digits)
    digits.until(lambda: ("Job", release) in digits.cluster.objects, "the Job")
    digits.cluster.pod(release, "Succeeded", exit_code=0)
    digits.cluster.end(release, "Complete")
    digits.until(lambda: len(digits.endpoints.got) == 2, "two callbacks")
    assert [(url, headers["x-api-key"]) for url, headers, _ in digits.endpoints.got] == [
        ("https://hooks.example.com/cb", "123qweasd")
    ] * 2
    told = [
        {key: body[key] for key in ("status", "task_id", "task_def", "creator")} for _, _, body in digits.endpoints.got
    ]
    assert told == [
        {"status": status, "task_id": release, "task_def": "digits", "creator": "developer"}
        for status in ("pending", "succeeded")
    ]
    path = f"/v1/jobs/{release}/callbacks"
    items = digits.until(
        lambda: (items := digits.get(path).json()["items"])[1]["state"] == "delivered" and items, "both delivered"
    )
    assert [(item["status"], item["attempts"], item["code"]) for item in items] == [
        ("pending", 1, 200),
        ("succeeded", 1, 200),
    ]
    assert "123qweasd" not in digits.get(path).text


def test_callbacks_are_sent_when_the_control_loop_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_self: Follower) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(Follower, "run", fail)
    service = Service(tmp_path / "server.db")
    with service.client:
        assert service.post("/v1/templates", {"name": "digits-task", "template": bodies.TEMPLATE}).status_code == 201
        assert service.post("/v1/definitions", bodies.definition()).status_code == 201
        created(service)
        service.until(lambda: service.endpoints.got, "the callback")
    assert any("KeyError: 'a bug'" in line for line in service.log)


def test_callback_reports_the_deletion_of_a_job(digits: Service) -> None:
    release = created(digits, {**HOOK, "events": ["deleted"]})
    assert digits.call("DELETE", f"/v1/jobs/{release}").status_code == 202
    digits.until(lambda: digits.endpoints.got, "the callback")
    assert digits.endpoints.got[0][2]["status"] == "deleted"
    assert digits.until(lambda: digits.get(f"/v1/jobs/{release}/callbacks").status_code == 404, "no record")
