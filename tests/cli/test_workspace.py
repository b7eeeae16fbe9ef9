"""Tests of `mlpack workspace`: its text, names and JSON."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from packager.cluster import workspace
from tests.local_pod import LocalPod, local_pod, read, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.cluster.target import Target
    from tests.conftest import Mlpack
    from tests.life import Life


@pytest.fixture
def pod(life: Life, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalPod]:
    """A local folder that stands for the claim to which hello-mpi writes; sessions with its pod use the folder."""
    assert life.objects == []
    session = workspace.session
    with local_pod() as pod:

        def local(target: Target, *arguments: object, **options: object) -> object:
            return session(pod.of(target), *arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(workspace, "session", local)
        yield pod


def test_workspace_push_pull_and_ls_print_text_names_and_json(mlpack: Mlpack, pod: LocalPod, tmp_path: Path) -> None:
    write(tmp_path / "here", {"a": b"aa", "deep/b": b"b" * 1500})
    done = mlpack("workspace", "push", "hello-mpi", "here", "--dry-run", "-o", "name")
    assert (done.code, done.stdout) == (0, "a\ndeep/b\n")
    assert done.stderr == f"would push 2 files, 1,502 bytes, from here to {pod.claim}\n"
    done = mlpack("workspace", "push", "hello-mpi", "here")
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr == f"pushed 2 files, 1,502 bytes, from here to {pod.claim}\n"
    done = mlpack("workspace", "push", "hello-mpi", "here", "--quiet", "-o", "json")
    assert (done.code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["unchanged"] == ["a", "deep/b"]
    for path in pod.claim.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    done = mlpack("workspace", "ls", "hello-mpi")
    assert (done.code, done.stdout) == (
        0,
        "    2   2001-09-09 01:46   a\n    -   2001-09-09 01:46   deep/\n1,500   2001-09-09 01:46   deep/b\n",
    )
    assert done.stderr == f"2 files, 1,502 bytes, in {pod.claim} on the claim disk\n"
    assert mlpack("workspace", "ls", "hello-mpi", "-o", "name").stdout == "a\ndeep\ndeep/b\n"
    done = mlpack("workspace", "pull", "hello-mpi", "back")
    assert (done.code, done.stderr) == (0, f"pulled 2 files, 1,502 bytes, from {pod.claim} to back\n")
    assert read(tmp_path / "back") == {"a": b"aa", "deep/b": b"b" * 1500}
    (tmp_path / "back/a").write_text("mine")
    done = mlpack("workspace", "pull", "hello-mpi", "back", "-o", "json")
    assert done.code == 7
    assert json.loads(done.stdout)["error"]["problems"][0]["message"] == "it exists with another content"


CUBE = """\
name: hello
docker: {image: "mlcommons/hello:1"}
k8s: {pvc: disk, namespace: cubes}
tasks:
  multi_node: {parameters: {inputs: {name: names/}, outputs: {chat: chats/}}}
  single_node: {parameters: {inputs: {name: names/}, outputs: {chat: chats/}}}
"""


@pytest.mark.thorough
def test_workspace_of_cube_rebuilds_package_only_after_change(
    mlpack: Mlpack, pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    write(tmp_path / "cube", {"mlcube.yaml": CUBE.encode(), "workspace/names/alice.txt": b"Alice\n"})
    done = mlpack("workspace", "push", "cube", "--overlay", "multi_node")
    assert (done.code, done.stderr) == (0, f"pushed 1 file, 6 bytes, from cube/workspace to {pod.claim}\n")
    write(pod.claim, {"chats/a.txt": b"Hello\n"})
    (package,) = (cache / "mlpack/runs").glob("*/hello-task.tar.gz")
    built = package.stat().st_mtime_ns
    assert mlpack("workspace", "pull", "cube", "back").code == 0
    assert package.stat().st_mtime_ns == built
    assert mlpack("workspace", "ls", "cube/mlcube.yaml").code == 0
    (tmp_path / "cube/mlcube.yaml").touch()
    assert mlpack("workspace", "ls", "cube").code == 0
    assert package.stat().st_mtime_ns > built
    assert read(tmp_path / "back") == {"names/alice.txt": b"Alice\n", "chats/a.txt": b"Hello\n"}


@pytest.mark.thorough
def test_workspace_refuses_cube_arguments_for_package(mlpack: Mlpack, pod: LocalPod) -> None:
    assert pod.claim.is_dir()
    done = mlpack("workspace", "push", "hello-mpi")
    assert (done.code, done.stderr) == (2, "error: hello-mpi is not an MLCube: name the local folder\n")


@pytest.mark.thorough
def test_workspace_pull_names_skipped_and_unread_files(mlpack: Mlpack, pod: LocalPod, tmp_path: Path) -> None:
    write(pod.claim, {"a": b"a", "esc\x1b[2J": b"", "new\nline": b"", "secret/x": b""})
    (pod.claim / "link").symlink_to("/etc/passwd")
    (pod.claim / "secret").chmod(0)
    done = mlpack("workspace", "pull", "hello-mpi", "back")
    listed = mlpack("workspace", "ls", "hello-mpi")
    (pod.claim / "secret").chmod(0o755)
    assert done.code == listed.code == 7
    lines = done.stderr.splitlines()
    skipped = "skipped: not a plain file, or a name that is not allowed here: "
    assert lines[:3] == [f"{skipped}link", f"{skipped}'esc\\x1b[2J'", f"{skipped}1 more"]
    assert lines[3].startswith("not read: ")
    assert lines[4] == f"pulled 1 file, 1 bytes, from {pod.claim} to back"
    assert lines[5:] == [
        "error: 1 of the files and folders could not be read",
        "hint: the user in the patch must be able to read them",
    ]
    assert read(tmp_path / "back") == {"a": b"a"}
    assert "link (a link)\n" in listed.stdout


def test_workspace_refuses_package_without_persistent_storage(mlpack: Mlpack, life: Life) -> None:
    assert life.objects == []
    done = mlpack("workspace", "ls", "hello-mpi")
    assert done.code == 2
    assert done.stderr == (
        "error: the package uses no storage that outlives its pods\n"
        "hint: switch a storage option on: mlpack configure PACKAGE --storage pvc\n"
    )


def test_workspace_push_refuses_path_that_is_not_a_folder(mlpack: Mlpack, pod: LocalPod) -> None:
    assert pod.files() == {}
    done = mlpack("workspace", "push", "hello-mpi", "nowhere")
    assert (done.code, done.stderr) == (2, "error: nowhere is not a folder\n")
