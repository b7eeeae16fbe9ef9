"""The machine that a command runs on, which tests replace: programs, time and user. Tests: cli/test_doctor.py."""

import getpass
import os
from dataclasses import dataclass, field

from packager.base.process import SYSTEM, Runner
from packager.cli.commands import context


def _current_user() -> str:
    """Return user@machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a uid without a name
        user = "unknown"
    return f"{user}@{os.uname().nodename or 'unknown'}"


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that a command runs on, and its user."""

    runner: Runner = SYSTEM  # starts programs, reads the clock and waits
    person: str = field(default_factory=_current_user)  # the user as user@machine, recorded on deployed objects


def host() -> Host:
    """Return the host that was passed to `main`, or this machine."""
    found = context().obj
    return found if isinstance(found, Host) else Host()
