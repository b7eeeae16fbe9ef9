"""The program that renders task templates: a child process with limits, whose only data are its requests.

The program answers each line of JSON on its input with one on its output. Values of expressions are not written into
the text: each expression writes an opaque placeholder (a "word"), and the values are returned beside the text.
`packager.service.registry.rendering` parses the text as YAML and only then replaces the words by the values, so no
value can change the structure.

Only `packager.service.registry.rendering` runs this program, as `python -I -m packager.service.registry.sandbox`.
"""

from __future__ import annotations

import ctypes
import errno
import inspect
import json
import math
import os
import platform
import resource
import secrets
import shlex
import struct
import sys
import traceback
from functools import lru_cache
from typing import TYPE_CHECKING

import jinja2
from jinja2 import filters, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from packager.base import jsonio

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_TEXT = 512 << 10
"""The maximum number of characters that a template writes."""

MAX_JSON = 4 << 20
"""The maximum number of characters of all values of expressions, as JSON."""

_CPU_SECONDS = 2
_MEMORY_BYTES = 512 << 20
_TOO_MUCH_MEMORY = "the template takes more than 512 MiB of memory"

_FILTERS = ("default", "upper", "lower", "trim", "join", "int", "round", "length")

_REFUSED: Mapping[type[nodes.Node], str] = {
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from … import",
    nodes.Extends: "extends",
    nodes.Block: "block",
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.FilterBlock: "filter blocks",
    nodes.AssignBlock: "set blocks",
}


_ENCODER = json.JSONEncoder(allow_nan=False)


class _PrintedError(jinja2.TemplateError):
    """An expression has a value that cannot be written into a manifest."""


class _Printed:
    """The values of the expressions of one template, in the order in which they were written."""

    def __init__(self) -> None:
        self.mark = f"v{secrets.token_hex(6)}n"
        self.values: list[object] = []
        self.lines: list[int] = []
        self._room = MAX_JSON

    def word(self, value: object, line: int) -> str:
        if isinstance(value, jinja2.Undefined):
            raise _PrintedError(f"{value._undefined_name} is not defined")  # noqa: SLF001 - it has no public access
        try:
            for part in _ENCODER.iterencode(value):  # the encoding of a value that is too large stops early
                self._room -= len(part)
                if self._room < 0:
                    raise _PrintedError(f"the values of the expressions are larger than {MAX_JSON >> 20} MiB")
        except ValueError:
            raise _PrintedError("an expression has a number that is infinite, undefined or too long") from None
        except (TypeError, RecursionError):
            raise _PrintedError(f"an expression has a value that is not data: {type(value).__name__}") from None
        self.values.append(value)
        self.lines.append(line)
        return f"{self.mark}{len(self.values) - 1}e"


_PRINTED = "\0printed"
"""The name of `_Printed` in the context of a template; no template can write this name."""


@jinja2.pass_context  # so that it is not called for constants at compile time
def _finalize(context: jinja2.runtime.Context, value: object) -> str:
    frame = inspect.currentframe()
    caller = frame.f_back if frame else None
    printed: _Printed = context[_PRINTED]
    return printed.word(value, caller.f_lineno if caller else 0)


def _to_json(value: object) -> str:
    return jsonio.compact(value, sort_keys=True)


