"""Tests of pulls with real shells: the files in the local folder, and attempts of a hostile pod."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ClusterError, VerificationError
from packager.cluster import download
from packager.cluster import storedfiles as workspace
from packager.cluster.shell import BrokenOffError
from packager.cluster.storedfiles import PARTS, Listing, StoredEntry
from tests.local_pod import LocalPod, local_pod, read, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGE = os.urandom(download.LARGE + 12345)
FILES = {"large": LARGE, "deep/er/a.txt": b"a\n", "zü \\n": b"z", "-rf": b"-", " lead": b"l", "empty": b""}


@pytest.fixture
def pod() -> Iterator[LocalPod]:
    with local_pod() as pod:
        yield pod


def pulled(pod: LocalPod, folder: Path, *, force: bool = False) -> download.Required:
    required = download.compare(pod.shell(), pod.place, folder, force=force)
    sizes: list[int] = []
    assert download.fetch(pod.shell(), pod.place, required, folder, sizes.append) == ()
    assert sum(sizes) == required.size
    return required


def test_pull_keeps_folders_modes_and_times(pod: LocalPod, tmp_path: Path) -> None:
    pod.put(FILES)
    (pod.claim / "data/nothing").mkdir()
    (pod.claim / "data/large").chmod(0o755)
    for name in ("large", "deep/er/a.txt"):
        os.utime(pod.claim / "data" / name, (1_000_000_000, 1_000_000_000))
    required = pulled(pod, tmp_path / "here")
    assert (len(required.files), required.unchanged) == (len(FILES), ())
    assert read(tmp_path / "here") == FILES
    assert (tmp_path / "here/nothing").is_dir()
    assert not (tmp_path / "here" / PARTS).exists()
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
    required = pulled(pod, here, force=True)
    assert ([file.entry.path for file in required.files], len(required.unchanged)) == (["empty"], len(FILES) - 1)
    assert read(here) == {**FILES, "mine": b"m"}


def test_pull_continues_after_a_broken_connection_and_leaves_no_partial_file(pod: LocalPod, tmp_path: Path) -> None:
    pod.put({"large": LARGE, **{f"{number}": os.urandom(90_000) for number in range(30)}})
    here = tmp_path / "here"
    required = download.compare(pod.shell(), pod.place, here, force=False)
    pod.cut("out 3000000")
    with pytest.raises(BrokenOffError, match="connection reset by peer"):
        download.fetch(pod.shell(), pod.place, required, here, lambda _size: None)
    digest = hashlib.sha256(LARGE).hexdigest()
    part = read(here)
    assert list(part) == [f"{PARTS}/{digest}"]
    assert 2_500_000 < len(part[f"{PARTS}/{digest}"]) <= 3_000_000
    pod.cut("-", "out 2000000")
    with pytest.raises(BrokenOffError, match="connection reset by peer"):
        download.fetch(pod.shell(), pod.place, required, here, lambda _size: None)
    arrived = read(here)
    assert len(arrived) in range(21, 24)
    assert all(arrived[name] == pod.files()[f"data/{name}"] for name in arrived)
    pod.cut()
    download.fetch(pod.shell(), pod.place, required, here, lambda _size: None)
    assert {f"data/{path}": content for path, content in read(here).items()} == pod.files()


def test_pull_skips_and_lists_links_devices_and_odd_names(pod: LocalPod, tmp_path: Path) -> None:
    pod.put({"a": b"a", "new\nline": b"", "esc\x1b[2J": b"", os.fsdecode(b"\xff"): b"", "lost+found/x": b"x"})
    (pod.claim / "data/link").symlink_to("/etc/passwd")
    (pod.claim / "data/out").symlink_to("/etc")
    os.mkfifo(pod.claim / "data/pipe")
    required = pulled(pod, tmp_path / "here")
    assert read(tmp_path / "here") == {"a": b"a"}
    assert {entry.path: entry.kind for entry in required.listing.entries} == {
        "a": "file",
        "link": "link",
        "out": "link",
        "pipe": "other",
    }
    assert sorted(required.listing.skipped) == ["'\\udcff'", "'esc\\x1b[2J'"]
    assert required.listing.unnamed == 1


@pytest.mark.parametrize("size", [1, download.LARGE])
def test_changed_file_replaces_no_local_file_and_other_files_arrive(pod: LocalPod, tmp_path: Path, size: int) -> None:
    pod.put({"a": bytes(size), "b": b"b", "c": bytes(size)})
    here = write(tmp_path / "here", {"a": b"mine"})
    required = download.compare(pod.shell(), pod.place, here, force=True)
    pod.put({"a": b"x" * size})
    assert download.fetch(pod.shell(), pod.place, required, here, lambda _size: None) == ("a",)
    arrived = {path: content for path, content in read(here).items() if not path.startswith(PARTS)}
    assert arrived == {"a": b"mine", "b": b"b", "c": bytes(size)}


@pytest.mark.parametrize("names", [["./mine"], ["../out"]])
def test_pull_discards_files_that_were_not_requested(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """The listing contains only `a`; the archive also contains a file of the user or a path out of the folder."""
    here = write(tmp_path / "here", {"mine": b"m"})
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in (*names, "./a"):
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
    (pod.home / "archive").write_bytes(stream.getvalue())
    monkeypatch.setattr(download, "_PACK", f"cat {pod.home}/archive\n")
    entry = StoredEntry("a", "file", 1, 0)
    required = download.Required((download.Remote(entry, hashlib.sha256(b"x").hexdigest()),), (), Listing((entry,)))
    assert download.fetch(pod.shell(), pod.place, required, here, lambda _size: None) == ("a",)
    left = {path: content for path, content in read(tmp_path).items() if PARTS not in path}
    assert left == {"here/mine": b"m"}


@pytest.mark.parametrize("size", [download.LARGE, 1])
def test_pull_opens_no_file_that_a_pod_names_as_a_digest(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    named = "{}/mine"
    pod.put({"a": b"a" * size, "b": b"b"})
    (tmp_path / "mine").write_bytes(b"mine")
    digest = named.format(tmp_path)
    monkeypatch.setattr(workspace, "_DIGESTS", f"echo '{digest}  ./a'; echo '{hashlib.sha256(b'b').hexdigest()}  ./b'")
    required = pulled(pod, tmp_path / "here")
    assert required.unread == ("a: it cannot be read",)
    assert read(tmp_path) == {"mine": b"mine", "here/b": b"b"}


@pytest.mark.parametrize(("script", "size"), [("yes", download.LARGE), ("head -c 6000000 /dev/zero", 1)])
def test_pull_discards_more_bytes_than_the_pod_listed(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, size: int
) -> None:
    for name in ("_PACK", "_TAIL"):
        monkeypatch.setattr(download, name, f"{script}\n")
    entry = StoredEntry("a", "file", size, 0)
    required = download.Required((download.Remote(entry, "0" * 64),), (), Listing((entry,)))
    with suppress(VerificationError):
        assert download.fetch(pod.shell(), pod.place, required, tmp_path / "here", lambda _size: None) == ("a",)
    left: dict[str, Any] = read(tmp_path / "here")
    assert sum(map(len, left.values())) == 0
