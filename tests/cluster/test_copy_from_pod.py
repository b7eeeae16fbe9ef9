"""Tests of pulls with real shells: the files in the local folder, and attempts of a hostile pod."""

import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from packager.base.errors import ClusterError, VerificationError
from packager.cluster import copy_from_pod
from packager.cluster.copy_from_pod import Pull, compare_for_pull, unpack
from packager.cluster.file_lists import Listing, StoredEntry
from packager.cluster.shell import BrokenOffError
from tests import tools
from tests.fuzz.tars import GNU, Item, archive, extended
from tests.local_pod import LocalPod, local_pod, read, write

LARGE = os.urandom((4 << 20) + 12345)
FILES = {"large": LARGE, "deep/er/a.txt": b"a\n", "zü \\n": b"z", "-rf": b"-", " lead": b"l", "empty": b""}


@pytest.fixture
def pod() -> Iterator[LocalPod]:
    with local_pod() as pod:
        yield pod


def pulled(pod: LocalPod, folder: Path, *, force: bool = False, but: int = 0) -> Pull:
    work = compare_for_pull(pod.remote, folder, force=force)
    size = work.size_of(work.pending)
    sizes: list[int] = []
    copy_from_pod.pull(pod.remote, work, folder, sizes.append)
    assert sum(sizes) == size - but
    return work


def asked(**contents: bytes) -> Pull:
    """Return the work of a pull of files with these names and contents."""
    entries = {name: StoredEntry(name, "file", len(content), 1_000_000_000) for name, content in contents.items()}
    return Pull(Listing(tuple(entries.values())), entries, list(contents), (), ())


def test_pull_keeps_folders_modes_and_times(pod: LocalPod, tmp_path: Path) -> None:
    pod.put(FILES)
    (pod.claim / "data/nothing").mkdir()
    (pod.claim / "data/large").chmod(0o755)
    for name in ("large", "deep/er/a.txt"):
        os.utime(pod.claim / "data" / name, (1_000_000_000, 1_000_000_000))
    work = pulled(pod, tmp_path / "here")
    assert (sorted(work.arrived), work.pending, work.changed, work.unchanged) == (sorted(FILES), [], (), ())
    assert read(tmp_path / "here") == FILES
    assert (tmp_path / "here/nothing").is_dir()
    assert (tmp_path / "here/large").stat().st_mode & 0o777 == 0o755
    assert {(tmp_path / "here" / name).stat().st_mtime for name in ("large", "deep/er/a.txt")} == {1_000_000_000}


def test_pull_skips_unchanged_files_and_replaces_changed_ones_only_with_force(pod: LocalPod, tmp_path: Path) -> None:
    pod.put(FILES)
    here = write(tmp_path / "here", {**FILES, "empty": b"no", "mine": b"m"})
    with pytest.raises(ClusterError) as refused:
        pulled(pod, here)
    assert str(refused.value) == f"1 file in {here} would be replaced; nothing was pulled"
    assert refused.value.hint == "--force replaces files"
    assert [str(problem) for problem in refused.value.problems] == [f"{here}/empty: it exists with another content"]
    work = pulled(pod, here, force=True)
    assert (work.arrived, len(work.unchanged)) == (["empty"], len(FILES) - 1)
    assert read(here) == {**FILES, "mine": b"m"}


def test_pull_continues_with_missing_files_after_broken_connection(pod: LocalPod, tmp_path: Path) -> None:
    contents = {f"{number:02}": os.urandom(90_000) for number in range(30)}
    pod.put(contents)
    here = tmp_path / "here"
    work = compare_for_pull(pod.remote, here, force=False)
    pod.cut("out 2000000")
    with pytest.raises(BrokenOffError, match="connection reset by peer"):
        copy_from_pod.pull(pod.remote, work, here)
    arrived = read(here)
    assert len(arrived) in range(15, 24)
    assert all(contents[name] == content for name, content in arrived.items())
    copy_from_pod.pull(pod.remote, work, here)
    assert (read(here), work.pending) == (contents, [])


def test_pull_skips_and_lists_links_devices_and_odd_names(pod: LocalPod, tmp_path: Path) -> None:
    pod.put({"a": b"a", "new\nline": b"", "esc\x1b[2J": b"", os.fsdecode(b"\xff"): b"", "lost+found/x": b"x"})
    (pod.claim / "data/link").symlink_to("/etc/passwd")
    (pod.claim / "data/out").symlink_to("/etc")
    os.mkfifo(pod.claim / "data/pipe")
    work = pulled(pod, tmp_path / "here")
    assert read(tmp_path / "here") == {"a": b"a"}
    assert work.listing.odd == ("link", "out", "pipe", "'esc\\x1b[2J'", "'\\udcff'") or set(work.listing.odd) == {
        *("link", "out", "pipe", "'esc\\x1b[2J'", "'\\udcff'")
    }
    assert work.listing.unnamed == 1


