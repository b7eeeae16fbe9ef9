"""Tests of copies that are continued and compared by digest, with real shells behind a kubectl that runs them here."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ClusterError
from packager.cluster import copying, resumable, workspace
from packager.cluster.copying import RemoteFolder
from packager.cluster.resumable import copy_folder
from packager.cluster.shell import ContainerShell
from packager.cluster.workspace import PARTS
from tests.cluster.test_supervisor import until
from tests.local_pod import LocalPod, local_pod, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.copying import Copied

BIG = os.urandom(6 << 20)
FILES = {"big": BIG, "deep/er/a.txt": b"a\n", "zü \\n": b"z", "-rf": b"-", "empty": b""}
PROGRAMS = ("find", "sha256sum")


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalPod]:
    monkeypatch.setattr(resumable, "_PAUSE", 0)
    with local_pod() as pod:
        pod.put(FILES)
        yield pod


def copied(pod: LocalPod, here: Path, messages: list[str] | None = None) -> Copied:
    told: list[str] = [] if messages is None else messages
    return copy_folder(pod.kubectl, RemoteFolder("p", "main", pod.data), here, patience=30, tell=told.append)


def test_copy_compares_digests_and_reads_nothing_again(pod: LocalPod, tmp_path: Path) -> None:
    here = tmp_path / "here"
    first = copied(pod, here)
    assert (first.unchecked, first.unchanged, first.received.files) == (None, 0, len(FILES))
    assert first.remarks.is_complete
    assert read(here) == FILES
    again = copied(pod, here)
    assert (again.received.files, again.received.size, again.unchanged) == (0, 0, len(FILES))
    (here / "-rf").write_bytes(b"x")
    (here / "mine").write_bytes(b"m")
    third = copied(pod, here)
    assert (third.received.files, third.unchanged) == (1, len(FILES) - 1)
    assert read(here) == {**FILES, "mine": b"m"}


@pytest.mark.parametrize("cuts", [("-", "-", "out 900000"), ("-", "out 30", "out 30"), ("out 10", "out 900000")])
def test_interrupted_copy_continues(pod: LocalPod, tmp_path: Path, cuts: tuple[str, ...]) -> None:
    """The commands are the listing, and then the tar and the digests, in any order."""
    pod.cut(*cuts)
    messages: list[str] = []
    if cuts[0] == "out 10":  # without a listing, tar copies alone
        with pytest.raises(ClusterError, match=r"^the copy was interrupted: .*connection reset by peer"):
            copied(pod, tmp_path / "here")
    result = copied(pod, tmp_path / "here", messages)
    assert result.remarks.is_complete
    assert read(tmp_path / "here") == FILES
    assert all(text.startswith("the copy was interrupted: ") for text in messages)


def test_large_file_continues_at_its_first_missing_byte(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable, "LARGE", 5 << 20)
    monkeypatch.setattr(resumable, "_TRIES", 1)
    pod.cut("-", "-", "-", "out 3000000")  # listing, listing, digests, file
    here = tmp_path / "here"
    with pytest.raises(ClusterError) as incomplete:
        copied(pod, here)
    assert str(incomplete.value).startswith("the copy is incomplete: ")
    assert incomplete.value.hint == "run it again; the files copied so far are kept"
    part = here / PARTS / hashlib.sha256(BIG).hexdigest()
    assert BIG.startswith(part.read_bytes())
    assert part.stat().st_size > 2_000_000
    offset = part.stat().st_size + 1
    offsets: list[str] = []
    stream = ContainerShell.stream

    def recorded(shell: ContainerShell, script: str, *arguments: str, **options: Any) -> Iterator[bytes]:
        offsets.extend(arguments[3:])
        return stream(shell, script, *arguments, **options)

    monkeypatch.setattr(ContainerShell, "stream", recorded)
    assert copied(pod, here).remarks.is_complete
    assert read(here) == FILES
    assert offsets[0] == str(offset)


def test_file_that_differs_after_the_copy_is_read_again(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, wrong = workspace.digests, [{"big": "0" * 64}]
    monkeypatch.setattr(workspace, "digests", lambda *given: {**real(*given), **(wrong.pop() if wrong else {})})
    result = copied(pod, tmp_path / "here")
    assert (result.remarks.is_complete, result.unchecked) == (True, None)
    assert read(tmp_path / "here") == FILES


def test_file_that_changes_again_and_again_arrives_and_is_named(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = workspace.digests

    def digests(*given: object) -> dict[str, str]:
        return {**real(*given), "big": "0" * 64, "empty": "1" * 64}  # type: ignore[arg-type]

    monkeypatch.setattr(workspace, "digests", digests)
    monkeypatch.setattr("packager.cluster.download.digests", digests)
    result = copied(pod, tmp_path / "here")
    assert sorted(result.remarks.changed) == ["big", "empty"]
    assert {path: content for path, content in read(tmp_path / "here").items() if PARTS not in path} == FILES


@pytest.mark.parametrize("program", PROGRAMS)
def test_container_without_a_program_is_copied_by_tar(pod: LocalPod, tmp_path: Path, program: str) -> None:
    pod.use_busybox()
    (pod.home / "tools" / program).unlink()
    result = copied(pod, tmp_path / "here")
    assert result.unchecked == f"the image has no {program}, which is needed for this"
    assert read(tmp_path / "here") == FILES


def test_busybox_copies_and_compares(pod: LocalPod, tmp_path: Path) -> None:
    pod.use_busybox()
    assert copied(pod, tmp_path / "here").unchecked is None
    assert copied(pod, tmp_path / "here").unchanged == len(FILES)
    assert read(tmp_path / "here") == FILES


@pytest.mark.parametrize("name", ["log", "big"])
def test_file_that_grows_during_the_copy_arrives_and_is_named(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = f"{pod.data}/{name}"
    file = pod.claim / "data" / name
    file.touch()
    size = file.stat().st_size
    messages: list[str] = []
    read_once = threading.Event()
    digests, copy = workspace.digests, copying.copy

    def grow() -> None:
        with file.open("ab") as stream:
            stream.write(b"x\n")

    def grown(*given: Any) -> dict[str, str]:
        grow()  # what tar has copied by then is compared with these digests
        result = digests(*given)
        grow()
        read_once.set()
        return result

    def later(*given: Any, **options: Any) -> Copied:
        assert read_once.wait(30)
        return copy(*given, **options)

    # The loop alone may rest while tar and the digests read the file.
    monkeypatch.setattr(workspace, "digests", grown)
    monkeypatch.setattr("packager.cluster.download.digests", grown)
    monkeypatch.setattr(resumable, "copy", later)
    loop = f"while :; do echo x >>{path}; done"
    with subprocess.Popen(["timeout", "60", "sh", "-c", loop]) as writer:
        until(lambda: file.stat().st_size > size)
        result = copied(pod, tmp_path / "here", messages)
        writer.terminate()
    monkeypatch.undo()
    assert result.remarks.changed == (name,), (result, messages)
    assert sorted(read(tmp_path / "here")) == sorted({*FILES, name})
    assert copied(pod, tmp_path / "here").remarks.is_complete


def test_interrupted_copy_leaves_no_kubectl_that_reads_digests(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pod.claim / "data/pid"
    monkeypatch.setattr(workspace, "_DIGESTS", f"echo $$ >{file}; sleep 60")

    def interrupted(*_arguments: object, **_options: object) -> None:
        until(lambda: file.exists() and file.read_text().endswith("\n"))
        raise KeyboardInterrupt

    monkeypatch.setattr(resumable, "copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copied(pod, tmp_path / "here")
    process, begun = file.read_text().strip(), time.monotonic()
    until(lambda: not Path("/proc", process).exists())
    assert time.monotonic() - begun < 20  # it gives up by itself after 30 s
