"""Asks the questions of `mlpack configure`, or takes the proposals with `--yes`. Tests: cli/test_configure.py."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeVar

from packager.base.errors import UnansweredError, UsageError, VerificationError
from packager.cli.asking import ask
from packager.cli.console import say
from packager.configure.configure import Answers
from packager.configure.proposals import parse_id, parse_registry, parse_root, proposal

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.package.opened import Package

T = TypeVar("T")

_TRIES = 5


def answers(package: Package, overlays: tuple[str, ...], *, yes: bool) -> Answers:
    """Return the user's answers; with `yes`, the proposed values."""
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UnansweredError(
            "nothing was changed: there is no terminal to ask on",
            hint="set the values with --root, --registry, --uid and --gid; -y accepts the proposed ones",
        )
    proposed = proposal(package, overlays, uid=os.getuid(), gid=os.getgid())
    if yes and proposed.problems:
        message = f"{package.source} contains invalid values; nothing was changed"
        raise VerificationError(message, problems=proposed.problems)
    if yes:
        return proposed.answers
    say(f"{package.name}. Press Enter to accept the value in brackets.")
    for problem in proposed.problems:
        say(str(problem))
    root, registry = _ask_until_valid(lambda: _ask_root_and_registry(proposed.answers))
    uid = _ask_until_valid(lambda: parse_id(ask("User id", str(proposed.answers.uid))))
    gid = _ask_until_valid(lambda: parse_id(ask("Group id", str(proposed.answers.gid))))
    group = gid if proposed.answers.fs_group == proposed.answers.gid else proposed.answers.fs_group
    fs_group = _ask_until_valid(lambda: parse_id(ask("Group id of its volumes", str(group))))
    return Answers(root=root, registry=registry, uid=uid, gid=gid, fs_group=fs_group)


def _ask_until_valid(question: Callable[[], T]) -> T:
    """Ask until the answer is valid, a limited number of times."""
    for _ in range(_TRIES):
        try:
            return question()
        except UsageError as error:
            say(str(error))
    raise UsageError(f"no valid answer in {_TRIES} attempts; nothing was changed")


def _ask_root_and_registry(proposed: Answers) -> tuple[str, str]:
    root = ask("Folder that contains the package, as the nodes see it", str(proposed.root))
    registry = ask("Registry that the image is pulled from", str(proposed.registry))
    return parse_root(root), parse_registry(registry)