def test_pull_reports_changed_and_deleted_files_and_reads_the_others(pod: LocalPod, tmp_path: Path) -> None:
    pod.put({"a": b"1", "b": b"b", "c": b"c"})
    work = compare_for_pull(pod.remote, tmp_path / "here", force=True)
    pod.put({"a": b"22"})
    (pod.claim / "data/c").unlink()
    copy_from_pod.pull(pod.remote, work, tmp_path / "here")
    assert (work.changed, work.gone) == (("a",), ("c",))
    assert read(tmp_path / "here") == {"a": b"22", "b": b"b"}


def test_pull_reports_files_that_cannot_be_read(pod: LocalPod, tmp_path: Path) -> None:
    pod.put({"a": b"a", "b": b"b"})
    (pod.claim / "data/a").chmod(0)
    work = pulled(pod, tmp_path / "here", but=1)
    assert (work.unread, work.gone) == (("a: Permission denied",), ())
    assert read(tmp_path) == {"here/b": b"b"}


@pytest.mark.parametrize(
    "command",
    [
        "tar --format=posix -c -f -",
        pytest.param("tar --format=ustar -c -f -", marks=pytest.mark.thorough),
        pytest.param("bsdtar -c -f -", marks=pytest.mark.thorough),
        pytest.param("busybox tar -c -f -", marks=pytest.mark.thorough),
    ],
)
def test_unpack_accepts_archives_of_every_tar_and_copies_hard_links(command: str, tmp_path: Path) -> None:
    write(tmp_path / "pod", {"a": b"a" * 2000})
    (tmp_path / "pod/b").hardlink_to(tmp_path / "pod/a")
    (tmp_path / "here").mkdir()
    sent = subprocess.run(
        [*tools.command(command), "-C", tmp_path / "pod", "./a", "./b"], capture_output=True, check=True
    )
    work = asked(a=b"a" * 2000, b=b"a" * 2000)
    unpack(io.BytesIO(sent.stdout + sent.stdout), work, tmp_path / "here")
    assert work.pending == []
    assert read(tmp_path / "here") == read(tmp_path / "pod")
    assert (tmp_path / "here/a").stat().st_mtime == 1_000_000_000


@pytest.mark.parametrize(
    "item",
    [
        Item(b"../up", content=b"x"),
        Item(b"/tmp/evil", content=b"x"),
        Item(b"mine", content=b"x"),
        Item(b"./a", b"2", fields={"link": b"/etc/passwd"}),
        Item(b"./a", b"1", fields={"link": b"mine"}),
        Item(b"./a", b"1", fields={"link": b"../../etc/passwd"}),
        Item(b"./a", b"3"),
    ],
)
def test_unpack_writes_only_files_that_were_asked_for(tmp_path: Path, item: Item) -> None:
    here = write(tmp_path / "here", {"mine": b"m"})
    work = asked(a=b"x", last=b"arrives")
    unpack(io.BytesIO(archive(item, Item(b"./last", content=b"arrives"))), work, here)
    assert (work.pending, work.arrived) == (["a"], ["last"])
    assert read(tmp_path) == {"here/mine": b"m", "here/last": b"arrives"}


@pytest.mark.parametrize(
    "items",
    [
        [Item(b"./a", b"S", fields={"magic": GNU, "sparse": b"\0" * 96 + b"\1"}), b"\1" * 512],
        [extended(b"70000 path=" + b"a" * 69_988 + b"\n"), Item(b"./a")],
    ],
    ids=["sparse", "large header"],
)
def test_unpack_refuses_costly_archives(tmp_path: Path, items: list[Item | bytes]) -> None:
    with pytest.raises(VerificationError, match=r"^what the pod sends is not a valid tar"):
        unpack(io.BytesIO(archive(*items)), asked(a=b""), tmp_path)


def test_pull_stops_when_the_pod_sends_more_than_the_disk_holds(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_from_pod, "_PACK", "yes\n")
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((1, 1, *[1 << 20] * 8)))
    with pytest.raises(VerificationError):
        copy_from_pod.pull(pod.remote, asked(a=b"x"), tmp_path / "here")
    assert read(tmp_path / "here") == {}
