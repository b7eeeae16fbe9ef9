from __future__ import annotations

import asyncio

import pytest

from packager.base.errors import UnreachableError
from packager.service.jobs.absent import AbsentCluster


def test_absent_cluster_answers_each_request_with_its_reason() -> None:
    cluster = AbsentCluster("no cluster is configured")

    async def every() -> list[str]:
        messages = []
        requests = (
            cluster.apply({}, "default"),
            cluster.create({}, "default"),
            cluster.get("Pod", "x", "default"),
            cluster.delete("Pod", "x", "default"),
            cluster.list("Pod", "default"),
            anext(cluster.watch("Pod", "default", "0")),
            anext(cluster.log("x", "default")),
        )
        for request in requests:
            with pytest.raises(UnreachableError) as refused:
                await request
            messages.append(str(refused.value))
        await cluster.close()
        return messages

    assert asyncio.run(every()) == ["no cluster is configured"] * 7
