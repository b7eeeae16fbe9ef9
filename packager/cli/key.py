"""`mlpack key new`: makes the keys that sign packages."""

from pathlib import Path
from typing import Annotated

import typer

from packager.base.errors import UsageError, missing_extra
from packager.cli.asking import ask_hidden, password_of
from packager.cli.commands import group
from packager.cli.console import Output, emit_output, say


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

    made = new_key(name, lambda: None if no_password else password_of(f"{name}.key", _ask_twice))
    emit_output(made.as_json(), [made.private, made.public], output)
    say(f"{made.kind} {made.key.fingerprint}")
    say(f"keep {made.private} secret{'' if made.is_encrypted else ': it is not encrypted'}; publish {made.public}")


def _ask_twice(question: str) -> str:
    first = ask_hidden(question)
    if first != ask_hidden("again"):
        raise UsageError("the two passwords differ; nothing was written")
    return first


GROUP = group("Make the keys that sign packages.", new=new)
