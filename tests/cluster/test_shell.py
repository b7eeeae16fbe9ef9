"""Scripts in a container: everything that they write arrives, and why one cannot be run is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ClusterError, TimedOutError, VerificationError
from packager.cluster import shell as module
from packager.cluster.shell import BrokenOffError, ScriptError
from tests.local_pod import LocalPod, local_pod

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def pod() -> Iterator[LocalPod]:
    with local_pod() as pod:
        yield pod


def test_a_script_reads_and_writes_data(pod: LocalPod) -> None:
    content = bytes(range(256)) * 4096
    assert pod.shell().ask('head -c "$1"\n', str(len(content)), given=[content[:1000], content[1000:]]) == content


def test_a_script_that_fails(pod: LocalPod) -> None:
    with pytest.raises(ScriptError) as failed:
        pod.shell().ask("echo some >&2; echo words >&2; return 5\n")
    assert (failed.value.code, str(failed.value)) == (5, "some words")


def test_an_image_that_lacks_a_program(pod: LocalPod) -> None:
    with pytest.raises(ClusterError) as failed:
        pod.shell().ask("echo 'find: not found' >&2; return 127\n")
    assert (str(failed.value), failed.value.hint) == (
        "the image has no find, which is needed for this",
        "--image uses another one",
    )


def test_a_connection_that_ends_first(pod: LocalPod) -> None:
    pod.cut("out 10")
    with pytest.raises(BrokenOffError, match="connection reset by peer"):
        pod.shell().ask("echo 0123456789 0123456789\n")


def test_somebody_who_may_run_no_command(pod: LocalPod) -> None:
    pod.cut("no")
    with pytest.raises(ClusterError, match=r"^no command can be run in pod/p: "):
        pod.shell().ask("echo\n")


def test_an_answer_without_end_is_stopped(pod: LocalPod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 1 << 20)
    with pytest.raises(VerificationError, match=r"^p answers with more than 1 MiB$"):
        pod.shell().ask("yes\n")


def test_a_pod_that_sends_nothing(pod: LocalPod) -> None:
    shell = replace(pod.shell(), patience=1)
    with pytest.raises(TimedOutError) as failed:
        shell.ask("read -r never\n")
    assert str(failed.value) == "nothing was sent to or received from pod/p for 1 s"


def test_what_the_maker_of_the_input_raises(pod: LocalPod) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x"
        raise ClusterError("no more")

    with pytest.raises(ClusterError, match=r"^no more$"):
        pod.shell().ask("cat\n", given=chunks())
