"""Does independent pieces of work in several processes, and gives their results in the order of the pieces.

The processes are copies of this one (fork): what it has imported and read is there already. There is no second process
where a copy is not safe: where this one has several threads, or the system is not Linux.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from packager.base import signals, systemcalls
from packager.base.errors import ToolError
from packager.base.workfolder import signals_blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future
    from types import FrameType

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST = 8
"""The most processes: each takes about 20 MiB of memory of its own."""

_AHEAD = 8
"""The pieces that each process may be ahead of the one whose result is awaited, so that few results are kept."""

_ENDS_WITHIN = 5.0
"""For how many seconds a process may clean up before it is told to end once more."""

_SIGNALS_WAIT = 0.1
"""For how many seconds a signal waits at most, while a result is awaited."""


def usable(most: int = _MOST) -> int:
    """Return the number of processes that can work side by side: at most `most`; 1 if copies are not safe."""
    if not hasattr(os, "sched_getaffinity"):  # Linux alone has it; elsewhere system libraries do not expect a fork
        return 1
    try:
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 1
    return max(1, min(most, _MOST, len(os.sched_getaffinity(0)))) if threads == 1 else 1


@contextmanager
def started(work: Callable[[Item], Result], processes: int) -> Iterator[Callable[[Iterable[Item]], Iterator[Result]]]:
    """Start processes, and give a function that returns the results of pieces; they end when the block ends.

    The function takes a few pieces ahead. What `work` raised is raised in place of its result, and a ToolError when a
    process was killed. If the system allows no more processes, this one does the work.

    Args:
        work: Returns the result of a piece.
        processes: The number of processes.
    """
    executor = None
    try:
        with signals_blocked():
            executor = _start(work, processes)
        if executor is None:
            yield partial(map, work)
        else:
            yield partial(_results, executor, processes * _AHEAD)
    finally:
        with signals_blocked():
            _end(executor)


def _start(work: Callable[[Any], object], processes: int) -> ProcessPoolExecutor | None:
    """Start all processes, while this one has no other thread; None if the system allows no more processes."""
    # The objects that exist now stay: no process needs to look through them for garbage, and to copy their pages.
    gc.freeze()
    context, arguments = multiprocessing.get_context("fork"), (work, os.getpid(), systemcalls.end_with_parent())
    try:
        executor = ProcessPoolExecutor(processes, context, _begin, arguments)
        executor.submit(os.getpid)  # at the first piece, it starts all processes, and then a thread
    except (OSError, NotImplementedError):  # the second one where there are no semaphores
        return None
    return executor


def _end(executor: ProcessPoolExecutor | None) -> None:
    """End the processes, which clean up, and wait for them."""
    processes = multiprocessing.active_children()
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_ENDS_WITHIN)
        while process.exitcode is None:  # a handler of the signal may have ended in code that ignores what it raised
            process.terminate()
            process.join(_ENDS_WITHIN)
    if executor is not None:
        # A process that ended amid a long result leaves a part of it, and the executor's thread waits for the rest.
        # Only this process still has the other end of the pipe: once it is closed, the thread sees the end of the file.
        executor._result_queue._writer.close()  # type: ignore[attr-defined] # noqa: SLF001 - there is no other way
        executor.shutdown()


def _results(executor: ProcessPoolExecutor, most: int, items: Iterable[Item]) -> Iterator[Any]:
    """Yield the results in order; at most `most` are awaited or kept."""
    left = iter(items)
    awaited: deque[Future[Any]] = deque()
    while True:
        # A handler of a signal that raises amid the executor's own code would leave its locks locked.
        with signals_blocked():
            try:
                awaited.extend(executor.submit(_do, item) for item in islice(left, most - len(awaited)))
                ended, _ = wait(islice(awaited, 1), _SIGNALS_WAIT)
                results = [awaited.popleft().result() for _ in ended]
            except BrokenProcessPool:
                raise ToolError(
                    "one of the processes of this run was killed",
                    hint="is there too little memory? `taskset -c 0 mlpack ...` makes do with one process",
                ) from None
        yield from results
        if not awaited and not results:
            return


class _Process:
    """The work of one of the processes."""

    work: Callable[[Any], object]


def _begin(work: Callable[[Any], object], parent: int, end_with_parent: Callable[[int], object]) -> None:
    """Prepare one of the processes. Signals are blocked until it is."""
    _Process.work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for all of them, and the first one ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def _do(item: Any) -> Any:
    """Work on a piece. If the process is to end, the work cleans up first."""
    try:
        signal.signal(signal.SIGTERM, _stop)
        try:
            return _Process.work(item)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except _StoppedError:
        os._exit(0)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        except Exception:  # noqa: BLE001 - whatever the error's own methods raise
            raise RuntimeError(str(error)) from error  # which the first process can be given
        raise


class _StoppedError(BaseException):
    """A process is to end; not an Exception, so that no handler on the way catches it."""


def _stop(number: int, _frame: FrameType | None) -> None:
    if signals.is_blocked:
        signals.postpone(lambda: _stop(number, None))
        return
    signal.signal(number, signal.SIG_IGN)
    raise _StoppedError
