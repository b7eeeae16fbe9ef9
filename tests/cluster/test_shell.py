"""Tests of scripts in a container: all their output arrives, and the reason of a failure is reported."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from packager.base.errors import ClusterError, TimedOutError, VerificationError
from packager.cluster import shell as module
from packager.cluster.shell import ScriptError
from tests.local_pod import LocalPod, local_pod


@pytest.fixture(scope="module")
def pod() -> Iterator[LocalPod]:
    with local_pod() as pod:
        yield pod


def test_failed_script_raises_its_code_and_message(pod: LocalPod) -> None:
    with pytest.raises(ScriptError) as failed:
        pod.shell().ask("echo some >&2; echo words >&2; return 5\n")
    assert (failed.value.code, str(failed.value)) == (5, "some words")


def test_missing_program_is_reported_with_a_hint(pod: LocalPod) -> None:
    with pytest.raises(ClusterError) as failed:
        pod.shell().ask("echo 'find: not found' >&2; return 127\n")
    assert (str(failed.value), failed.value.hint) == (
        "the image has no find, which is needed for this",
        "use an image that has it; `mlpack workspace` takes another one by --image",
    )


def test_refused_command_raises_an_error_in_ask(pod: LocalPod) -> None:
    pod.cut("no")
    with pytest.raises(ClusterError, match=r"^no command can be run in pod/p: "):
        pod.shell().ask("echo\n")


def test_endless_answer_is_refused_beyond_1_mib(pod: LocalPod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 1 << 20)
    with pytest.raises(VerificationError, match=r"^p answers with more than 1 MiB$"):
        pod.shell().ask("yes\n")


def test_silent_pod_times_out_after_patience(pod: LocalPod) -> None:
    shell = replace(pod.shell(), patience=1)
    with pytest.raises(TimedOutError) as failed:
        shell.ask("read -r never\n")
    assert str(failed.value) == "nothing was sent to or received from pod/p for 1 s"


def test_error_of_the_input_iterator_is_passed_on(pod: LocalPod) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x"
        raise ClusterError("no more")

    with pytest.raises(ClusterError, match=r"^no more$"):
        pod.shell().ask("cat\n", given=chunks())
