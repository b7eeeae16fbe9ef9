"""Each attack is tried by a program that confines itself before."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CONFINED = """\
import array, ctypes, errno, json, mmap, os, resource, signal, socket, subprocess, sys, threading
from packager.service.registry import sandbox
secret, lacking = sys.argv[1], sandbox.confine()
libc = ctypes.CDLL(None, use_errno=True)

def raised(number):
    if number == -1:
        raise OSError(ctypes.get_errno(), "")

try:
    {attack}
except OSError as error:
    answer = errno.errorcode[error.errno]
except (RuntimeError, ValueError) as error:  # a thread that cannot start, a limit that cannot be raised
    answer = type(error).__name__
else:
    answer = "done"
os.write(1, json.dumps([lacking, answer]).encode())
os._exit(0)
"""

ATTACKS = {
    "a file of the server is opened": "open(secret).read()",
    "a file is opened by a path of descriptors": "os.open('/proc/self/fd/0', os.O_RDONLY)",
    "a file is made": "open(secret + '.new', 'w')",
    "a pipe is made": "os.pipe()",
    "a socket of the network": "socket.socket()",
    "a process is made": "os.fork() or os._exit(0)",
    "a thread is made": "threading.Thread(target=print).start()",
    "a program is started": "os.execv('/bin/true', ['true'])",
    "the parent is killed": "os.kill(os.getppid(), 0)",
    "the memory of the parent is read": "raised(libc.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0))",
    "another namespace": "raised(libc.unshare(0x10000000))",
    "a ring of requests": "raised(libc.syscall(425, 1, 0))",
    "a call of the old numbers": "raised(libc.syscall(0x40000000 | 2, b'/etc/passwd', 0))",
    "more open files": "resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10)); open(secret)",
    "the limits of the parent": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "memory is shared with others": "raised(libc.shmget(0, 4096, 0o1600))",
}


def confined(attack: str, secret: Path) -> tuple[list[str], str]:
    """Run an attack in a confined process; return the gaps of the system, and the result of the attack."""
    program = CONFINED.format(attack=attack)
    done = subprocess.run([sys.executable, "-c", program, secret], capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, (done.returncode, done.stderr.decode())
    lacking, answer = json.loads(done.stdout)
    return lacking, answer


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_confined_process_can_only_compute(attack: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret", encoding="utf-8")
    lacking, answer = confined(attack, secret)
    assert lacking == []
    assert answer in ("EPERM", "RuntimeError", "ValueError"), answer
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_confined_process_can_still_compute(tmp_path: Path) -> None:
    work = (
        "bytearray(50 << 20); mmap.mmap(-1, 50 << 20)[:9]; os.urandom(8); resource.getrusage(resource.RUSAGE_SELF);"
        "resource.setrlimit(resource.RLIMIT_CPU, (1000, resource.RLIM_INFINITY)); threading.Lock().acquire(timeout=0)"
    )
    assert confined(work, tmp_path / "none") == ([], "done")


def test_limits_hold_where_the_system_has_no_filter(tmp_path: Path) -> None:
    """The gap is reported, and no file can be opened."""
    secret = tmp_path / "secret"
    secret.write_text("secret", encoding="utf-8")
    program = CONFINED.replace("secret, lacking", "sandbox._keep_only = lambda _: 38\nsecret, lacking")
    for attack in ("open(secret)", "socket.socket()", "os.pipe()"):
        argv = [sys.executable, "-c", program.format(attack=attack), str(secret)]
        done = subprocess.run(argv, capture_output=True, check=True, timeout=300)
        assert json.loads(done.stdout) == [
            ["the system refuses a filter of system calls: Function not implemented"],
            "EMFILE",
        ]
