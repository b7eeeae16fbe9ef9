"""The `mlpack` command: one module a verb. Only here is anything composed, printed, or given an exit code.

Verbs import the stages they need when they run, so that `--help` and completion stay quick.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import typer
from typer._completion_classes import completion_init

from packager.cli.console import complain, speak_utf8
from packager.cli.verbs import Verbs
from packager.errors import MlpackError

if TYPE_CHECKING:
    from types import FrameType

app = typer.Typer(
    name="mlpack",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def mlpack() -> None:
    """One model spec in, one Kustomize package out: hand a machine-learning workload to any Kubernetes cluster."""


class _Stopped(BaseException):
    """A signal asked the process to stop; not an Exception, so that nothing on the way takes it for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> NoReturn:
    """Run the command line, and end the process with one of the exit codes of `packager.errors`."""
    # Python looks for garbage at every 700 new objects: a tenth of the time of a short run that makes hardly any.
    gc.set_threshold(20_000)
    speak_utf8()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    if "_MLPACK_COMPLETE" in os.environ:
        completion_init()  # typer does so only together with its own --install-completion
    try:
        app(prog_name="mlpack")
    except MlpackError as error:
        complain(error)
        sys.exit(error.exit_code)
    except _Stopped as stopped:
        typer.echo(f"mlpack: stopped by {signal.Signals(stopped.number).name}", err=True)
        sys.exit(128 + stopped.number)
    sys.exit(0)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    # A second signal must not interrupt the cleaning up after the first.
    signal.signal(number, signal.SIG_IGN)
    raise _Stopped(number)
