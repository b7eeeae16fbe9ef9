"""Tests of the use case `packager.cluster.history`."""

from pathlib import Path

from packager.cluster.deploy import apply, prepare
from packager.cluster.history import history
from packager.cluster.target import Target
from tests.life import JOB, Life


def test_history_returns_deployments_as_value(target: Target, life: Life, tmp_path: Path) -> None:
    nothing = history(target.kubectl, target.package.source, records=[tmp_path])
    assert nothing.as_json() == {
        "package": "hello-mpi",
        "digest": target.package.digest,
        "deployments": [],
        "unseen": {},
        "records": [],
        "error": None,
    }
    apply(prepare(target))
    life.end()
    past = history(target.kubectl, target.package.source, records=[tmp_path])
    [deployment] = past.as_json()["deployments"]
    assert deployment == {
        "package": "hello-mpi",
        "namespace": "team",
        "workload": f"mpijob/{JOB}",
        "digest": target.package.digest,
        "version": None,
        "deployedBy": "ann@desk",
        "created": past.deployments[0].created.isoformat(),
        "ended": "succeeded",
    }
