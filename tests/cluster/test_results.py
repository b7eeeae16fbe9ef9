"""Tests of the storage that results are on, and of their extraction from a tar stream of a pod."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ClusterError
from packager.cluster.output import output_of
from packager.cluster.receive import receive

if TYPE_CHECKING:
    from pathlib import Path

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


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    stream.seek(0)
    return stream


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mtime = kind, link, 1_000_000_000
    return info


def test_receive_replaces_files_of_the_same_name_and_keeps_others(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "mine").write_text("kept")
    receive(packed((member("a"), b"new")), tmp_path)
    assert sorted((path.name, path.read_text()) for path in tmp_path.iterdir()) == [("a", "new"), ("mine", "kept")]
