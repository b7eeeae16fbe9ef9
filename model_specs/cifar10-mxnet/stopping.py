"""SIGTERM: what the kubelet sends to a pod that has to go."""

from __future__ import annotations

import os
import signal
import threading

EXIT_STATUS = 128 + signal.SIGTERM

_GRACE_SECONDS = 20  # Kubernetes kills after 30 s; a round and a checkpoint fit well into this


class Stop:
    """Waits for SIGTERM in a thread of its own, and then ends the process: at once, or after a checkpoint.

    A handler alone would not do: Python runs it in the main thread, and never while that thread waits in a library for
    another process. Python's wake-up pipe is written to at once, whichever thread the kernel interrupts.

    Attributes:
        requested: Whether SIGTERM has come.
        deferred: Whether the program looks at `requested`, because it has something to save.
    """

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.deferred = False
        reader, writer = os.pipe()
        os.set_blocking(writer, False)  # set_wakeup_fd insists
        signal.set_wakeup_fd(writer)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.siginterrupt(signal.SIGTERM, False)  # system calls of libraries go on
        threading.Thread(target=self._wait, args=(reader,), daemon=True).start()

    def _wait(self, reader: int) -> None:
        while os.read(reader, 1) != bytes([signal.SIGTERM]):
            pass  # Ctrl-C passes here too, on its way to KeyboardInterrupt
        self.requested.set()
        if self.deferred:
            threading.Event().wait(_GRACE_SECONDS)
        os._exit(EXIT_STATUS)