def _environment() -> jinja2.Environment:
    environment = ImmutableSandboxedEnvironment(
        autoescape=False,  # YAML, whose structure no value can change
        loader=None,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters = {
        **{name: filters.FILTERS[name] for name in _FILTERS},
        "tojson": _to_json,
        "sh": lambda value: shlex.quote(value if isinstance(value, str) else _to_json(value)),
    }
    environment.globals = {"range": environment.globals["range"]}
    return environment


_ENVIRONMENT = _environment()


@lru_cache(maxsize=64)
def _compiled(template: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(template)


def check(template: str) -> list[tuple[int, str]]:
    """Return the line and the message of each fault of a template that is found without values."""
    try:
        tree = _ENVIRONMENT.parse(template)
        problems = [
            (node.lineno, f"{_REFUSED[type(node)]} cannot be used in a template")
            for node in tree.find_all(tuple(_REFUSED))
        ]
        problems += [
            (node.lineno, f"the attribute {_attribute(node)!r} cannot be used in a template")
            for node in tree.find_all((nodes.Getattr, nodes.Getitem))
            if _attribute(node).startswith("_")
        ]
        problems += [
            (node.lineno, "expected a finite number")
            for node in tree.find_all(nodes.Const)
            if isinstance(node.value, float) and not math.isfinite(node.value)
        ]
        if not problems:
            _compiled(template)
    except jinja2.TemplateSyntaxError as error:
        return [(error.lineno, error.message or "is not valid")]
    except (RecursionError, MemoryError):
        return [(1, "the template is nested too deeply")]
    return sorted(set(problems))


def _attribute(node: nodes.Node) -> str:
    if isinstance(node, nodes.Getattr):
        return str(node.attr)
    key = getattr(node, "arg", None)
    return str(key.value) if isinstance(key, nodes.Const) and isinstance(key.value, str) else ""


def places(template: str) -> list[tuple[list[str], bool]]:
    """Return the place of each value that a template reads, and whether the template cannot do without the value.

    A value that is tested, has an alternative, or is read only where something else is tested, is optional.
    """
    found: dict[tuple[str, ...], bool] = {}
    own = {"range", "loop"}

    def path(node: nodes.Node) -> tuple[str, ...]:
        """Return the place that a node reads; empty for another node."""
        if isinstance(node, nodes.Name):
            return (node.name,)
        called = node.node if isinstance(node, nodes.Call) else None
        if isinstance(called, nodes.Getattr) and called.attr == "get":
            first = next(iter(node.args), None)  # type: ignore[attr-defined]  # a call
            if not isinstance(first, nodes.Const):
                return ()
            above, key = path(called.node), str(first.value)
        elif isinstance(node, nodes.Getattr | nodes.Getitem):
            above, key = path(node.node), _attribute(node)
        else:
            return ()
        return (*above, key) if above and key else ()

    def walk(node: nodes.Node, *, is_optional: bool) -> None:
        if isinstance(node, nodes.For | nodes.Assign):
            own.update(name.name for name in node.target.find_all(nodes.Name))
            own.update([node.target.name] if isinstance(node.target, nodes.Name) else [])
        if (place := path(node)) and place[0] not in own:
            found[place] = found.get(place, False) or not is_optional
            return
        tests = isinstance(node, nodes.Or | nodes.If | nodes.CondExpr | nodes.Test)
        tests = tests or (isinstance(node, nodes.Filter) and node.name == "default")
        for child in node.iter_child_nodes():
            walk(child, is_optional=is_optional or tests)

    walk(_ENVIRONMENT.parse(template), is_optional=False)
    return [
        (list(place), is_required)
        for place, is_required in found.items()
        if not any(other[: len(place)] == place and other != place for other in found)
    ]


def fill(template: str, names: Mapping[str, object]) -> dict[str, object]:
    """Render a template, and return the text with its words and their values, or the fault with its line."""
    printed = _Printed()
    try:
        compiled = _compiled(template)
        parts: list[str] = []
        length = 0
        for part in compiled.generate({**names, _PRINTED: printed}):
            parts.append(part)
            length += len(part)
            if length > MAX_TEXT:
                return _fault(0, f"the template writes more than {MAX_TEXT >> 10} KiB")
    except NameError as error:  # jinja2 writes an infinite number into its code as a name
        return _fault(_line(error), "an expression has a number that is infinite or undefined")
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        return _fault(_line(error), _message(error))
    except MemoryError:
        return _fault(0, _TOO_MUCH_MEMORY)
    lines = {line: compiled.get_corresponding_lineno(line) for line in {*printed.lines}}
    shown = [lines[line] for line in printed.lines]
    return {"text": "".join(parts), "mark": printed.mark, "values": printed.values, "lines": shown}


def _message(error: Exception) -> str:
    """Return the message of an error, without its errno."""
    text = getattr(error, "message", None) or str(error.args[-1] if len(error.args) > 1 else error)
    return (text or type(error).__name__).replace("'dict object' has no attribute", "the mapping has no key")


def _line(error: BaseException) -> int:
    """Return the line of the template in which an error was raised; 0 if it is unknown."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return (frames[-1].lineno or 0) if frames else 0


def _fault(line: int, message: str) -> dict[str, object]:
    return {"faults": [(line, message)]}


def _outcome(line: bytes, lacking: list[str]) -> dict[str, object]:
    request = json.loads(line)
    if "template" not in request:
        return {"lacking": lacking}
    if "values" in request:
        return fill(request["template"], request["values"])
    faults = check(request["template"])
    return {"faults": faults, "places": [] if faults else places(request["template"])}


def answer(line: bytes, lacking: list[str]) -> bytes:
    """Return the answer to a request, within the limit of processor time for a template."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(usage.ru_utime + usage.ru_stime) + 1 + _CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    try:
        outcome = _outcome(line, lacking)
        return json.dumps(outcome).encode()
    except MemoryError:
        return json.dumps(_fault(0, _TOO_MUCH_MEMORY)).encode()


def warm_up() -> None:
    """Make jinja2 import the modules that it needs only for errors and texts: no file can be opened later."""
    for template in ("{% if", "{{ a.b.c }}", r"{{ '\N{DASH}{}'.format(a) | trim | sh }}"):
        check(template)
        fill(template, {"a": {}})


_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The index of a machine's numbers in _CALLS, and its AUDIT_ARCH (linux/audit.h)."""

_CALLS = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "exit": (60, 93),
    "getrusage": (98, 165),
    "sigaltstack": (131, 132),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}
"""The numbers of the system calls that stay, in the order of _MACHINES (asm/unistd_64.h, asm-generic/unistd.h)."""

_OWN_LIMITS = (302, 261)
"""The numbers of prlimit64, which stays for the process itself: its limit of processor time grows with each task."""

# linux/prctl.h
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38

# linux/seccomp.h, and the size of an instruction of linux/filter.h
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8

# linux/bpf_common.h, linux/seccomp.h
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


def confine() -> list[str]:
    """Confine this process, limit its memory, and return what the system lacks for it; nothing where it has everything.

    Call it after the last import: no file can be opened any more.
    """
    lacking = []
    if not sys.platform.startswith("linux"):
        lacking.append(f"{platform.system()} has no filter of system calls")
    elif platform.machine() not in _MACHINES:
        lacking.append(f"the filter of system calls is not known for {platform.machine()}")
    elif number := _keep_only(_filter(*_MACHINES[platform.machine()])):
        lacking.append(f"the system refuses a filter of system calls: {os.strerror(number)}")
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    return lacking


class _Program(ctypes.Structure):
    """A filter for the kernel (linux/filter.h, `sock_fprog`)."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _keep_only(program: bytes) -> int:
    """Let this process make only the system calls that a filter allows; return 0, or the number of the error."""
    library = ctypes.CDLL(None, use_errno=True)
    filter_ = _Program(len(program) // _INSTRUCTION_BYTES, program)
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and (
        library.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0) == 0
    ):
        return 0
    return ctypes.get_errno()


def _filter(column: int, architecture: int) -> bytes:
    """Return the filter: a program of the classic BPF that fails each other call with EPERM."""
    fail = [_step(_RETURN, _FAIL | errno.EPERM)]
    allow = [_step(_RETURN, _ALLOW)]
    steps = [_step(_LOAD, _ARCHITECTURE), _step(_JUMP_IF_EQUAL, architecture, skip=1), *fail, _step(_LOAD, _NUMBER)]
    for numbers in _CALLS.values():
        steps += [_step(_JUMP_IF_EQUAL, numbers[column], skip_else=1), *allow]
    steps += [_step(_JUMP_IF_EQUAL, _OWN_LIMITS[column], skip=1), *fail]
    for half in (_FIRST_ARGUMENT, _FIRST_ARGUMENT + 4):  # the process, of which 0 is this one
        steps += [_step(_LOAD, half), _step(_JUMP_IF_EQUAL, 0, skip=1), *fail]
    return b"".join([*steps, *allow])


def _step(code: int, value: int, *, skip: int = 0, skip_else: int = 0) -> bytes:
    """Return a step: with how many of the next ones it skips where a comparison holds, and where it does not."""
    return struct.pack("HBBI", code, skip, skip_else, value)


if __name__ == "__main__":
    warm_up()
    missing = confine()
    for request in sys.stdin.buffer:
        left = memoryview(answer(request, missing) + b"\n")
        while left:
            left = left[os.write(1, left) :]
