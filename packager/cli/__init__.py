"""The `mlpack` command, one module per verb; only this folder prints and sets exit codes.

A verb's module is imported when the verb runs, so that `mlpack --help` stays quick.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer
from typer import completion as typer_completion

from packager import __version__
from packager.base import signals
from packager.base.errors import MlpackError, ToolError, UsageError, reason
from packager.cli import console
from packager.cli.verbs import Verbs

if TYPE_CHECKING:
    from packager.cli.host import Host

app = typer.Typer(
    name="mlpack",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        console.emit(f"mlpack {__version__}")
        raise typer.Exit


@app.callback()
def mlpack(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version of mlpack.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Build a Kustomize package from a model spec, and run the workload on any Kubernetes cluster."""


_STOPPING = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask the process to stop."""


class _Stopped(BaseException):
    """A signal asked the process to stop; not an Exception, so that no handler on the way catches it."""


def main(arguments: Sequence[str] | None = None, *, host: "Host | None" = None) -> NoReturn:
    """Run the command line, and end the process with one of the exit codes of `packager.base.errors`.

    Args:
        arguments: The arguments after the command's name; None for those of this process.
        host: The machine that the command runs on; None for this machine.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    console.begin()
    for number in _STOPPING:
        signal.signal(number, _stop)
    if "_MLPACK_COMPLETE" in os.environ:
        # typer does so only together with its own --install-completion
        cast("Any", typer_completion).completion_init()
    try:
        sys.exit(_run(arguments, host))
    except _Stopped as stopped:
        (number,) = stopped.args
        console.say(f"mlpack: stopped by {signal.Signals(number).name}")
        sys.exit(128 + number)


def _run(arguments: Sequence[str], host: "Host | None") -> int:
    """Run the command line, print an error if there is one, and return the exit code."""
    try:
        code = app([*arguments], prog_name="mlpack", standalone_mode=False, obj=host)
    except MlpackError as raised:
        error = raised
    except typer.Abort:
        error = MlpackError("nothing was done: the input ended before an answer")
    except typer.TyperException as raised:
        context: typer.Context | None = getattr(raised, "ctx", None)
        if context is not None and raised.message == context.get_help():  # there were no arguments
            console.say(*raised.message.removesuffix("\n").split("\n"))
            return UsageError.exit_code
        message = " ".join(raised.format_message().split()).removesuffix(".")  # it may quote untrusted arguments
        hint = f"{context.command_path} --help" if context else None
        error = UsageError(message[:1].lower() + message[1:], hint=hint)
    except OSError as raised:  # that no stage has handled, such as a full disk while typer prints its help
        console.drop(sys.stdout)
        if isinstance(raised, BrokenPipeError):
            return console.BROKEN_PIPE_EXIT_CODE
        place = f": {raised.filename}" if raised.filename else ""
        error = ToolError(f"the system call failed: {reason(raised)}{place}")
    else:
        return code if isinstance(code, int) else 0
    console.print_error(error)
    if console.wants_json(arguments):
        with suppress(MlpackError, typer.Exit):  # the error may be about stdout itself
            console.emit_error_json(error)
    return error.exit_code


def _stop(number: int, _frame: FrameType | None) -> None:
    if signals.is_blocked:
        signals.postpone(lambda: _stop(number, None))
        return
    # A second signal must not interrupt the cleanup after the first one. Both signals keep a handler: Python prints an
    # error if the handler of a pending signal is removed.
    for later in _STOPPING:
        signal.signal(later, signal.SIG_IGN if later == number else lambda *_: None)
    raise _Stopped(number)
