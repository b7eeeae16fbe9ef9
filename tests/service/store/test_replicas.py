from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from packager.service.store.replicas import lead
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.fake import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.service.postgres import Postgres

pytestmark = pytest.mark.thorough

Replicas = tuple[Service, Service, "subprocess.Popen[str]"]

# Holds the leader's lock, as a replica does, until it is killed.
LEADER = """
import asyncio, sys
from packager.service.store import replicas
async def work():
    print("leads", flush=True)
    await asyncio.Event().wait()
asyncio.run(replicas.lead(sys.argv[1], work))
"""


@pytest.fixture
def replicas(postgres: Postgres) -> Iterator[Replicas]:
    """Two replicas on one database and one cluster, while another process is the leader."""
    address, cluster = postgres.create(), FakeCluster()
    first = Service(address, cluster=cluster)
    second = Service(address, cluster=cluster, roles=first.tokens)
    leader = subprocess.Popen([sys.executable, "-c", LEADER, address], stdout=subprocess.PIPE, text=True)
    assert leader.stdout
    assert leader.stdout.readline() == "leads\n"
    with first.client, second.client:
        assert first.post("/v1/definitions", COUNTDOWN).status_code == 201
        yield first, second, leader
    leader.kill()
    leader.communicate()


def test_replica_takes_over_from_a_killed_leader_and_repeats_nothing(replicas: Replicas) -> None:
    first, second, leader = replicas
    releases = [service.post("/v1/jobs", FILLED).json()["release"] for service in (first, second, first)]
    headers = {"Idempotency-Key": "k"}
    answers = [service.post("/v1/jobs", FILLED, headers=headers) for service in (first, second)]
    assert answers[0].json() == answers[1].json()
    releases.append(answers[0].json()["release"])
    assert first.cluster.applied == []  # only the leader creates objects, and this one creates none
    assert [job["release"] for job in second.get("/v1/jobs").json()["items"]] == releases[::-1]
    leader.send_signal(signal.SIGKILL)
    for release in releases:
        first.until(partial(first.cluster.objects.get, ("Job", release)), "the Job")
    first.cluster.pod(releases[0], "Running")
    for service in (first, second):
        service.status(releases[0], "running")
    late = second.post("/v1/jobs", FILLED).json()["release"]
    first.until(lambda: ("Job", late) in first.cluster.objects, "the Job that was created while a replica led")
    assert sorted(first.cluster.applied) == sorted(f"Job/{release}" for release in (*releases, late))
    first.cluster.pod(releases[0], "Succeeded", exit_code=0)
    first.cluster.end(releases[0], "Complete")
    for service in (first, second):  # one of the replicas has got the events from the other
        stream = service.get(f"/v1/jobs/{releases[0]}/events", headers={"Accept": "text/event-stream"}).text
        assert [line for line in stream.splitlines() if line.startswith("event:")] == ["event: status"] * 3
        assert '"status":"succeeded"' in stream
    told = [service.get("/metrics").text for service in (first, second)]
    assert sorted("mlpack_leader 1.0\n" in text for text in told) == [False, True]
    jobs = 'mlpack_jobs{project="default",status="pending"} 4.0\n'  # so that the sum over both replicas is right
    assert [jobs in text for text in told] == ["mlpack_leader 1.0\n" in text for text in told]
    assert all("mlpack_database_up 1.0\n" in text for text in told)


def _answers(service: Service, release: str) -> bool:
    return bool(service.get(f"/v1/jobs/{release}").status_code == 200)


def test_unreachable_database_returns_503_until_it_answers_again(replicas: Replicas, postgres: Postgres) -> None:
    first, second, _ = replicas
    release = first.post("/v1/jobs", FILLED).json()["release"]
    name = first.server.store.shown.partition("@/")[2].partition("?")[0]
    postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    answer = first.get(f"/v1/jobs/{release}")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["type"] == "urn:mlpack:problem:database-unreachable"
    assert first.get("/readyz", None).status_code == 503
    assert first.get("/healthz", None).status_code == 200
    postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    for service in (first, second):
        service.until(partial(_answers, service, release), "the job")
    first.until(lambda: ("Job", release) in first.cluster.objects, "the Job, by one of the replicas")
    assert first.cluster.applied == [f"Job/{release}"]


def test_replica_takes_over_from_a_frozen_leader(postgres: Postgres) -> None:
    address = postgres.create()
    program = LEADER.replace("async def", "replicas.FROZEN = '3s'\nasync def", 1)
    with subprocess.Popen([sys.executable, "-c", program, address], stdout=subprocess.PIPE, text=True) as leader:
        assert leader.stdout
        assert leader.stdout.readline() == "leads\n"
        leader.send_signal(signal.SIGSTOP)  # the system of the leader still acknowledges packets

        async def take_over() -> None:
            led = asyncio.Event()

            async def work() -> None:
                led.set()

            async with asyncio.timeout(20):
                await lead(address, work, pause=0.1)
            assert led.is_set()

        try:
            asyncio.run(take_over())
        finally:
            leader.kill()
