"""Tests of pushes with real shells: the files that appear on the storage, and those that never do."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ClusterError, UsageError
from packager.cluster import upload
from packager.cluster.shell import BrokenOffError
from packager.cluster.storedfiles import PARTS
from tests.local_pod import LocalPod, local_pod, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGE = os.urandom(upload.LARGE + 12345)
FILES = {"large": LARGE, "deep/er/a.txt": b"a\n", "same as a": b"a\n", "zü \\n": b"z", "empty": b""}


@pytest.fixture
def pod() -> Iterator[LocalPod]:
    with local_pod() as pod:
        yield pod


def pushed(pod: LocalPod, folder: Path, *, force: bool = False) -> int:
    """Push a folder, and return the number of bytes that were sent, now or by an earlier push."""
    sizes: list[int] = []
    pending = upload.compare(pod.shell(), pod.place, upload.local_folder(folder), force=force)
    upload.send(pod.shell(), pod.place, pending, sizes.append)
    upload.verify(pod.shell(), pod.place, pending)
    upload.commit(pod.shell(), pod.place, pending, force=force)
    return sum(sizes)


def below_data(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"data/{path}": content for path, content in files.items()}


def test_push_keeps_folders_and_modes(pod: LocalPod, tmp_path: Path) -> None:
    write(tmp_path / "here", FILES)
    (tmp_path / "here/nothing").mkdir()
    (tmp_path / "here/large").chmod(0o700)
    (tmp_path / "here/empty").chmod(0o755)
    assert pushed(pod, tmp_path / "here") == sum(map(len, FILES.values()))
    assert pod.files() == below_data(FILES)
    assert (pod.claim / "data/nothing").is_dir()
    assert {path: (pod.claim / "data" / path).stat().st_mode & 0o777 for path in FILES} == {
        "large": 0o755,
        "deep/er/a.txt": 0o644,
        "same as a": 0o644,
        "zü \\n": 0o644,
        "empty": 0o755,
    }


def test_push_skips_unchanged_files_and_replaces_changed_ones_only_with_force(pod: LocalPod, tmp_path: Path) -> None:
    here = write(tmp_path / "here", FILES)
    pod.put({**FILES, "deep/er/a.txt": b"b\n", "mine": b"m"})
    with pytest.raises(ClusterError) as refused:
        pushed(pod, here)
    assert str(refused.value) == f"1 file in {pod.data} would be replaced; nothing was pushed"
    assert refused.value.hint == "--force replaces them"
    assert [str(problem) for problem in refused.value.problems] == [
        f"{pod.data}/deep/er/a.txt: it exists with another content"
    ]
    assert pushed(pod, here, force=True) == 2
    assert pod.files() == below_data({**FILES, "mine": b"m"})


@pytest.mark.parametrize(
    "files", [{"large": LARGE}, {f"{number}": os.urandom(90_000) for number in range(30)}], ids=["one", "many"]
)
def test_push_continues_after_a_broken_connection_and_leaves_no_partial_file(
    pod: LocalPod, tmp_path: Path, files: dict[str, bytes]
) -> None:
    here = write(tmp_path / "here", files)
    pending = upload.compare(pod.shell(), pod.place, upload.local_folder(here), force=False)
    pod.cut("-", "in 2000000")
    with pytest.raises(BrokenOffError, match="connection reset by peer"):
        upload.send(pod.shell(), pod.place, pending, lambda _size: None)
    parts = {path: content for path, content in pod.files().items() if path.startswith(f"data/{PARTS}/")}
    assert parts == pod.files()
    arrived = sum(map(len, parts.values()))
    assert 1_000_000 < arrived <= 2_000_000
    before = upload.send(pod.shell(), pod.place, pending, lambda _size: None)
    assert arrived - 90_000 < before <= arrived
    upload.verify(pod.shell(), pod.place, pending)
    upload.commit(pod.shell(), pod.place, pending, force=False)
    assert pod.files() == below_data(files)
    assert not (pod.claim / "data" / PARTS).exists()


def test_push_does_not_commit_a_file_that_was_damaged_in_transit(pod: LocalPod, tmp_path: Path) -> None:
    here = write(tmp_path / "here", {"a": b"aaaa"})
    pending = upload.compare(pod.shell(), pod.place, upload.local_folder(here), force=False)
    upload.send(pod.shell(), pod.place, pending, lambda _size: None)
    (part,) = (pod.claim / "data" / PARTS).iterdir()
    part.write_bytes(b"bbbb")
    with pytest.raises(ClusterError, match=r"^a did not arrive as it was when the push began$"):
        upload.verify(pod.shell(), pod.place, pending)
    assert pod.files() == {}
    assert pushed(pod, here) == 4


def test_push_keeps_a_file_that_appears_during_the_transfer(pod: LocalPod, tmp_path: Path) -> None:
    here = write(tmp_path / "here", {"a": b"aaaa", "b": b"b"})
    pending = upload.compare(pod.shell(), pod.place, upload.local_folder(here), force=False)
    upload.send(pod.shell(), pod.place, pending, lambda _size: None)
    pod.put({"a": b"other"})
    with pytest.raises(ClusterError, match=r"^a has appeared in .* during the push, and was not replaced$"):
        upload.commit(pod.shell(), pod.place, pending, force=False)
    assert (pod.claim / "data/a").read_bytes() == b"other"


def test_push_refuses_links_pipes_and_odd_names_in_one_error(tmp_path: Path) -> None:
    here = write(tmp_path / "here", {"a": b"", "new\nline": b""})
    (here / "link").symlink_to("/etc/passwd")
    os.mkfifo(here / "pipe")
    with pytest.raises(UsageError) as refused:
        upload.local_folder(here)
    assert str(refused.value) == f"{here} cannot be pushed; nothing was sent"
    assert [problem.message for problem in refused.value.problems] == [
        "it is a link, which is not pushed",
        "'new\\nline': the name contains control characters",
        "it is neither a file nor a folder, which is not pushed",
    ]


def test_push_does_not_follow_links_on_the_storage(pod: LocalPod, tmp_path: Path) -> None:
    elsewhere = write(pod.home / "elsewhere", {})
    here = write(tmp_path / "here", {"sub/a": b"a", "b": b"b", "c/d": b"d"})
    pod.put({"c": b"a file"})
    (pod.claim / "data/sub").symlink_to(elsewhere)
    (pod.claim / "data/b").symlink_to("/etc/passwd")
    with pytest.raises(ClusterError) as refused:
        pushed(pod, here, force=True)
    assert [str(problem) for problem in refused.value.problems] == [
        f"{pod.data}/b: it exists and is a link",
        f"{pod.data}/c/d: c is a file",
        f"{pod.data}/sub/a: sub is a link",
    ]
    assert list(elsewhere.iterdir()) == []


def test_push_refuses_a_folder_behind_a_link_out_of_the_claim(pod: LocalPod, tmp_path: Path) -> None:
    write(pod.home / "elsewhere", {})
    (pod.claim / "data").symlink_to(pod.home / "elsewhere")
    with pytest.raises(ClusterError) as refused:
        pushed(pod, write(tmp_path / "here", {"a": b"a"}))
    assert str(refused.value) == f"{pod.data} is behind a link that leads out of the claim c"


@pytest.mark.parametrize("tools", ["coreutils", pytest.param("busybox", marks=pytest.mark.thorough)])
def test_push_reports_full_storage_without_waiting_for_kubectl(pod: LocalPod, tmp_path: Path, tools: str) -> None:
    """The script ends and stops reading, so kubectl may wait forever to pass on the rest."""
    if tools == "busybox":
        pod.use_busybox()
    local = upload.local_folder(write(tmp_path / "here", {"large": LARGE}))
    pending = upload.compare(pod.shell(), pod.place, local, force=False)
    write(pod.claim, {f"data/{PARTS}/x": b""})
    (pod.claim / "data" / PARTS / pending.parts[0].name).symlink_to("/dev/full")
    pod.cut("-", "stuck 2000000")
    begin = time.monotonic()
    with pytest.raises(ClusterError, match=r"^the claim c is full: .*No space left on device") as full:
        upload.send(pod.shell(), pod.place, pending, lambda _size: None)
    assert full.value.hint == "what has arrived is kept: free some space and push again"
    assert time.monotonic() - begin < 15
