"""Tests of the storage that results are on, and of the use case that copies them."""

from pathlib import Path
from typing import Any

import pytest

from packager.base.errors import ClusterError
from packager.cluster.results import ResultsCopy, output_of
from packager.cluster.target import Target
from tests.life import JOB, Life
from tests.local_pod import write

ENV = {"kind": "ConfigMap", "metadata": {"name": "env"}, "data": {"OUTPUT_DIR": "ROOT/model/output"}}


def spec(*mounts: tuple[str, str], **volumes: dict[str, Any]) -> dict[str, Any]:
    mounted = [{"name": name, "mountPath": path} for name, path in mounts]
    listed = [{"name": name, **volume} for name, volume in volumes.items()]
    return {"containers": [{"name": "main", "image": "a:1", "volumeMounts": mounted}], "volumes": listed}


def test_output_is_on_the_volume_with_the_closest_mount() -> None:
    pod = spec(
        ("work", "ROOT"),
        ("output", "ROOT/model/output"),
        work={"persistentVolumeClaim": {"claimName": "w"}},
        output={"emptyDir": {}},
    )
    output = output_of(pod, [ENV])
    assert (output.path, output.storage, output.outlives_pods) == ("/ROOT/model/output", "emptyDir", False)


def test_output_on_a_claim_outlives_the_pods() -> None:
    output = output_of(spec(("w", "/ROOT/model"), w={"persistentVolumeClaim": {"claimName": "disk"}}), [ENV])
    assert (output.storage, output.outlives_pods) == ("the claim disk", True)


def test_output_without_a_volume_is_on_the_file_system_of_the_container() -> None:
    output = output_of(spec(), [ENV])
    assert (output.storage, output.outlives_pods) == ("the container's own file system", False)


def test_output_of_refuses_pods_without_output_dir() -> None:
    with pytest.raises(ClusterError, match="OUTPUT_DIR"):
        output_of(spec(), [])


def test_copied_returns_result_as_value(target: Target, life: Life, tmp_path: Path) -> None:
    life.deploy()
    life.start()
    life.output = write(tmp_path / "pod", {"a.txt": b"hello"})
    (results,) = ResultsCopy(target, tmp_path / "here", 60, pytest.fail).copies()
    assert results.as_json() == {
        "pod": f"{JOB}-worker-0",
        "path": "/ROOT/hello-mpi/output",
        "folder": str(tmp_path / "here"),
        "files": 1,
        "bytes": 5,
        "unchanged": 0,
        "complete": True,
        "skipped": (),
        "skippedUnnamed": 0,
        "unread": (),
        "changed": (),
        "gone": (),
    }
    assert (tmp_path / "here/a.txt").read_bytes() == b"hello"
