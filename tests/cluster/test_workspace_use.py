"""Tests of the use case `packager.cluster.workspace`."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from packager.base.errors import ClusterError
from packager.cluster import file_lists, workspace
from packager.cluster.target import Target
from packager.cluster.workspace import Session
from tests.local_pod import RESET, LocalPod, local_pod, read, write

LARGE = os.urandom((4 << 20) + 5)
FILES = {"large": LARGE, "deep/a.txt": b"a\n"}


BROKEN = RESET.removeprefix("error: ")


def progress(label: str, total: int, *, unit: str) -> AbstractContextManager[Callable[[int], None]]:
    assert (label in ("pushing", "pulling"), total >= 0, unit) == (True, True, "bytes")
    return nullcontext(lambda _size: None)


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalPod]:
    monkeypatch.setattr(file_lists, "PAUSE", 0.0)
    with local_pod() as pod:
        yield pod


def session(pod: LocalPod, target: Target, lines: list[str] | None = None, folder: str | None = None) -> Session:
    tell = pytest.fail if lines is None else lines.append
    return workspace.session(pod.of(target), folder, patience=30, image=None, tell=tell)


def push(session: Session, folder: Path, *, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
    return workspace.push(session, folder, force=force, dry_run=dry_run, progress=progress).as_json()


@pytest.mark.thorough
def test_push_and_pull_copy_files_completely_with_busybox(pod: LocalPod, target: Target, tmp_path: Path) -> None:
    pod.use_busybox()
    local_folder = write(tmp_path / "here", FILES)
    result = {
        "storage": "the claim disk",
        "path": f"{pod.claim}/sub",
        "folder": str(local_folder),
        "files": ["deep/a.txt", "large"],
        "bytes": len(LARGE) + 2,
        "unchanged": [],
        "dryRun": False,
    }
    opened = session(pod, target, folder="sub")
    assert push(opened, local_folder, dry_run=True) == {**result, "dryRun": True}
    assert pod.files() == {}
    assert push(opened, local_folder) == result
    assert pod.files() == {f"sub/{path}": content for path, content in FILES.items()}
    assert push(opened, local_folder) == {**result, "files": [], "bytes": 0, "unchanged": ["deep/a.txt", "large"]}
    destination = tmp_path / "there"
    rest: dict[str, Any] = {"skipped": [], "skippedUnnamed": 0, "unread": []}
    for dry_run, arrived in ((True, {}), (False, FILES)):
        pulled = workspace.pull(opened, destination, force=False, dry_run=dry_run, progress=progress)
        assert pulled.as_json() == {
            **result,
            **rest,
            "changed": [],
            "complete": True,
            "folder": str(destination),
            "dryRun": dry_run,
        }
        assert (read(destination) if destination.exists() else {}) == arrived
    listed = workspace.ls(opened).as_json()
    assert [(entry["path"], entry["type"], entry["bytes"]) for entry in listed.pop("entries")] == [
        ("deep", "folder", 0),
        ("deep/a.txt", "file", 2),
        ("large", "file", len(LARGE)),
    ]
    assert listed == {"storage": "the claim disk", "path": f"{pod.claim}/sub", **rest}


@pytest.mark.thorough
def test_workspace_pod_resembles_main_pod_and_is_deleted(pod: LocalPod, target: Target, tmp_path: Path) -> None:
    push(session(pod, target), write(tmp_path / "here", FILES))
    with pytest.raises(ClusterError, match="would be replaced"):
        push(session(pod, target), write(tmp_path / "here", {"deep/a.txt": b"b\n"}))
    workspace.ls(session(pod, target))
    created = pod.created()
    assert [manifest["spec"]["containers"][0]["volumeMounts"][0].get("readOnly", False) for manifest in created] == [
        False,
        False,
        True,
    ]
    assert [line.split()[1] for line in pod.deleted()] == [f"pods/{pod['metadata']['name']}" for pod in created]
    main = target.manifests.kind.pod_template(target.manifests.workload)
    spec = created[0]["spec"]
    assert spec["securityContext"] == main["securityContext"]
    assert spec["activeDeadlineSeconds"] == 3600
    (container,) = spec["containers"]
    assert container["image"] == main["containers"][0]["image"]
    assert container["securityContext"] == main["containers"][0]["securityContext"]
    assert container["resources"]["limits"]["memory"] == "64Mi"
    assert spec["volumes"] == [{"name": "output", "persistentVolumeClaim": {"claimName": "disk"}}]
    assert created[0]["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "mlpack",
        "app.kubernetes.io/component": "workspace",
    }


@pytest.mark.thorough
def test_push_continues_after_broken_connections(pod: LocalPod, target: Target, tmp_path: Path) -> None:
    pod.cut("-", "-", "in 2000000", "-", "-", "in 1000000", "-", "-", "-", "out 0")
    lines: list[str] = []
    push(session(pod, target, lines), write(tmp_path / "here", FILES))
    assert pod.files() == FILES
    assert [BROKEN in line for line in lines] == [True] * 3
    assert [line.rpartition("; ")[2] for line in lines] == [
        f"continuing (attempt {number} of 5)" for number in (2, 3, 4)
    ]
    assert len(pod.created()) == len(pod.deleted()) == 4


@pytest.mark.thorough
def test_push_fails_after_five_broken_connections(pod: LocalPod, target: Target, tmp_path: Path) -> None:
    pod.cut(*["out 0"] * 5)
    with pytest.raises(ClusterError) as broken:
        push(session(pod, target, []), write(tmp_path / "here", FILES))
    assert str(broken.value).startswith(f"the connection broke off 5 times: {RESET.removeprefix('error: ')}")
    assert broken.value.hint == "run it again: what has arrived is kept"
    assert len(pod.deleted()) == 5
