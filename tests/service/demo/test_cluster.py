"""Test the simulated cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from packager.service.demo.cluster import SimulatedCluster

JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "digits", "labels": {"mlpack.dev/job": "digits"}},
    "spec": {
        "template": {
            "metadata": {"labels": {"mlpack.dev/job": "digits"}},
            "spec": {"containers": [{"name": "main", "image": "x", "env": [{"name": "STEPS", "value": "3"}]}]},
        }
    },
}


def with_rate(rate: str) -> dict[str, Any]:
    container = JOB["spec"]["template"]["spec"]["containers"][0]
    environment = [*container["env"], {"name": "LEARNING_RATE", "value": rate}]
    template = {**JOB["spec"]["template"], "spec": {"containers": [{**container, "env": environment}]}}
    return {**JOB, "spec": {"template": template}}


async def ended(job: dict[str, Any]) -> tuple[list[str], list[str], str]:
    """Run a Job; return the phases of its pod, the lines of its log, and its condition."""
    cluster = SimulatedCluster(tick=0.001)
    await cluster.apply(job, "demo")
    phases, lines, condition = [], [], ""
    async with asyncio.timeout(20):
        async for _, pod in cluster.watch("Pod", "demo", "0", {"mlpack.dev/job": "digits"}):
            phases.append(pod["status"]["phase"])
            if phases[-1] in ("Succeeded", "Failed"):
                text = b"".join([chunk async for chunk in cluster.log(pod["metadata"]["name"], "demo")])
                lines = text.decode().splitlines(keepends=True)
                break
        async for _, item in cluster.watch("Job", "demo", "0"):
            if "status" in item:
                condition = item["status"]["conditions"][0]["type"]
                break
    await cluster.close()
    return phases, lines, condition


def test_job_prints_a_curve_and_succeeds() -> None:
    phases, lines, condition = asyncio.run(ended(JOB))
    assert (phases, condition) == (["Pending", "Running", "Succeeded"], "Complete")
    assert len(lines) == 3
    assert '"loss":' in lines[0]


def test_job_with_high_learning_rate_fails_with_a_message() -> None:
    phases, lines, condition = asyncio.run(ended(with_rate("3")))
    assert (phases[-1], condition) == ("Failed", "Failed")
    assert lines[-1] == "ValueError: the loss is not a number: the learning rate is too high\n"
