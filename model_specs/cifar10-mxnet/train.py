#!/usr/bin/env python3
"""Train a small ResNet (He et al., 2015: 20 layers) on CIFAR-10: on one process, or with MXNet's parameter server.

The same program is started as scheduler, as server and as worker. `import mxnet` does the work of the first two, and
does not return in them: only a worker trains. The last line of a worker's output is JSON.

It reads its settings from mlops.env: EPOCHS, BATCHES, BATCH_SIZE, LEARNING_RATE, LOG_EVERY, SEED, DATASET_DIR,
OUTPUT_DIR.
"""

from __future__ import annotations

import os
import sys
import traceback

from checkpoint import CheckpointError
from stopping import Stop


def main() -> None:
    """Run the program; exit with 0 when done, 1 when refused or failed, 143 when stopped by SIGTERM.

    What fails ends the process where the error is handled: as soon as nothing refers to it any more, nor to the store,
    MXNet would wait for the other workers.
    """
    stop = Stop()  # before MXNet is imported, which in a scheduler or a server is the whole run
    from training import SettingsError, train  # noqa: PLC0415

    try:
        train(stop)
    except (SettingsError, CheckpointError) as error:
        sys.stderr.write(f"ERROR: {error}\n")
        leave(1)
    except SystemExit as exit_:
        leave(exit_.code if isinstance(exit_.code, int) else 1)
    except Exception:  # noqa: BLE001 - whatever it is, the others have to hear of it
        traceback.print_exc()
        leave(1)
    leave(0)


def leave(code: int) -> None:
    """End the process, at once where it is not done: MXNet would wait for the other workers, and they for this one."""
    if code == 0:
        sys.exit()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
