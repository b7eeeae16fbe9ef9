"""Checks task definitions in child processes, so that requests of others do not wait: Python computes in one thread.

`packager.service.registry.check_process` reads a definition, renders its example and applies the policy to the objects.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from packager.base.errors import EndedError, HungError, ToolError
from packager.base.values import Fields, Value, as_plain, convert, field
from packager.kubernetes.objects import Object
from packager.service.complaints import Complaint
from packager.service.registry.helpers import Helpers
from packager.service.registry.policy import Accepted
from packager.service.registry.rendering import cause_of_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.service.registry.bodies import DefinitionBody
    from packager.service.registry.policy import Site

_SECONDS = 60.0
_ANSWER_BYTES = 8 << 20

_PROCESS = "the process that checks definitions"
_PROGRAM = (sys.executable, "-I", "-m", "packager.service.registry.check_process")


class CheckedDefinition(Value, frozen=True):
    """The result of a check: the objects of the example, or the complaints.

    Attributes:
        accepted: The objects of the example.
        complaints: The complaints about the definition.
        refusals: The complaints about the objects of the example.
    """

    accepted: Accepted = Accepted()
    complaints: Sequence[Complaint] = ()
    refusals: Sequence[Complaint] = ()


class _CheckAnswer(Fields, frozen=True):
    """The answer of a child process.

    Attributes:
        objects: The objects of the example.
        remarks: The warnings about the objects.
        complaints: The complaints about the definition.
        refusals: The complaints about the objects.
        bug: The traceback of an unexpected error.
    """

    objects: list[Object] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    complaints: list[Complaint] = field(default_factory=list)
    refusals: list[Complaint] = field(default_factory=list)
    bug: str = ""


class CheckProcessError(Exception):
    """A child process has raised an unexpected error."""


class Checker:
    """Checks definitions in child processes, one for each simultaneous thread."""

    def __init__(self) -> None:
        self._processes = Helpers(_PROGRAM)

    def close(self) -> None:
        """End the child processes; the next check starts another one."""
        self._processes.close()

    def check(self, body: DefinitionBody, template: str | None, site: Site) -> CheckedDefinition:
        """Check a definition over a template; without a template, only what does not depend on it.

        Raises:
            CheckProcessError: The check has a bug.
        """
        request = {"body": as_plain(body), "template": template, "settings": as_plain(site)}
        try:
            answer = self._processes.ask(json.dumps(request).encode(), timeout=_SECONDS, max_bytes=_ANSWER_BYTES)
        except HungError:
            return _failed(f"the check of the definition takes more than {_SECONDS:g} seconds")
        except EndedError as error:
            return _failed(cause_of_end(error.signal, _PROCESS))
        except ToolError:
            return _failed(f"{_PROCESS} failed")
        return _result(convert(json.loads(answer), _CheckAnswer))


def _failed(message: str) -> CheckedDefinition:
    return CheckedDefinition(refusals=(Complaint("", message),))


def _result(answer: _CheckAnswer) -> CheckedDefinition:
    if answer.bug:
        raise CheckProcessError(answer.bug)
    accepted = Accepted(tuple(answer.objects), remarks=tuple(answer.remarks))
    return CheckedDefinition(accepted, answer.complaints, answer.refusals)
