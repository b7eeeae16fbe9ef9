"""Options of the verbs that sign packages or check their signatures. Tests: cli/test_key.py."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import UnansweredError, UsageError
from packager.cli.arguments import site_path
from packager.cli.asking import ask_hidden, has_terminal
from packager.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.publish.signatures import Trust

PASSWORD = "MLPACK_KEY_PASSWORD"  # noqa: S105 - the name of the variable

_KEYS = "MLPACK_KEYS"
_FOLDER = "keys"


@dataclass(frozen=True, slots=True)
class SignatureOptions:
    """The options that name trusted keys."""

    key: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Require a signature by this public key. Repeatable: one of them suffices.",
        ),
    ] = None
    require_signature: Annotated[
        bool,
        typer.Option(
            "--require-signature",
            help="Require a signature by a key of MLPACK_KEYS or ~/.config/mlpack/keys/*.pub.",
        ),
    ] = False

    def trust(self) -> Trust:
        """Return the trusted keys."""
        from packager.publish.signatures import trust

        usual = [Path(path) for path in os.environ.get(_KEYS, "").split(os.pathsep) if path]
        folder = site_path().with_name(_FOLDER)
        usual += [folder] if folder.is_dir() else []
        return trust(self.key or [], usual, is_required=self.require_signature)

    def refuse(self, source: str) -> None:
        """Refuse to require a signature of something that cannot have one. Raises UsageError."""
        if self.key or self.require_signature:
            raise UsageError(f"--key, --require-signature: {source} has no signature")


with_signatures = with_options("signatures", SignatureOptions)
"""Gives a verb the options that name trusted keys: they are passed together, as `signatures`."""


def password_of(file: object, ask: Callable[[str], str] | None = None) -> bytes:
    """Return the password of a private key: that of MLPACK_KEY_PASSWORD, or the user's answer.

    Args:
        file: The file of the key, for the question.
        ask: Asks the question; None asks once.
    """
    password = os.environ.get(PASSWORD)
    if password is None:
        if not has_terminal():
            message = f"{file} needs a password, and there is no terminal to ask on"
            raise UnansweredError(message, hint=f"set {PASSWORD}")
        password = (ask or _asked)(f"password of {file}")
    return password.encode()


def _asked(question: str) -> str:
    return ask_hidden(question, hint=f"set {PASSWORD}")
