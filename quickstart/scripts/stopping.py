"""SIGTERM: what the kubelet sends to a pod that has to go."""

from __future__ import annotations

import os
import signal
import threading
import time

EXIT_STATUS = 128 + signal.SIGTERM

_GRACE_SECONDS = 20  # Kubernetes kills after 30 s; a step and a checkpoint of 200 MB fit well into this


class Stop:
    """Waits for SIGTERM in a thread of its own, and then ends the process: at once, or after a checkpoint.

    A handler alone would not do: Python runs it in the main thread, between two bytecodes, and never while that
    thread waits in MPI for a rank that is gone. Writing to the wake-up pipe needs no bytecode. And no handler would
    not do either: the kernel spares a container's first process the default action.
    """

    def __init__(self) -> None:
        self.requested = False
        self.deferred = False  # set by who looks at `requested` and has something to save
        reader, writer = os.pipe()
        os.set_blocking(writer, False)  # set_wakeup_fd insists
        signal.set_wakeup_fd(writer)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.siginterrupt(signal.SIGTERM, False)  # TensorFlow's and MPI's system calls go on
        threading.Thread(target=self._wait, args=(reader,), daemon=True).start()

    def _wait(self, reader: int) -> None:
        while os.read(reader, 1) != bytes([signal.SIGTERM]):
            pass  # Ctrl-C passes here too, on its way to KeyboardInterrupt
        self.requested = True
        if self.deferred:
            time.sleep(_GRACE_SECONDS)
        os._exit(EXIT_STATUS)
