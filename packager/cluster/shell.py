"""Runs shell scripts with binary input and output in a container; a mark after the output shows that it is complete."""

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from packager.base.errors import ClusterError, MlpackError, TimedOutError, UnreachableError, VerificationError
from packager.base.process import Running  # noqa: TC001 - a block for one type would be longer
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.messages import FORBIDDEN
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.objects import is_being_deleted, status
from packager.kubernetes.pods import failure

MAX_ANSWER = 64 << 20
"""The largest output of a script in bytes: the names and digests of half a million files."""

_CHUNK = 1 << 16

_MISSING = re.compile(r'exec: "(\S+)": executable file not found|(?:^|\W)([a-z0-9]+): (?:command )?not found')

_FULL = re.compile(r"No space left|quota exceeded", re.IGNORECASE)
_DENIED = re.compile(r"[Pp]ermission denied")

# When a program in a container ends, unread output may be lost, and kubectl still ends with 0
# (kubernetes/kubernetes#60140). So the script waits until the mark, which follows its output, has arrived.
_FRAME = """LC_ALL=C; export LC_ALL; mark=$1; shift
run() {
%s
}
run "$@"; code=$?; printf '%%s %%s\\n' "$mark" "$code"; read -r released; exit "$code"
"""


class BrokenOffError(Exception):
    """The connection ended before the script did; changes that it has made so far stay."""

    def __init__(self, reason: MlpackError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class ScriptError(ClusterError):
    """A script has ended with a code other than 0."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code
        # whether a program of the script has found no space, or has used up its quota
        self.is_full = _FULL.search(words) is not None
        self.is_denied = _DENIED.search(words) is not None  # whether a program of the script lacks a permission


@dataclass(frozen=True, slots=True)
class ContainerShell:
    """The shell of a running container."""

    kubectl: Kubectl  # the user's kubectl
    pod: str  # the pod
    container: str  # the container
    patience: float  # seconds without data in either direction after which a script is given up; 0 for never

    def ask(self, script: str, *arguments: str, given: Iterable[bytes] = (), longer: float = 0) -> bytes:
        """Run a script, and return its stdout; see `run` for the arguments and errors."""
        answer = bytearray()
        with self.run(script, *arguments, given=given, longer=longer) as output:
            while chunk := output.read(_CHUNK):
                answer += chunk
        return bytes(answer)

    @contextmanager
    def run(
        self, script: str, *arguments: str, given: Iterable[bytes] = (), longer: float = 0, room: int | None = None
    ) -> "Iterator[Marked]":
        """Run a script, and give its stdout, the rest of which is skipped at the end of the block.

        Args:
            script: The body of a shell function.
            arguments: The arguments of the function.
            given: The stdin of the script, which must find the end of its input by itself.
            longer: Seconds that are added to `patience`.
            room: The bytes that the disk has for the stdout; None for an answer of at most MAX_ANSWER.

        Raises:
            ScriptError: The script ended with a code other than 0.
            BrokenOffError: The connection ended before the script.
        """
        mark = secrets.token_hex(16)
        words = ["sh", "-c", _FRAME % script, "sh", mark, *arguments]
        command = ["exec", "--stdin", self.pod, f"--container={self.container}", "--", *words]
        clock = _Clock(self.pod, self.patience and self.patience + longer)
        too_much = "the pod sends more than the disk can hold"
        if room is None:
            room, too_much = MAX_ANSWER, f"{self.pod} answers with more than {MAX_ANSWER >> 20} MiB"
        invalid: VerificationError | None = None
        with self.kubectl.start(*command, idle=clock.idle, keep_stdin_open=True) as running:
            clock.running = running
            running.feed(given)
            output = Marked(running.stdout, mark, room, too_much)
            try:
                yield output
            except VerificationError as error:
                invalid = error  # a broken connection may be the cause
            while output.read(_CHUNK):
                pass
            running.require_fed()
            if output.code == 0:
                running.release()
                done = running.wait()
            elif output.code is None:  # the script may still read its input: a line feed would become part of a file
                running.close_input()
                done = running.wait()
            else:  # the script has stopped reading, and kubectl may wait forever to pass on the rest of its input
                done = running.give_up()
        if output.code != 0:
            raise self._error(output.code, done.stderr)
        if invalid:
            raise invalid

    def _error(self, code: int | None, stderr: str) -> Exception:
        lines = [line for line in stderr.split("\n") if not line.startswith("command terminated with exit code")]
        words = " ".join(" ".join(lines).split())[:1000]
        if missing := _MISSING.search(words):
            program = missing[1] or missing[2]
            hint = "use an image that has it; `mlpack workspace` takes another one by --image"
            return ClusterError(f"the image has no {program}, which is needed for this", hint=hint)
        if code is not None:
            return ScriptError(code, words)
        error = error_from(stderr)
        if not isinstance(error, UnreachableError) and (error.hint or FORBIDDEN.search(words)):
            return ClusterError(f"no command can be run in pod/{self.pod}: {error}", hint=error.hint)
        why = pod_end(self.kubectl, self.pod) or words.removeprefix("error: ") or "the connection ended"
        return BrokenOffError(ClusterError(why))


class Marked:
    """A stream that ends with a mark and an exit code; the code is None until they have arrived."""

    def __init__(self, stream: IO[bytes], mark: str, room: int = MAX_ANSWER, too_much: str = "it is too much") -> None:
        self.code: int | None = None
        self._stream = stream
        self._end = re.compile(rb"%b (\d{1,3})\n\Z" % mark.encode())
        self._longest = len(mark) + len(" 255\n")
        self._buffer = bytearray()
        self._is_open = True
        self._room = room
        self._too_much = too_much

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end. Raises VerificationError if there is no room for more."""
        while self._is_open and len(self._buffer) <= self._longest:
            chunk = self._stream.read1(_CHUNK)  # type: ignore[attr-defined]
            self._room -= len(chunk)
            if self._room < 0:
                raise VerificationError(self._too_much)
            self._buffer += chunk
            self._is_open = bool(chunk)
            if end := self._end.search(self._buffer, max(0, len(self._buffer) - self._longest)):
                self.code, self._is_open = int(end[1]), False
                del self._buffer[end.start() :]
        size = min(size, len(self._buffer) - (self._longest if self._is_open else 0))
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data


class _Clock:
    """Ends a script when neither side has sent data for `patience` seconds."""

    def __init__(self, pod: str, patience: float) -> None:
        self.running: Running | None = None
        self._pod, self._patience = pod, patience
        self._fed = 0
        self._since = 0.0

    def idle(self, seconds: float) -> None:
        fed = self.running.fed if self.running else 0
        if fed != self._fed or seconds < self._since:
            self._fed, self._since = fed, seconds
        quiet = seconds - self._since
        if self._patience and quiet >= self._patience:
            message = f"nothing was sent to or received from pod/{self._pod} for {quiet:g} s"
            raise TimedOutError(message, hint="kubectl get nodes")


def pod_end(kubectl: Kubectl, pod_name: str) -> str | None:
    """Return the state of a pod in a sentence if it explains why no data arrives; None if it does not."""
    try:
        pod = kubectl.get(f"pods/{pod_name}")
    except MlpackError:
        return None
    if pod is None:
        return f"pod/{pod_name} was deleted"
    if finding := failure(pod):
        return str(finding)
    if is_being_deleted(pod):
        return f"pod/{pod_name} is being deleted"
    if status(pod).get("phase") == "Succeeded":
        return f"pod/{pod_name} has ended"
    return None
