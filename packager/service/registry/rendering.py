"""Task template + values -> Kubernetes objects, in a way that no value can change the structure.

`packager.service.registry.sandbox` fills in the template in a child process, with words in the places of the values.
The text is read as YAML here, without tags, anchors and aliases, and then each word is replaced by its value, once.
Texts that differ in nothing but how their words begin are read once: the words' letters mean nothing to YAML.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
import sys
import time
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import EndedError, HungError, ToolError
from packager.base.problems import Problem
from packager.base.process import Helper
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MAX_TEMPLATE = 64 << 10
MAX_VALUES = 64 << 10
MAX_RESULT = 512 << 10
MAX_OBJECTS = 20
"""The limits of a template, its values and what becomes of them: in bytes, and in objects."""

_SECONDS = 5.0
_ANSWER_BYTES = 8 << 20

_SANDBOX = (sys.executable, "-I", "-m", "packager.service.registry.sandbox")

_FILLED = "template as filled in"
_CHANGED = "the template changes what an expression has written"
_MISPLACED = "an expression can only be written into a value, not into a key or a comment"

_MARK = f"v{secrets.token_hex(6)}n"
"""How the words begin in a text that is read: of the same form as in each text that comes from the sandbox."""

_WORD = re.compile(f"{_MARK}([0-9]+)e")
_LONGEST_REMEMBERED = 32 << 10


def confinement_gaps() -> list[str]:
    """Return what this system lacks to confine the process that fills in templates. Raises ToolError."""
    helper = Helper(_SANDBOX)
    try:
        gaps: list[str] = json.loads(helper.ask(b"{}", timeout=_SECONDS))
    finally:
        helper.close()
    return [f"the process that fills in templates is not fully confined: {gap}" for gap in gaps]


class FilledTemplate(Value, frozen=True):
    """What became of a template: its objects, or what is wrong."""

    objects: tuple[dict[str, Any], ...] = ()
    problems: tuple[Problem, ...] = ()


class Renderer:
    """Fills in templates: in as many child processes as there are threads that ask at a time.

    Args:
        rendered: Is told how many seconds each took, with the wait for others.
    """

    def __init__(self, rendered: Callable[[float], None] = lambda _seconds: None) -> None:
        self._rendered = rendered
        self._helpers: list[Helper] = []
        self._free: list[Helper] = []

    def close(self) -> None:
        """End the child processes."""
        for helper in self._helpers:
            helper.close()

    @contextmanager
    def _helper(self) -> Iterator[Helper]:
        """Give the child process that was last free, or else a new one."""
        try:
            helper = self._free.pop()  # no two threads get the same
        except IndexError:
            helper = Helper(_SANDBOX)
            self._helpers.append(helper)
        try:
            yield helper
        finally:
            self._free.append(helper)

    def check(self, template: str) -> list[Problem]:
        """Return what is wrong with a template as it is written: each problem with its line."""
        if problem := _too_long("template", template, MAX_TEMPLATE):
            return [problem]
        answer, problem = self._ask({"template": template})
        return [problem] if problem else [Problem("template", line, 1, message) for line, message in answer]

    def render(self, template: str, values: Mapping[str, Any]) -> FilledTemplate:
        """Return the objects that a template makes of values."""
        problem = _too_long("template", template, MAX_TEMPLATE)
        problem = problem or _too_long("values", json.dumps(values, ensure_ascii=False), MAX_VALUES)
        if problem:
            return FilledTemplate(problems=(problem,))
        answer, problem = self._ask({"template": template, "values": values})
        if problem:
            return FilledTemplate(problems=(problem,))
        if "fault" in answer:
            return FilledTemplate(
                problems=(Problem("template", answer["line"], int(answer["line"] > 0), answer["fault"]),)
            )
        return _objects(answer["text"], answer["mark"], answer["values"], answer["lines"])

    def _ask(self, request: dict[str, Any]) -> tuple[Any, Problem | None]:
        line = json.dumps(request).encode()
        begun = time.monotonic()
        try:
            with self._helper() as helper:
                return json.loads(helper.ask(line, timeout=_SECONDS, max_bytes=_ANSWER_BYTES)), None
        except HungError:
            return None, Problem("template", 0, 0, f"the template takes more than {_SECONDS:g} seconds")
        except EndedError as error:
            return None, Problem("template", 0, 0, _ended(error.signal))
        except ToolError:
            return None, Problem("template", 0, 0, "the process that fills in templates failed")
        finally:
            self._rendered(time.monotonic() - begun)


def _ended(signal: str | None) -> str:
    """Return why the child process has ended, by the signal that has killed it."""
    if signal == "SIGXCPU":
        return "the template takes more than 2 seconds of processor time"
    return f"the process that fills in templates {f'was killed ({signal})' if signal else 'has ended'}"


def _too_long(name: str, text: str, limit: int) -> Problem | None:
    size = len(text.encode(errors="surrogatepass"))
    return Problem(name, 0, 0, f"expected at most {limit >> 10} KiB, found {size >> 10} KiB") if size > limit else None


class _Written(Value, frozen=True):
    """A scalar with words in it.

    Attributes:
        pieces: Its text, and the indices of the values between.
        is_plain: Whether it is written without quotes.
    """

    pieces: tuple[str | int, ...]
    is_plain: bool


class _Structure(Value, frozen=True):
    """What a filled-in template is before its words are replaced.

    Attributes:
        roots: The documents, with `_Written` in the places of scalars that have words; each with the problem that it
            is if it is no object.
        uses: The index of each word in them.
        problems: What is wrong with it.
        is_changed: Whether something of a word is left that is none, or is in a key.
        size: How many bytes the text has.
    """

    roots: tuple[tuple[Any, Problem], ...] = ()
    uses: tuple[int, ...] = ()
    problems: tuple[Problem, ...] = ()
    is_changed: bool = False
    size: int = 0


def _read(parts: tuple[str, ...]) -> _Structure:
    """Return the structure of a text.

    Args:
        parts: What is before, between and behind the beginnings of its words.
    """
    return _remembered(parts) if sum(map(len, parts)) <= _LONGEST_REMEMBERED else _structure(parts)


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
    """Reads the scalars of a text.

    Attributes:
        uses: The index of each word in them.
        are_changed: Whether something of a word is left that is none.
    """

    def __init__(self) -> None:
        self.uses: list[int] = []
        self.are_changed = False

    def read(self, text: str, is_plain: bool) -> Any:  # noqa: FBT001 - as `yamlio.load_all` calls it
        """Return what a scalar means, or `_Written` if there are words in it."""
        if _MARK not in text:
            return yamlio.scalar(text) if is_plain else text
        pieces = _WORD.split(text)
        texts, indices = pieces[::2], list(map(int, pieces[1::2]))
        self.uses += indices
        self.are_changed = self.are_changed or any(_MARK in piece for piece in texts)
        mixed = itertools.chain.from_iterable(itertools.zip_longest(texts, indices, fillvalue=""))
        return _Written(tuple(piece for piece in mixed if piece != ""), is_plain)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _objects(text: str, mark: str, values: list[Any], lines: list[int]) -> FilledTemplate:
    """Return the objects in a filled-in template.

    Args:
        text: The template, with a word for each expression that it writes.
        mark: How all words begin.
        values: The values of the expressions.
        lines: The lines of the expressions.
    """
    structure = _read(tuple(text.split(mark)))
    if structure.problems and not structure.roots:
        return FilledTemplate(problems=structure.problems)
    problems = [*structure.problems]
    used = frozenset(structure.uses)
    unused = [line for index, line in enumerate(lines) if index not in used]
    problems += [Problem("template", line, 1, _MISPLACED) for line in unused]
    if structure.is_changed or not used <= frozenset(range(len(values))):
        return FilledTemplate(problems=tuple(problems) if unused else (*problems, Problem("template", 0, 0, _CHANGED)))
    filled = [(_filled(root, values), problem) for root, problem in structure.roots]
    objects = tuple(item for item, _ in filled if item is not None)
    if len(objects) > MAX_OBJECTS:
        problems.append(Problem("template", 0, 0, f"expected at most {MAX_OBJECTS} objects, found {len(objects)}"))
    if structure.size + sum(len(_text(values[index])) for index in structure.uses) > MAX_RESULT:
        problems.append(Problem("template", 0, 0, f"the objects are larger than {MAX_RESULT >> 10} KiB"))
    problems += [problem for item, problem in filled if not isinstance(item, dict | None)]
    return FilledTemplate(problems=tuple(problems)) if problems else FilledTemplate(objects)


def _filled(value: Any, values: list[Any]) -> Any:
    """Return a value of a structure with its words replaced, once."""
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


def _keys(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)
