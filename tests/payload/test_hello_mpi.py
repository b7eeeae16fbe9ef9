import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

ALONE = f"rank 0 of 1: host {os.uname().nodename}, uid {os.getuid()}, gid {os.getgid()}"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The ConfigMap of mlops.env as a volume: a file a key, and Kubernetes' own files beside them."""
    for key in ("..data", "DATASET_DIR", "EMPTY", "GREETING", "dotted.key"):
        (tmp_path / key).write_text("not what the environment has")
    return tmp_path


def hello(specs: Path, **environ: str) -> list[str]:
    command = ["bash", str(specs / "hello-mpi/hello.sh")]
    environ = {"PATH": "/usr/bin:/bin", **environ}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.splitlines()


def test_program_without_mpi_runs_as_one_rank(specs: Path) -> None:
    lines = hello(specs)
    assert lines[0] == ALONE
    assert json.loads(lines[1]) == {
        "model": "hello-mpi",
        "ranks": 1,
        "host": os.uname().nodename,
        "uid": os.getuid(),
        "gid": os.getgid(),
        "keys": 0,
    }
    assert len(lines) == 2


def test_only_rank_0_prints_the_result(specs: Path) -> None:
    prefix = "OMPI_COMM_WORLD"
    first = hello(specs, **{f"{prefix}_RANK": "0", f"{prefix}_SIZE": "12"})
    last = hello(specs, **{f"{prefix}_RANK": "11", f"{prefix}_SIZE": "12"})
    assert json.loads(first[-1])["ranks"] == 12
    assert last == [ALONE.replace("rank 0 of 1", "rank 11 of 12")]


def test_program_prints_values_of_keys_in_the_folder(keys: Path, specs: Path) -> None:
    environ = {"DATASET_DIR": "/data", "EMPTY": "", "GREETING": 'it\'s $(date) "now"', "dotted.key": "a\\b"}
    lines = hello(specs, MLPACK_ENV_DIR=str(keys), **environ)
    assert lines[1:5] == [
        "rank 0: DATASET_DIR=/data",
        "rank 0: EMPTY=''",
        r"rank 0: GREETING=it\'s\ \$\(date\)\ \"now\"",
        r"rank 0: dotted.key=a\\b",
    ]
    assert json.loads(lines[5])["keys"] == 4


def test_rank_writes_all_lines_in_one_write(keys: Path, specs: Path) -> None:
    """The lines of two ranks then do not mix. A datagram socket shows the writes: it keeps them apart."""
    reader, writer = socket.socketpair(type=socket.SOCK_DGRAM)
    environ = {"PATH": "/usr/bin:/bin", "MLPACK_ENV_DIR": str(keys)}
    with reader, writer:
        subprocess.run(["bash", str(specs / "hello-mpi/hello.sh")], env=environ, stdout=writer.fileno(), check=True)
        first = reader.recv(1 << 20).decode().splitlines()
        reader.setblocking(False)
        with pytest.raises(BlockingIOError):
            reader.recv(1)
    assert len(first) == 6
