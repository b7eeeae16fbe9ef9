"""Does independent pieces of work in several processes, and gives their results in the order of the pieces.

The processes are copies of this one (fork): what it has imported and read is there already. They take the pieces from
one queue. A piece may have one thing decided here, in the order of the pieces: which of two makes the same output.

There is no second process where a copy is not safe: where this one has several threads, or the system is not Linux.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import selectors
import signal
import struct
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from packager.base import signals, systemcalls
from packager.base.errors import ToolError
from packager.base.values import Value
from packager.base.workfolder import signals_blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

Item = TypeVar("Item")
Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")

_MOST = 8
"""The most processes: each takes about 20 MiB of memory of its own."""

_AHEAD = 8
"""The pieces that each process may be ahead of the one whose result is awaited, so that few results are kept."""

_TICKET = struct.Struct("!I")
_LENGTH = struct.Struct("!Q")

_QUESTION, _RESULT, _FAILURE = range(3)


def usable(most: int = _MOST) -> int:
    """Return how many processes can work side by side: at most `most`, and 1 where a copy of this one is not safe."""
    if not hasattr(os, "sched_getaffinity"):  # Linux alone has it; elsewhere system libraries do not expect a fork
        return 1
    try:
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 1
    return max(1, min(most, _MOST, len(os.sched_getaffinity(0)))) if threads == 1 else 1


class Crew(Generic[Item, Question, Answer, Result]):
    """Processes that work on `items`, started when the block begins and ended when it ends.

    Args:
        items: The pieces of work.
        work: Returns the result of a piece. It is given a callable that puts a question and returns a callable that
            waits for the answer. It puts at most one.
        decide: Answers the question of a piece; called in this process, in the order of the pieces.
        processes: How many processes work.
    """

    def __init__(
        self,
        items: Sequence[Item],
        work: Callable[[Item, Callable[[Question], Callable[[], Answer]]], Result],
        decide: Callable[[Item, Question], Answer],
        processes: int,
    ) -> None:
        self._items = items
        self._work = work
        self._decide = decide
        self._processes = processes
        self._members: dict[int, _Member] = {}
        self._queue = -1
        self._questions: dict[int, tuple[_Member, Question] | None] = {}
        self._undecided = 0

    def __enter__(self) -> Self:
        # The objects that exist now stay: no process needs to look through them for garbage, and to copy their pages.
        gc.freeze()
        end_with_parent = systemcalls.end_with_parent()
        tickets, self._queue = os.pipe()
        with signals_blocked(), contextlib.suppress(OSError):  # fewer processes, where the system allows no more
            for _ in range(self._processes):
                self._start(tickets, end_with_parent)
        os.close(tickets)
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._queue)
        for member in self._members.values():
            os.close(member.messages)
            os.close(member.answers)
            os.kill(member.process, signal.SIGTERM)
        for member in self._members.values():
            os.waitpid(member.process, 0)

    def results(self) -> Iterator[Result]:
        """Yield the results, in order. To be called once.

        Raises:
            ToolError: A process was killed.
            Exception: What `work` raised, in place of that result.
        """
        if not self._members:
            for item in self._items:
                yield self._work(item, partial(self._answer, item))
            return
        given = 0
        results: dict[int, tuple[int, Any]] = {}
        with selectors.DefaultSelector() as selector:
            for descriptor in self._members:
                selector.register(descriptor, selectors.EVENT_READ)
            for number in range(len(self._items)):
                while number not in results:
                    while given < min(len(self._items), number + len(self._members) * _AHEAD):
                        with contextlib.suppress(BrokenPipeError):  # all are dead, as their messages tell
                            os.write(self._queue, _TICKET.pack(given))
                        given += 1
                    for key, _ in selector.select():
                        self._handle(self._members[key.fd], results)
                kind, content = results.pop(number)
                if kind == _FAILURE:
                    raise content
                yield content

    def _answer(self, item: Item, question: Question) -> Callable[[], Answer]:
        answer = self._decide(item, question)
        return lambda: answer

    def _handle(self, member: _Member, results: dict[int, tuple[int, Any]]) -> None:
        """Handle one message of a process."""
        try:
            kind, number, content = _receive(member.messages)
        except EOFError:
            raise ToolError(
                "one of the processes of this run was killed",
                hint="is there too little memory? `taskset -c 0 mlpack ...` makes do with one process",
            ) from None
        if kind != _QUESTION:
            results[number] = kind, content
            if number >= self._undecided:
                self._questions.setdefault(number, None)
        else:
            self._questions[number] = member, content
        while self._undecided in self._questions:
            if question := self._questions.pop(self._undecided):
                asking, content = question
                with contextlib.suppress(BrokenPipeError):
                    _send(asking.answers, self._decide(self._items[self._undecided], content))
            self._undecided += 1

    def _start(self, tickets: int, end_with_parent: Callable[[int], object]) -> None:
        """Start one process. Signals are blocked, so that none is handled in between."""
        messages, messages_end = os.pipe()
        answers_end, answers = os.pipe()
        parent = os.getpid()
        process = os.fork()
        if process:
            os.close(messages_end)
            os.close(answers_end)
            self._members[messages] = _Member(process, messages, answers)
            return
        try:
            end_with_parent(signal.SIGTERM)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for all of them, and the first one ends the others
            signal.signal(signal.SIGTERM, _stop)
            for member in self._members.values():
                os.close(member.messages)
                os.close(member.answers)
            for descriptor in (self._queue, messages, answers):
                os.close(descriptor)
            if os.getppid() == parent:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
                self._serve(tickets, _Connection(messages_end, answers_end))
        finally:
            os._exit(0)  # nothing else that this process has begun is this copy's to end

    def _serve(self, tickets: int, connection: _Connection) -> None:
        """Work until no tickets are left, or until the other process has ended."""
        while ticket := os.read(tickets, _TICKET.size):
            (number,) = _TICKET.unpack(ticket)
            connection.number = number
            try:
                message: tuple[int, object] = _RESULT, self._work(self._items[number], connection.ask)
            except Exception as error:  # noqa: BLE001 - the other process raises it
                message = _FAILURE, _portable(error)
            connection.tell(*message)


class _Member(Value, frozen=True):
    """One of the processes, as the first one sees it: its id, and the pipes of its messages and their answers."""

    process: int
    messages: int
    answers: int


class _Connection:
    """The pipes of a process, as it sees them itself."""

    def __init__(self, messages: int, answers: int) -> None:
        self._messages = messages
        self._answers = answers
        self._answer: Any = None
        self._is_open = False
        self.number = 0

    def ask(self, question: object) -> Callable[[], Any]:
        """Put a question about the piece `number`, and return what waits for the answer, however often it is called."""
        _send(self._messages, (_QUESTION, self.number, question))
        self._is_open = True
        return self._wait

    def tell(self, kind: int, content: object) -> None:
        """Send the result of the piece, or what went wrong."""
        self._wait()  # an answer that was not waited for would be taken for the next one
        _send(self._messages, (kind, self.number, content))

    def _wait(self) -> Any:
        if self._is_open:
            self._answer = _receive(self._answers)
            self._is_open = False
        return self._answer


class _StoppedError(BaseException):
    """A process is to end; not an Exception, so that no handler on the way catches it."""


def _stop(number: int, _frame: FrameType | None) -> None:
    if signals.is_blocked:
        signals.postpone(lambda: _stop(number, None))
        return
    signal.signal(number, signal.SIG_IGN)
    raise _StoppedError


def _portable(error: Exception) -> Exception:
    """Return an error as another process can raise it, with the traceback as a note."""
    trace = "".join(traceback.format_exception(error))
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever the error's own methods raise
        copy = RuntimeError(str(error))
    copy.add_note(f"In another process:\n{trace}")
    return cast("Exception", copy)


def _send(descriptor: int, message: object) -> None:
    content = pickle.dumps(message)
    _write(descriptor, _LENGTH.pack(len(content)) + content)


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _receive(descriptor: int) -> Any:
    """Return the next message. Raises EOFError when there are no more."""
    (length,) = _LENGTH.unpack(_read(descriptor, _LENGTH.size))
    return pickle.loads(_read(descriptor, length))  # noqa: S301 - our own bytes


def _read(descriptor: int, length: int) -> bytes:
    content = b""
    while len(content) < length:
        piece = os.read(descriptor, length - len(content))
        if not piece:
            raise EOFError
        content += piece
    return content
