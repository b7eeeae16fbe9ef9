"""Every error that mlpack raises on purpose, each with the exit code that the command ends with.

    MlpackError            1  a bug, or the user said no
    ├── UsageError         2  the command line asks for something that cannot be
    ├── SpecError          3  a model spec is not valid
    ├── RenderError        4  a template, or the user's kubectl, could not render
    ├── VerificationError  5  a package is not what it should be
    ├── ToolError          6  a tool or a file of the machine is missing or failed
    ├── ClusterError       7  the cluster said no, or the job failed
    │   └── UnreachableError  7  the cluster did not answer
    └── TimedOutError      8  it took longer than the user wanted to wait

A closed pipe or Ctrl-C is not an error of ours; `packager.cli` maps these to 141 and 130, as shells do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.problems import Problem


class MlpackError(Exception):
    """One clear sentence for a person, and, where it can be known, what mends it.

    Args:
        message: What is wrong.
        hint: What to do about it.
        problems: The findings behind the message, each with its place; printed before it.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.hint = hint
        self.problems = tuple(problems)


class UsageError(MlpackError):
    """The command line asks for something that cannot be."""

    exit_code = 2


class SpecError(MlpackError):
    """A model spec is not valid."""

    exit_code = 3


class RenderError(MlpackError):
    """A template, or the user's kubectl, could not render."""

    exit_code = 4


class VerificationError(MlpackError):
    """A package is not what it should be."""

    exit_code = 5


class ToolError(MlpackError):
    """A tool or a file of the machine is missing or failed."""

    exit_code = 6


class ClusterError(MlpackError):
    """The cluster said no, or the job failed."""

    exit_code = 7


class UnreachableError(ClusterError):
    """The cluster did not answer."""


class TimedOutError(MlpackError):
    """It took longer than the user wanted to wait."""

    exit_code = 8


def unreadable(shown: object, error: OSError) -> ToolError:
    """Return the error that something cannot be read: `shown` is what the user calls it."""
    return ToolError(f"{shown} cannot be read: {reason(error)}")


def reason(error: OSError) -> str:
    """Return what the system had against it, to end a sentence of ours: `permission denied`."""
    return (error.strerror or str(error)).lower()
