"""Tests of copies that are continued and compared by digest, with real shells behind a kubectl that runs them here."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ClusterError
from packager.cluster import resumable
from packager.cluster import storedfiles as workspace
from packager.cluster.copying import RemoteFolder
from packager.cluster.resumable import copy_folder
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


@pytest.mark.parametrize("cuts", [("-", "-", "out 900000"), ("out 10", "out 900000")])
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


def test_file_that_differs_after_the_copy_is_read_again(
    pod: LocalPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, wrong = workspace.digests, [{"big": "0" * 64}]
    monkeypatch.setattr(workspace, "digests", lambda *given: {**real(*given), **(wrong.pop() if wrong else {})})
    result = copied(pod, tmp_path / "here")
    assert (result.remarks.is_complete, result.unchecked) == (True, None)
    assert read(tmp_path / "here") == FILES


@pytest.mark.thorough
@pytest.mark.parametrize("program", PROGRAMS)
def test_container_without_a_program_is_copied_by_tar(pod: LocalPod, tmp_path: Path, program: str) -> None:
    pod.use_busybox()
    (pod.home / "tools" / program).unlink()
    result = copied(pod, tmp_path / "here")
    assert result.unchecked == f"the image has no {program}, which is needed for this"
    assert read(tmp_path / "here") == FILES


@pytest.mark.thorough
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
