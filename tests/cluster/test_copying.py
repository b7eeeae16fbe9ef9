"""A real tar behind a kubectl that runs here what it is told to run in a pod."""

from __future__ import annotations

import io
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ClusterError
from packager.cluster.copying import Marked, RemoteFolder, copy
from packager.kubectl.client import Kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.copying import Copied

# As root, which may read everything, tar runs as somebody else.
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
    """The folder of a pod, and a kubectl beside it; others may enter, as they may not into pytest's folders."""
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


def test_what_cannot_be_read_is_named_and_the_rest_arrives(pod: Path) -> None:
    (pod / "a secret").write_text("x")
    (pod / "a secret").chmod(0)
    (pod / "deep/z.txt").write_text("z")
    result = copied(pod)
    assert result.remarks.unread == ("a secret: Permission denied",)
    assert arrived(pod) == {"deep/z.txt": "z"}
    (pod / "a secret").chmod(0o644)
    assert copied(pod).remarks.is_complete
    assert arrived(pod) == {"a secret": "x", "deep/z.txt": "z"}


def test_odd_names_are_left_out_and_what_comes_after_them_arrives(pod: Path) -> None:
    for name in ("a", "new\nline", "esc\x1b[2J", "zürich", "back\\slash", os.fsdecode(b"\xff")):
        (pod / name).write_text(name, errors="surrogateescape")
    result = copied(pod)
    assert sorted(result.received.skipped) == sorted(["'new\\nline'", "'esc\\x1b[2J'", "'\\udcff'"])
    assert arrived(pod) == {name: name for name in ("a", "zürich", "back\\slash")}
    assert result.remarks.is_complete


def test_sockets_and_links_are_left_out(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (pod / "link").symlink_to("/etc/passwd")
    monkeypatch.chdir(pod)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
    result = copied(pod)
    assert (result.received.skipped, result.remarks.left_out) == (("link",), ("sock",))
    assert arrived(pod) == {}


def test_a_folder_that_nobody_may_enter(pod: Path) -> None:
    pod.chmod(0)
    with pytest.raises(ClusterError) as error:
        copied(pod)
    pod.chmod(0o755)
    assert str(error.value) == f"{pod} cannot be read: Permission denied"


class Slow:
    """A stream that comes byte by byte."""

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
        (b"MARK 1\nMARK 0 MARK 2\n", b"MARK 1\nMARK 0 ", 2),
        (b"archive", b"archive", None),
        (b"archive MARK ", b"archive MARK ", None),
    ],
)
@pytest.mark.parametrize("kind", [io.BytesIO, Slow])
def test_a_stream_ends_at_its_mark(data: bytes, content: bytes, code: int | None, kind: Any) -> None:
    marked = Marked(kind(data), "MARK")
    if kind is Slow and code == 2:
        content, code = b"", 1  # whoever knows the mark can end the stream early, and harms nobody else
    read = b"".join(iter(lambda: marked.read(3), b""))
    assert (read, marked.code) == (content, code)
