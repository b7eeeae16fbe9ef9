"""`mlpack key new`: makes the keys that sign packages."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from packager.base.errors import UsageError, missing_extra
from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.asking import ask_hidden
from packager.cli.console import emit_data, emit_output, say
from packager.cli.signature_arguments import PASSWORD, password_of


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    group = typer.Typer(help="Make the keys that sign packages.", no_args_is_help=True)
    group.command()(new)
    group.callback()(lambda: None)
    app.add_typer(group, name="key")


def new(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The path of both files, without .key and .pub.")],
    no_password: Annotated[
        bool,
        typer.Option("--no-password", help="Leave the private key unencrypted: anyone who can read it can sign."),
    ] = False,
    output: Output = None,
) -> None:
    """Write a new key pair: NAME.key, which signs, and NAME.pub, which others check signatures with.

    The password of NAME.key is asked for, or read from MLPACK_KEY_PASSWORD. Existing files are never replaced.
    """
    try:
        from packager.publish.keys import new_key
    except ModuleNotFoundError as error:
        raise missing_extra("a key pair", error, "sign") from None

    made = new_key(name, lambda: None if no_password else _new_password(name))
    if output is not None:
        emit_output(made.as_json(), [str(made.private), str(made.public)], output)
    else:
        emit_data(f"{made.private}\n{made.public}")
    say(f"{made.kind} {made.key.fingerprint}")
    say(f"keep {made.private} secret{'' if made.is_encrypted else ': it is not encrypted'}; publish {made.public}")


def _new_password(name: Path) -> bytes:
    """Return the password for a new key. Raises UsageError, or UnansweredError without a terminal."""

    def asked(question: str) -> str:
        first = ask_hidden(question, hint=f"set {PASSWORD}")
        if first != ask_hidden("again", hint=f"set {PASSWORD}"):
            raise UsageError("the two passwords differ; nothing was written")
        return first

    return password_of(f"{name}.key", asked)
