"""Tests of the use case `packager.cluster.delete`."""

from packager.cluster.delete import delete, prepare
from packager.cluster.target import Target
from tests.life import JOB, Life

MPIJOB = f"mpijob/{JOB}"


def test_delete_returns_deleted_objects_as_value(target: Target, life: Life) -> None:
    life.deploy()
    prepared = prepare(target)
    assert (prepared.remark, prepared.kept) == (None, ())
    assert life.objects != []
    deleted = delete(prepared, timeout=60)
    assert deleted.as_json() == {
        "workload": MPIJOB,
        "objects": [MPIJOB, *(f"configmap/hello-mpi-{name}-multi-node" for name in ("env", "runtime", "scripts"))],
        "kept": [],
        "others": [],
        "gone": True,
        "missing": [],
    }
    assert life.objects == []
