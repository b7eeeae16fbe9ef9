"""Task template + values -> Kubernetes objects. Values cannot change the structure of the objects.

`packager.service.registry.sandbox` renders the template in a child process, with placeholders ("words") for the values.
This module parses the text as YAML, without tags, anchors and aliases, and then replaces each word by its value, once.
Texts that differ only in the mark at the start of their words are parsed once, because words are plain text in YAML.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from packager.base import jsonio, yamlio
from packager.base.errors import EndedError, HungError, ToolError, reason
from packager.base.problems import Problem
from packager.base.process import MAX_BYTES
from packager.base.values import Fields, Value, convert, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.kubernetes.objects import Object


MAX_TEMPLATE = 256 << 10
MAX_VALUES = 64 << 10
MAX_RESULT = 512 << 10
MAX_OBJECTS = 20
"""The limits of a template, its values and the result in bytes, and of the number of objects."""

_SECONDS = 60.0
"""The maximum time of a request. A template that never ends is stopped after two seconds of processor time, which take
longer on a busy machine."""

_ANSWER_BYTES = 8 << 20

_SANDBOX = (sys.executable, "-I", "-m", "packager.service.registry.sandbox")

_FILLED = "template as filled in"
_SLOW = "the template takes more than 2 seconds of processor time"
_CHANGED = "the template changes what an expression has written"
_MISPLACED = "an expression can only be written into a value, not into a key or a comment"

_MARK = f"v{secrets.token_hex(6)}n"
"""The start of the words in a parsed text, in the same form as in each text from the sandbox."""

_WORD = re.compile(f"{_MARK}([0-9]+)e")
_LONGEST_REMEMBERED = 32 << 10


def confinement_gaps() -> list[str]:
    """Return a warning for each way in which this system cannot confine the rendering process. Raises ToolError."""
    sandbox = Helpers(_SANDBOX)
    try:
        gaps = _read_answer(sandbox.ask(b"{}", timeout=_SECONDS)).lacking
    finally:
        sandbox.close()
    return [f"the process that fills in templates is not fully confined: {gap}" for gap in gaps]


class _Answer(Fields, frozen=True):
    """The answer of the child process to one request."""

    lacking: list[str] = field(default_factory=list)  # the ways in which the process is not confined
    faults: list[tuple[int, str]] = field(default_factory=list)  # the line and the message of each fault of a template
    text: str = ""  # the rendered template, with a word for each written expression
    mark: str = ""  # the start of all words
    values: list[object] = field(default_factory=list)  # the values of the expressions
    lines: list[int] = field(default_factory=list)  # the lines of the expressions
    # the places of the values that a template reads, and whether it cannot do without each
    places: list[tuple[list[str], bool]] = field(default_factory=list)

    @property
    def problems(self) -> list[Problem]:
        """The faults as problems of the template."""
        return [Problem("template", line, int(line > 0), message) for line, message in self.faults]


def _read_answer(line: bytes) -> _Answer:
    return convert(json.loads(line), _Answer)


class FilledTemplate(Value, frozen=True):
    """The result of a rendering: the objects, or the problems."""

    objects: tuple[Object, ...] = ()
    problems: tuple[Problem, ...] = ()


class Renderer:
    """Renders templates in child processes, one for each simultaneous thread."""

    def __init__(self) -> None:
        self._sandboxes = Helpers(_SANDBOX)

    def close(self) -> None:
        """End the child processes."""
        self._sandboxes.close()

    def check(self, template: str) -> list[Problem]:
        """Return the problems of a template that are found without values, each with its line."""
        return self.check_with_values(template)[0]

    def check_with_values(self, template: str) -> tuple[list[Problem], list[tuple[list[str], bool]]]:
        """Return the problems of a template, and the places of the values that it reads: whether each is required."""
        if problem := _too_long("template", template, MAX_TEMPLATE):
            return [problem], []
        answer = self._ask({"template": template})
        return ([answer], []) if isinstance(answer, Problem) else (answer.problems, answer.places)

    def render(self, template: str, values: Mapping[str, object]) -> FilledTemplate:
        """Render a template with values, and return the objects or the problems."""
        problem = _too_long("template", template, MAX_TEMPLATE)
        problem = problem or _too_long("values", json.dumps(values, ensure_ascii=False), MAX_VALUES)
        if problem:
            return FilledTemplate(problems=(problem,))
        answer = self._ask({"template": template, "values": values})
        if isinstance(answer, Problem):
            return FilledTemplate(problems=(answer,))
        return FilledTemplate(problems=tuple(answer.problems)) if answer.faults else _objects(answer)

    def _ask(self, request: Mapping[str, object]) -> _Answer | Problem:
        """Return the answer of a child process to a request, or the problem if there is none."""
        line = json.dumps(request).encode()
        try:
            return _read_answer(self._sandboxes.ask(line, timeout=_SECONDS, max_bytes=_ANSWER_BYTES))
        except HungError:
            return Problem("template", 0, 0, f"the template takes more than {_SECONDS:g} seconds")
        except EndedError as error:
            cause = f"was killed ({error.signal})" if error.signal else "has ended"
            is_slow, message = error.signal == "SIGXCPU", f"the process that fills in templates {cause}"
            return Problem("template", 0, 0, _SLOW if is_slow else message)
        except ToolError:
            return Problem("template", 0, 0, "the process that fills in templates failed")


def _too_long(name: str, text: str, limit: int) -> Problem | None:
    size = len(text.encode(errors="surrogatepass"))
    return Problem(name, 0, 0, f"expected at most {limit >> 10} KiB, found {size >> 10} KiB") if size > limit else None


class _Written(Value, frozen=True):
    """A scalar with words in it."""

    pieces: tuple[str | int, ...]  # the text, with indices in place of words
    is_plain: bool  # whether the scalar has no quotes


class _Structure(Value, frozen=True):
    """A rendered template before the replacement of its words."""

    # the documents, with `_Written` in place of scalars with words; each with the problem to report if it is not an
    # object
    roots: tuple[tuple[object, Problem], ...] = ()
    uses: tuple[int, ...] = ()  # the index of each word in the documents
    problems: tuple[Problem, ...] = ()  # the problems of the text
    is_changed: bool = False  # whether a part of a word is left over, or a word is in a key
    size: int = 0  # the size of the text in bytes


def _structure(parts: tuple[str, ...]) -> _Structure:
    text = _MARK.join(parts)
    source = text.encode(errors="surrogatepass")
    if tuple(text.split(_MARK)) != parts:
        return _Structure(problems=(Problem("template", 0, 0, _CHANGED),))
    problems = yamlio.indirections(source, _FILLED)
    if problems:
        return _Structure(problems=tuple(problems))
    scalars = _Scalars()
    documents, problems = yamlio.load_all(source, _FILLED, max_bytes=MAX_RESULT, read=scalars.read)
    in_key = any(_MARK in key for document in documents for key in _keys(document.data))
    return _Structure(
        tuple((document.data, document.problem((), "expected a Kubernetes object")) for document in documents),
        tuple(scalars.uses),
        tuple(problems),
        in_key or scalars.are_changed,
        len(source),
    )


_remembered = lru_cache(maxsize=64)(_structure)


class _Scalars:
    """Reads the scalars of a text."""

    def __init__(self) -> None:
        self.uses: list[int] = []  # the index of each word in the scalars
        self.are_changed = False  # whether a part of a word is left over

    def read(self, text: str, is_plain: bool) -> object:  # noqa: FBT001 - `yamlio.load_all` calls it
        """Return the value of a scalar, or `_Written` if it has words."""
        if _MARK not in text:
            return yamlio.scalar(text) if is_plain else text
        pieces = _WORD.split(text)
        texts, indices = pieces[::2], list(map(int, pieces[1::2]))
        self.uses += indices
        self.are_changed = self.are_changed or any(_MARK in piece for piece in texts)
        mixed = itertools.chain.from_iterable(itertools.zip_longest(texts, indices, fillvalue=""))
        return _Written(tuple(piece for piece in mixed if piece != ""), is_plain)


def _text(value: object) -> str:
    return value if isinstance(value, str) else jsonio.compact(value, sort_keys=True)


def _objects(answer: _Answer) -> FilledTemplate:
    """Return the objects in a rendered template."""
    values = answer.values
    parts = tuple(answer.text.split(answer.mark))
    structure = _remembered(parts) if len(answer.text) <= _LONGEST_REMEMBERED else _structure(parts)
    if structure.problems and not structure.roots:
        return FilledTemplate(problems=structure.problems)
    problems = [*structure.problems]
    used = frozenset(structure.uses)
    unused = [line for index, line in enumerate(answer.lines) if index not in used]
    problems += [Problem("template", line, 1, _MISPLACED) for line in unused]
    if structure.is_changed or not used <= frozenset(range(len(values))):
        return FilledTemplate(problems=tuple(problems) if unused else (*problems, Problem("template", 0, 0, _CHANGED)))
    filled = [(_filled(root, values), problem) for root, problem in structure.roots]
    filled = [(item, problem) for item, problem in filled if item is not None]
    if len(filled) > MAX_OBJECTS:
        problems.append(Problem("template", 0, 0, f"expected at most {MAX_OBJECTS} objects, found {len(filled)}"))
    if structure.size + sum(len(_text(values[index])) for index in structure.uses) > MAX_RESULT:
        problems.append(Problem("template", 0, 0, f"the objects are larger than {MAX_RESULT >> 10} KiB"))
    problems += [problem for item, problem in filled if not isinstance(item, dict)]
    objects = tuple(item for item, _ in filled if isinstance(item, dict))
    return FilledTemplate(problems=tuple(problems)) if problems else FilledTemplate(objects)


def _filled(value: object, values: list[object]) -> object:
    """Return a value of a structure with each word replaced once."""
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if not isinstance(value, _Written):
        return value
    pieces = [values[piece] if isinstance(piece, int) else piece for piece in value.pieces]
    if len(pieces) == 1 and value.is_plain:
        return pieces[0]
    return "".join(map(_text, pieces))


def _keys(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


_CHUNK = 64 << 10
_STOP_SECONDS = 5.0
_START_SECONDS = 20.0
"""Seconds more that a program which has just been started may take to answer."""


class Helpers:
    """Processes of a program that answers each line with a line, one for each simultaneous thread; without environment.

    A process is started when none is free, and killed when it has failed.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = tuple(argv)
        self._children: set[subprocess.Popen[bytes]] = set()
        self._free: list[subprocess.Popen[bytes]] = []
        self._is_closed = False

    def ask(self, line: bytes, *, timeout: float, max_bytes: int = MAX_BYTES) -> bytes:
        """Return the answer to a line, both without their line feed, of the process that was used last and is free.

        Raises EndedError, ToolError or HungError.
        """
        try:
            child = self._free.pop()  # atomic: two threads never get the same process
        except IndexError:
            child = self._start()
            timeout += _START_SECONDS
        try:
            answer = self._answer(child, line, timeout, max_bytes)
        except (ToolError, OSError) as error:
            self._end(child)
            if isinstance(error, ToolError):
                raise
            raise EndedError(f"{self._argv[0]} has ended: {reason(error)}") from None
        self._free.append(child)
        return answer

    def close(self) -> None:
        """Kill the processes, and have no more started: a thread may still be asking."""
        self._is_closed = True
        self._free.clear()
        for child in tuple(self._children):
            self._end(child)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        self._children.discard(child)
        with suppress(OSError), child:  # which waits for its end, and closes its pipes
            child.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            child = subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
            )
        except OSError as error:
            raise ToolError(f"{self._argv[0]} could not be started: {reason(error)}") from None
        self._children.add(child)
        if self._is_closed:
            self._end(child)
            raise ToolError(f"{self._argv[0]} was started too late: the server ends")
        return child

    def _answer(self, child: subprocess.Popen[bytes], line: bytes, timeout: float, max_bytes: int) -> bytes:
        assert child.stdin is not None
        assert child.stdout is not None
        end = time.monotonic() + timeout
        child.stdin.write(line + b"\n")
        child.stdin.flush()
        answer = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise HungError(f"{self._argv[0]} did not answer within {timeout:g} seconds")
                chunk = os.read(child.stdout.fileno(), _CHUNK)
                if not chunk:
                    raise EndedError(f"{self._argv[0]} has ended without an answer", _killer(child))
                answer += chunk
                if len(answer) > max_bytes:
                    raise ToolError(f"{self._argv[0]} answered more than {max_bytes:,} bytes")
        return bytes(answer[:-1])


def _killer(child: subprocess.Popen[bytes]) -> str | None:
    """Return the name of the signal that has killed a program which has closed its output; None for none."""
    try:
        returncode = child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    return signal.Signals(-returncode).name if returncode < 0 else None
