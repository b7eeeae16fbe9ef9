from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from packager.app import workspace
from packager.base.errors import ClusterError
from packager.cluster import download, upload
from tests.local_pod import RESET, LocalPod, local_pod, read, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.app.target import Target
    from packager.app.workspace import Session

LARGE = os.urandom(upload.LARGE + 5)
FILES = {"large": LARGE, "deep/a.txt": b"a\n"}
BROKEN = f"the connection broke off: {RESET.removeprefix('error: ')}"


def progress(label: str, total: int, *, unit: str) -> AbstractContextManager[Callable[[int], None]]:
    assert (label in ("pushing", "pulling"), total >= 0, unit) == (True, True, "bytes")
    return nullcontext(lambda _size: None)


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalPod]:
    monkeypatch.setattr(workspace, "_PAUSE", 0.0)
    with local_pod() as pod:
        yield pod


def session(pod: LocalPod, target: Target, lines: list[str] | None = None, folder: str | None = None) -> Session:
    tell = pytest.fail if lines is None else lines.append
    return workspace.session(pod.of(target), folder, patience=30, image=None, tell=tell)


def push(given: Session, folder: Path, *, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
    return workspace.push(given, folder, force=force, dry_run=dry_run, progress=progress).as_json()


@pytest.mark.parametrize("tools", ["GNU", "busybox"])
def test_files_go_there_and_come_back(pod: LocalPod, target: Target, tmp_path: Path, tools: str) -> None:
    if tools == "busybox":
        pod.use_busybox()
    here = write(tmp_path / "here", FILES)
    result = {
        "storage": "the claim disk",
        "path": f"{pod.claim}/sub",
        "folder": str(here),
        "files": ["deep/a.txt", "large"],
        "bytes": len(LARGE) + 2,
        "unchanged": [],
        "dryRun": False,
    }
    given = session(pod, target, folder="sub")
    assert push(given, here, dry_run=True) == {**result, "dryRun": True}
    assert pod.files() == {}
    assert push(given, here) == result
    assert pod.files() == {f"sub/{path}": content for path, content in FILES.items()}
    assert push(given, here) == {**result, "files": [], "bytes": 0, "unchanged": ["deep/a.txt", "large"]}
    there = tmp_path / "there"
    rest: dict[str, Any] = {"skipped": [], "skippedUnnamed": 0, "unread": []}
    for dry_run, files in ((True, {}), (False, FILES)):
        pulled = workspace.pull(given, there, force=False, dry_run=dry_run, progress=progress)
        assert pulled.as_json() == {
            **result,
            **rest,
            "changed": [],
            "complete": True,
            "folder": str(there),
            "dryRun": dry_run,
        }
        assert (read(there) if there.exists() else {}) == files
    listed = workspace.ls(given).as_json()
    assert [(entry["path"], entry["type"], entry["bytes"]) for entry in listed.pop("entries")] == [
        ("deep", "folder", 0),
        ("deep/a.txt", "file", 2),
        ("large", "file", len(LARGE)),
    ]
    assert listed == {"storage": "the claim disk", "path": f"{pod.claim}/sub", **rest}


def test_the_pod_is_the_packages_own_small_and_always_deleted(pod: LocalPod, target: Target, tmp_path: Path) -> None:
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


def test_a_push_goes_on_after_broken_connections(pod: LocalPod, target: Target, tmp_path: Path) -> None:
    pod.cut("-", "-", "in 2000000", "-", "in 1000000", "-", "-", "-", "out 0")
    lines: list[str] = []
    push(session(pod, target, lines), write(tmp_path / "here", FILES))
    assert pod.files() == FILES
    assert [line.startswith(BROKEN) for line in lines] == [True] * 3
    assert [line.partition("; ")[2] for line in lines] == [
        f"continuing (attempt {number} of 5)" for number in (2, 3, 4)
    ]
    assert len(pod.created()) == len(pod.deleted()) == 4


def test_a_pull_goes_on_after_broken_connections(pod: LocalPod, target: Target, tmp_path: Path) -> None:
    write(pod.claim, FILES)
    pod.cut("out 5", "-", "-", "out 3000000", "out 500000")
    lines: list[str] = []
    workspace.pull(session(pod, target, lines), tmp_path / "here", force=False, dry_run=False, progress=progress)
    assert read(tmp_path / "here") == FILES
    assert [line.startswith(BROKEN) for line in lines] == [True] * 3
    assert [line.partition("; ")[2] for line in lines] == [
        f"continuing (attempt {number} of 5)" for number in (2, 3, 4)
    ]


def test_a_connection_that_breaks_off_again_and_again(pod: LocalPod, target: Target, tmp_path: Path) -> None:
    pod.cut(*["out 0"] * 5)
    with pytest.raises(ClusterError) as broken:
        push(session(pod, target, []), write(tmp_path / "here", FILES))
    assert str(broken.value).startswith(f"the connection broke off 5 times: {RESET.removeprefix('error: ')}")
    assert broken.value.hint == "run it again: what has arrived is kept"
    assert len(pod.deleted()) == 5


def test_a_local_folder_that_cannot_be_written(pod: LocalPod, target: Target, tmp_path: Path) -> None:
    write(pod.claim, FILES)
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match=r"file/here cannot be written: not a directory"):
        workspace.pull(session(pod, target), tmp_path / "file/here", force=False, dry_run=False, progress=progress)


def test_pods_that_a_crash_has_left_are_deleted_once_they_have_ended(pod: LocalPod, target: Target) -> None:
    ended = (("left", "Failed"), ("done", "Succeeded"), ("busy", "Running"))
    items = ", ".join(
        f'{{"metadata": {{"name": "{name}"}}, "status": {{"phase": "{phase}"}}}}' for name, phase in ended
    )
    (pod.home / "ended").write_text(f'{{"kind": "List", "items": [{items}]}}', encoding="utf-8")
    workspace.ls(session(pod, target))
    assert pod.deleted()[0] == "delete pod left done --ignore-not-found --wait=false"


def test_large_files_are_what_is_continued_in_the_middle() -> None:
    assert upload.LARGE == download.LARGE
