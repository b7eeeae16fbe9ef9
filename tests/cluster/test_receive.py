"""Tests of results from hostile pods: nothing is written outside the folder, memory stays small, good files arrive."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import VerificationError
from packager.base.limits import Limits
from packager.cluster.receive import Received, receive
from tests import tools
from tests.fuzz.tars import GNU, Item, archive, extended, record

if TYPE_CHECKING:
    from pathlib import Path

LAST = Item(b"./last", content=b"arrives")
LONG = "/".join(["deep" * 20] * 4) + "/näme"


@pytest.mark.parametrize(
    "command",
    [
        "tar --format=posix -c -f -",
        pytest.param("tar --format=ustar -c -f -", marks=pytest.mark.thorough),
        pytest.param("bsdtar -c -f -", marks=pytest.mark.thorough),
        pytest.param("busybox tar -c -f -", marks=pytest.mark.thorough),
    ],
)
def test_receive_accepts_archives_of_every_tar(command: str, tmp_path: Path) -> None:
    pod, here = tmp_path / "pod", tmp_path / "here"
    here.mkdir()
    names = ["a", "sub/run.sh", "sub/empty", "spaced name"] + ([] if "ustar" in command else [LONG])
    for name in names:
        (pod / name).parent.mkdir(parents=True, exist_ok=True)
        (pod / name).write_bytes(name.encode() * 200 if name != "sub/empty" else b"")
        os.utime(pod / name, (1_000_000_000, 1_000_000_000))
    (pod / "sub/run.sh").chmod(0o750)
    (pod / "link").symlink_to("a")
    for name in ("sub/again", "latest"):
        (pod / name).hardlink_to(pod / "a")
        names.append(name)
    sent = subprocess.run([*tools.command(command), "-C", pod, "."], capture_output=True, check=True).stdout
    received = receive(io.BytesIO(sent), here)
    assert (received.files, received.skipped, received.unnamed) == (len(names), ("link",), 0)
    for name in names:
        assert (here / name).read_bytes() == (pod / name).read_bytes()
        assert (here / name).stat().st_mtime == 1_000_000_000
    assert (here / "sub/run.sh").stat().st_mode & 0o777 == 0o755
    assert (here / "a").stat().st_mode & 0o777 == 0o644


ODD: dict[str, tuple[list[Item | bytes], str]] = {
    "a name that climbs": ([Item(b"../up")], "../up"),
    "an absolute name": ([Item(b"/tmp/evil")], "/tmp/evil"),
    "a name that is not UTF-8": ([Item(b"a/\xff")], r"'a/\udcff'"),
    "a link": ([Item(b"./l", b"2", fields={"link": b"/etc/passwd"})], "l"),
    "a device": ([Item(b"./d", b"3")], "d"),
    "a sparse file with a long map": (
        [Item(b"./s", b"S", fields={"magic": GNU, "sparse": b"\0" * 96 + b"\1"}), b"\1" * 512, bytes(512)],
        "s",
    ),
    "a header that cannot be read": ([extended(b"77 path=../up\n"), Item(b"./x")], "x"),
    "a file where a folder is": ([Item(b"./d/", b"5"), Item(b"./d")], "d"),
    "a folder where a file is": ([LAST, Item(b"./last/below")], "last/below"),
}


@pytest.mark.parametrize("case", ODD)
def test_receive_skips_odd_members_and_keeps_the_rest(case: str, tmp_path: Path) -> None:
    items, name = ODD[case]
    into = tmp_path / "into"
    into.mkdir()
    received = receive(io.BytesIO(archive(*items, LAST)), into)
    assert received.skipped == (name,)
    assert (into / "last").read_bytes() == b"arrives"
    assert [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()] == [into / "last"]


@pytest.mark.parametrize("target", ["/etc/passwd", "mine", "later", "sub/link", "l"])
def test_hard_link_is_accepted_only_to_a_file_of_the_same_archive(target: str, tmp_path: Path) -> None:
    into = tmp_path / "into"
    (into / "sub").mkdir(parents=True)
    (into / "mine").write_bytes(b"mine")
    (into / "sub/link").symlink_to("../mine")
    (tmp_path / "secret").write_bytes(b"secret")
    link = Item(b"./l", b"1", fields={"link": target.encode()})
    received = receive(io.BytesIO(archive(Item(b"new\nline", content=b"x"), link, Item(b"./later"), LAST)), into)
    assert (received.files, received.skipped) == (2, (r"'new\nline'",))
    assert len(received.orphans) == 1
    assert received.orphans[0].startswith("l: it is a hard link to ")
    assert not (into / "l").exists()


def test_copies_of_hard_links_count_towards_the_size_limit(tmp_path: Path) -> None:
    links = [Item(b"./%d" % number, b"1", fields={"link": b"./a"}) for number in range(9)]
    with pytest.raises(VerificationError, match=r"^the archive contains more than 5,000 bytes$"):
        receive(io.BytesIO(archive(Item(b"./a", content=b"x" * 1000), *links)), tmp_path, limits=Limits(size=5000))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 5000


def test_skipped_names_are_only_counted_after_a_thousand(tmp_path: Path) -> None:
    received = receive(io.BytesIO(archive(*[Item(b"./l", b"2")] * 1_005)), tmp_path)
    assert received == Received(0, 0, ("l",) * 1_000, 5)


DAMAGED = {
    "no end": (archive(LAST, end=b""), "it ends too early"),
    "in a file": (archive(LAST, Item(b"./x", content=b"x" * 4000))[:2000], "it ends too early"),
    "a wrong checksum": (archive(LAST, b"x" * 512), "a number in a header is invalid"),
    "another checksum": (archive(LAST, Item(b"x", fields={"checksum": b"000007\0 "})), "a header's checksum is wrong"),
    "headers without end": (archive(LAST, *[extended(record(b"mtime", b"1"))] * 9), "it has too many headers in a row"),
    "more behind the end": (archive(LAST) + b"x" * (1 << 20), "it has data after its end"),
    "a size of letters": (archive(LAST, extended(record(b"size", b"x")), Item(b"x")), "a size is not a number"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_archive_is_reported_and_earlier_files_are_kept(case: str, tmp_path: Path) -> None:
    sent, reason = DAMAGED[case]
    with pytest.raises(VerificationError) as refused:
        receive(io.BytesIO(sent), tmp_path)
    assert str(refused.value) == f"the tar stream is truncated or damaged: {reason}"
    arrived = [path.name for path in tmp_path.iterdir()]
    assert arrived == ["last"]


@pytest.mark.parametrize(
    ("limits", "items", "message"),
    [
        (
            Limits(size=1 << 20),
            [Item(b"./x", fields={"size": b"00100000000\0"})],
            "the archive contains more than 1,048,576 bytes",
        ),
        (
            Limits(size=1 << 20),
            [Item(b"x", b"x", fields={"size": b"7" * 11})],
            "the archive contains more than 1,048,576 bytes",
        ),
        (Limits(files=2), [Item(b"./a"), Item(b"./l", b"2")], "the archive contains more than 2 files and folders"),
    ],
    ids=["a file", "a header", "files"],
)
def test_receive_refuses_more_files_or_bytes_than_its_limits(
    limits: Limits, items: list[Item], message: str, tmp_path: Path
) -> None:
    with pytest.raises(VerificationError) as refused:
        receive(io.BytesIO(archive(LAST, *items)), tmp_path, limits=limits)
    assert str(refused.value) == message
    assert (tmp_path / "last").exists()


def test_receive_refuses_more_bytes_than_the_disk_has_free_by_default(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    item = Item(b"./x", fields={"size": b"\x80" + (disk.f_bavail * disk.f_frsize).to_bytes(11, "big")})
    with pytest.raises(VerificationError, match=r"^the archive contains more than [0-9,]+ bytes$"):
        receive(io.BytesIO(archive(item)), tmp_path)


def test_receive_refuses_a_folder_that_becomes_a_link_during_the_transfer(tmp_path: Path) -> None:
    """The stream replaces the folder by a link between the header of a file and its content."""
    into, elsewhere = tmp_path / "into", tmp_path / "elsewhere"
    (into / "sub").mkdir(parents=True)
    elsewhere.mkdir()

    class Swapping(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() == 512:
                (into / "sub").rename(tmp_path / "moved")
                (into / "sub").symlink_to(elsewhere)
            return super().read(size)

    with pytest.raises(VerificationError) as refused:
        receive(Swapping(archive(Item(b"./sub/a", content=b"1"), Item(b"./sub/b", content=b"2"))), into)
    assert str(refused.value) == f"{into}/sub is a link"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.thorough
def test_receive_uses_less_than_32_mib_for_a_header_of_256_mib(tmp_path: Path) -> None:
    """A header of 700 MB once took 1.6 GB."""
    program = (
        "import resource, sys; from pathlib import Path; from packager.cluster.receive import receive\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(receive(sys.stdin.buffer, Path(sys.argv[1])).skipped)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    claimed = 256 << 20
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, claimed
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(info.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(claimed >> 20):
            running.stdin.write(b"9" * (1 << 20))
        running.stdin.write(archive(Item(b"./x")))
        running.stdin.close()
        skipped, grown = running.stdout.read().split(b"\n")[:2]
    assert skipped == b"('x',)"
    assert int(grown) < 32 << 10, "KiB"


@pytest.mark.thorough
def test_receive_leaves_no_partial_file_if_a_write_fails(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from packager.cluster.receive import receive\n"
        "try:\n    receive(sys.stdin.buffer, Path(sys.argv[1]))\nexcept OSError as error:\n    print(error.strerror)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        input=archive(LAST, Item(b"./x", content=bytes(2 << 20))),
        capture_output=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    assert done.stdout == b"File too large\n"
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
