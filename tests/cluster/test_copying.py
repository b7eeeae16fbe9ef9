"""Tests of copies with a real tar, behind a kubectl that runs the pod's commands on this machine."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ClusterError
from packager.cluster.copying import Marked, RemoteFolder, copy
from packager.kubernetes.kubectl.client import Kubectl
from tests.local_pod import local_pod, read, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.copying import Copied

# Root may read everything, so tar runs as another user.
SOMEBODY = "setpriv --reuid=54321 --clear-groups" if os.geteuid() == 0 else ""

KUBECTL = f"""#!/bin/sh
while [ "$1" != -- ]; do shift; done; shift
cd / && {SOMEBODY} "$@"
code=$?
[ $code = 0 ] || echo "command terminated with exit code $code" >&2
exit $code
"""


@pytest.fixture
def pod() -> Iterator[Path]:
    """Yield the folder of a pod, with a kubectl beside it; other users may enter it, unlike pytest's folders."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "kubectl").write_text(KUBECTL)
        (folder / "kubectl").chmod(0o755)
        (folder / "pod/deep").mkdir(parents=True)
        yield folder / "pod"


def copied(pod: Path) -> Copied:
    kubectl = Kubectl(str(pod.parent / "kubectl"))
    return copy(kubectl, RemoteFolder("p", "main", str(pod)), pod.parent / "here", patience=30, tell=pytest.fail)


def arrived(pod: Path) -> dict[str, str]:
    here = pod.parent / "here"
    return {str(path.relative_to(here)): path.read_text() for path in here.rglob("*") if path.is_file()}


def test_copy_names_unreadable_files_and_receives_the_rest(pod: Path) -> None:
    (pod / "a secret").write_text("x")
    (pod / "a secret").chmod(0)
    (pod / "deep/z.txt").write_text("z")
    result = copied(pod)
    assert result.remarks.unread == ("a secret: Permission denied",)
    assert arrived(pod) == {"deep/z.txt": "z"}
    (pod / "a secret").chmod(0o644)
    assert copied(pod).remarks.is_complete
    assert arrived(pod) == {"a secret": "x", "deep/z.txt": "z"}


def test_copy_reports_a_folder_without_permission_to_enter(pod: Path) -> None:
    pod.chmod(0)
    with pytest.raises(ClusterError) as error:
        copied(pod)
    pod.chmod(0o755)
    assert str(error.value) == f"{pod} cannot be read: Permission denied"


@pytest.mark.parametrize("cut", [0, 2400, 8000, "in 0"])
def test_interrupted_copy_keeps_whole_files_and_the_next_copy_is_identical(cut: int | str, tmp_path: Path) -> None:
    """The connection is cut after a number of bytes, or as soon as the pod has read its input."""
    files = {str(number): os.urandom(700) for number in range(6)}
    with local_pod() as pod:
        write(pod.claim, files)
        pod.cut(cut if isinstance(cut, str) else f"out {cut}")
        place, here = RemoteFolder("p", "main", str(pod.claim)), tmp_path / "here"
        with pytest.raises(ClusterError, match=r"^the copy was interrupted: .*connection reset by peer") as error:
            copy(pod.kubectl, place, here, patience=5, tell=pytest.fail)
        assert error.value.hint == "run it again; the files copied so far are kept"
        assert read(here).items() <= files.items()
        assert copy(pod.kubectl, place, here, patience=5, tell=pytest.fail).remarks.is_complete
        assert read(here) == files


class Slow:
    """A stream that returns one byte at a time."""

    def __init__(self, data: bytes) -> None:
        self.left = data

    def read1(self, _size: int) -> bytes:
        data, self.left = self.left[:1], self.left[1:]
        return data


@pytest.mark.parametrize(
    ("data", "content", "code"),
    [
        (b"archive\0MARK 0\n", b"archive\0", 0),
        (b"MARK 127\n", b"", 127),
        (b"archive MARK ", b"archive MARK ", None),
    ],
)
def test_marked_stream_ends_at_its_mark(data: bytes, content: bytes, code: int | None) -> None:
    stream: Any
    for stream in (io.BytesIO(data), Slow(data)):
        marked = Marked(stream, "MARK")
        assert (b"".join(iter(lambda marked=marked: marked.read(3), b"")), marked.code) == (content, code)  # type: ignore[misc]


def test_mark_inside_of_the_data_is_not_the_end() -> None:
    marked = Marked(io.BytesIO(b"MARK 1\nMARK 0 MARK 2\n"), "MARK")
    assert (b"".join(iter(lambda: marked.read(3), b"")), marked.code) == (b"MARK 1\nMARK 0 ", 2)
