"""Defines every error that mlpack raises on purpose, with the exit code of the command.

    MlpackError            1  a bug, or the user said no
    ├── UsageError         2  the command line asks for something that cannot be
    ├── SpecError          3  a model spec is not valid
    ├── RenderError        4  a template, or the user's kubectl, could not render
    ├── VerificationError  5  a package is invalid
    ├── ToolError          6  a tool or a file of the machine is missing or failed
    │   ├── HungError      6  a program did not end in time
    │   └── EndedError     6  a program has ended without an answer
    ├── ClusterError       7  the cluster said no, or the job failed
    │   ├── DeniedError            7  the user lacks a permission
    │   ├── MissingNamespaceError  7  the namespace does not exist
    │   ├── NotServedError         7  the cluster does not serve this kind of object
    │   └── NotEvaluatedError      7  the cluster has not evaluated the request
    │       ├── KubeletError       7  the kubelet of a pod's node does not answer
    │       └── UnreachableError   7  the cluster did not answer
    ├── TimedOutError      8  it took longer than the user wanted to wait
    └── UnansweredError    9  a person has to decide: there is no terminal, or an upgrade has conflicts

A closed pipe or Ctrl-C is not an error of ours; `packager.cli` maps these to 141 and 130, as shells do.

Tests: cli/test_cli.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.masking import shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.base.problems import Problem


class MlpackError(Exception):
    """One clear sentence for a person and, if known, the fix; `problems` are printed before it."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, problems: Sequence[Problem] = ()) -> None:
        super().__init__(shortened(message))
        self.hint = hint and shortened(hint)
        self.problems = tuple(problems)

    def as_json(self) -> dict[str, Any]:
        """Return the error for `-o json`."""
        return {
            "message": str(self),
            "hint": self.hint,
            "exit_code": self.exit_code,
            "problems": [problem.as_json() for problem in self.problems],
        }


class UsageError(MlpackError):
    """The arguments of a command are invalid."""

    exit_code = 2


class SpecError(MlpackError):
    """A model spec is not valid."""

    exit_code = 3


class RenderError(MlpackError):
    """A template, or the user's kubectl, could not render."""

    exit_code = 4


class VerificationError(MlpackError):
    """A package is invalid."""

    exit_code = 5


class ToolError(MlpackError):
    """A tool or a file of the machine is missing or failed."""

    exit_code = 6


class HungError(ToolError):
    """A program did not end in time."""


class EndedError(ToolError):
    """A program has ended without an answer."""

    def __init__(self, message: str, signal: str | None = None) -> None:
        super().__init__(message)
        self.signal = signal  # the signal that has killed it, such as `SIGKILL`; None if it has ended by itself


class ClusterError(MlpackError):
    """The cluster refused a request, or the job failed."""

    exit_code = 7


class DeniedError(ClusterError):
    """The user lacks a permission: `verb` on `resource`, with its group (or a path), perhaps in all namespaces.

    Refusals of admission, which are also called "forbidden", are not meant.
    """

    def __init__(
        self, message: str, *, verb: str, resource: str, is_cluster_wide: bool, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.verb, self.resource, self.is_cluster_wide = verb, resource, is_cluster_wide


class MissingNamespaceError(ClusterError):
    """The namespace does not exist."""


class NotEvaluatedError(ClusterError):
    """The cluster has not evaluated the request, so it says nothing about its objects."""


class KubeletError(NotEvaluatedError):
    """The kubelet of a pod's node does not answer."""


class UnreachableError(NotEvaluatedError):
    """The cluster did not answer; `why` is the reason alone, for another sentence."""

    def __init__(self, message: str, *, hint: str | None = None, why: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.why = why or message


class NotServedError(ClusterError):
    """The cluster does not serve this kind of object."""

    def __init__(self, resource: str, *, hint: str | None = None) -> None:
        super().__init__(f"the cluster does not serve {resource}: its operator is not installed", hint=hint)
        self.resource = resource


class TimedOutError(MlpackError):
    """A command took longer than the user wanted to wait."""

    exit_code = 8


class UnansweredError(MlpackError):
    """A person has to decide: there is no terminal to ask on, or conflicts of an upgrade are undecided."""

    exit_code = 9


def show_paths(error: MlpackError, shown: Mapping[str, str]) -> None:
    """Replace paths in an error, such as those of temporary files, by the names that the user knows, in this order."""

    def renamed(text: str) -> str:
        for path, name in shown.items():
            text = text.replace(path, name)
        return text

    error.args = tuple(renamed(str(part)) for part in error.args)
    error.hint = error.hint and renamed(error.hint)
    error.problems = tuple(problem.with_texts(renamed) for problem in error.problems)


def unreadable(shown: object, error: OSError) -> ToolError:
    """Return the error that a file cannot be read; `shown` is its name for the user."""
    return ToolError(f"{shown} cannot be read: {reason(error)}")


def missing_extra(subject: str, error: ModuleNotFoundError, *extras: str) -> ToolError:
    """Return the error that `subject` needs a Python package which only optional `extras` of mlpack bring."""
    names = " and ".join(f"'{extra}'" for extra in extras)
    return ToolError(
        f"{subject} needs the Python package {error.name}, which is not installed",
        hint=f"install mlpack with {'its extra' if len(extras) == 1 else 'its extras'} {names}: "
        f"pip install '.[{','.join(extras)}]' in its checkout",
    )


def reason(error: OSError) -> str:
    """Return the system's reason in the form that ends a message: `permission denied`."""
    return (error.strerror or str(error)).lower()
