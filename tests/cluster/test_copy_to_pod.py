"""Tests of pushes with real shells: the files that appear on the storage, and those that never do."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from packager.base.errors import ClusterError, UsageError
from packager.cluster.copy_to_pod import commit, compare_for_push, local_folder, send
from packager.cluster.file_lists import PARTS
from packager.cluster.shell import BrokenOffError
from tests.local_pod import LocalPod, local_pod, write

LARGE = os.urandom((4 << 20) + 12345)
FILES = {"large": LARGE, "deep/er/a.txt": b"a\n", "same as a": b"a\n", "zü \\n": b"z", "empty": b""}


@pytest.fixture
def pod() -> Iterator[LocalPod]:
    with local_pod() as pod:
        yield pod


def pushed(pod: LocalPod, folder: Path, *, force: bool = False) -> int:
    """Push a folder, and return the number of bytes that were sent, now or by an earlier push."""
    sizes: list[int] = []
    pending = compare_for_push(pod.remote, local_folder(folder), force=force)
    send(pod.remote, pending, sizes.append)
    commit(pod.remote, pending, force=force)
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


def test_push_sends_only_missing_files_after_broken_connection(pod: LocalPod, tmp_path: Path) -> None:
    files = {f"{number}": os.urandom(90_000) for number in range(30)}
    here = write(tmp_path / "here", files)
    pending = compare_for_push(pod.remote, local_folder(here), force=False)
    pod.cut("-", "in 2000000")
    with pytest.raises(BrokenOffError, match="connection reset by peer"):
        send(pod.remote, pending)
    assert all(path.startswith(f"data/{PARTS}/") for path in pod.files())
    arrived = sum(len(content) == 90_000 for content in pod.files().values())
    assert arrived > 15
    sizes: list[int] = []
    send(pod.remote, pending, sizes.append)
    assert sizes[0] == arrived * 90_000
    commit(pod.remote, pending, force=False)
    assert pod.files() == below_data(files)
    assert not (pod.claim / "data" / PARTS).exists()


def test_push_does_not_commit_a_file_that_was_damaged_in_transit(pod: LocalPod, tmp_path: Path) -> None:
    here = write(tmp_path / "here", {"a": b"aaaa"})
    pending = compare_for_push(pod.remote, local_folder(here), force=False)
    pod.put({f"{PARTS}/{next(iter(pending.parts))}": b"bbbb"})
    (pod.claim / "data" / PARTS / next(iter(pending.parts))).chmod(0o666)
    with pytest.raises(ClusterError, match=r"^a did not arrive as it was when the push began$"):
        send(pod.remote, pending)
    assert pod.files() == {}
    assert pushed(pod, here) == 4


def test_push_keeps_a_file_that_appears_during_the_transfer(pod: LocalPod, tmp_path: Path) -> None:
    here = write(tmp_path / "here", {"a": b"aaaa", "b": b"b"})
    pending = compare_for_push(pod.remote, local_folder(here), force=False)
    send(pod.remote, pending)
    pod.put({"a": b"other"})
    with pytest.raises(ClusterError, match=r"^a has appeared in .* during the push, and was not replaced$"):
        commit(pod.remote, pending, force=False)
    assert (pod.claim / "data/a").read_bytes() == b"other"


def test_push_refuses_links_pipes_and_odd_names_in_one_error(tmp_path: Path) -> None:
    here = write(tmp_path / "here", {"a": b"", "new\nline": b""})
    (here / "link").symlink_to("/etc/passwd")
    os.mkfifo(here / "pipe")
    with pytest.raises(UsageError) as refused:
        local_folder(here)
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
