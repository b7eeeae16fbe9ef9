"""Tests that logs are read as they are written, from where they broke off, until their pods are deleted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from packager.cluster.livelogs import LiveLogs, LivePart
from packager.kubernetes.kubectl.client import Kubectl

if TYPE_CHECKING:
    from pathlib import Path

# The first answer breaks off; the second one repeats a line, as a kubelet does, and goes on.
KUBECTL = """#!/bin/bash
folder=${0%/*}
echo "$*" >>"$folder/calls"
echo "2026-11-26T00:00:00.000000001Z one"
[ -e "$folder/again" ] || { touch "$folder/again"; echo 'error: EOF' >&2; exit 1; }
echo "2026-11-26T00:00:00.000000002Z two"
[ -e "$folder/deleted" ] || { sleep 60; exit 1; }
echo 'Error from server (NotFound): pods "p" not found' >&2
exit 1
"""


def kubectl(folder: Path) -> Kubectl:
    program = folder / "kubectl"
    program.write_text(KUBECTL, encoding="utf-8")
    program.chmod(0o755)
    return Kubectl(str(program))


def read(logs: LiveLogs, count: int) -> list[LivePart]:
    parts: list[LivePart] = []
    deadline = time.monotonic() + 60
    while len(parts) < count:
        assert time.monotonic() < deadline
        parts += logs.parts(0.1)
    return parts


def test_logs_continue_after_broken_connection(tmp_path: Path) -> None:
    with LiveLogs(kubectl(tmp_path)) as logs:
        assert logs.follow("p", "main")
        assert read(logs, 2) == [LivePart("p", b"one\n"), LivePart("p", b"two\n")]
        assert logs.follow("p", "main")
        assert list(logs.parts(0)) == []
    first, second = (tmp_path / "calls").read_text().splitlines()
    assert first == "logs p --container=main --timestamps --follow --tail=-1"
    assert second.endswith("--follow --since-time=2026-11-25T23:59:59Z")


@pytest.mark.thorough
def test_log_of_deleted_pod_is_not_asked_for_again(tmp_path: Path) -> None:
    for name in ("again", "deleted"):
        (tmp_path / name).touch()
    with LiveLogs(kubectl(tmp_path)) as logs:
        logs.follow("p", "main", last=10)
        assert len(read(logs, 2)) == 2
        time.sleep(1.5)  # longer than the pause before a log is read again
    assert (tmp_path / "calls").read_text() == "logs p --container=main --timestamps --follow --tail=10\n"
