"""Task template + values -> Kubernetes objects, in a way that no value can change the structure.

`packager.service.sandbox` fills in the template in a child process, with words in the places of the values. The text is
read as YAML here, without tags, anchors and aliases, and then each word is replaced by its value, once.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import HungError, ToolError
from packager.base.problems import Problem
from packager.base.process import Helper
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MAX_TEMPLATE = 64 << 10
MAX_VALUES = 64 << 10
MAX_RESULT = 512 << 10
MAX_OBJECTS = 20
"""The limits of a template, its values and what becomes of them: in bytes, and in objects."""

_SECONDS = 5.0
_ANSWER_BYTES = 8 << 20


class FilledTemplate(Value, frozen=True):
    """What became of a template: its objects, or what is wrong."""

    objects: tuple[dict[str, Any], ...] = ()
    problems: tuple[Problem, ...] = ()


class Renderer:
    """Fills in templates; one at a time, whichever thread asks.

    Args:
        rendered: Is told how many seconds each took, with the wait for others.
    """

    def __init__(self, rendered: Callable[[float], None] = lambda _seconds: None) -> None:
        self._rendered = rendered
        self._helper = Helper((sys.executable, "-I", "-m", "packager.service.sandbox"))

    def close(self) -> None:
        """End the child process."""
        self._helper.close()

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
        return _objects(answer["text"], _Words(answer["mark"], answer["values"], answer["lines"]))

    def _ask(self, request: dict[str, Any]) -> tuple[Any, Problem | None]:
        line = json.dumps(request).encode()
        begun = time.monotonic()
        try:
            return json.loads(self._helper.ask(line, timeout=_SECONDS, max_bytes=_ANSWER_BYTES)), None
        except HungError:
            return None, Problem("template", 0, 0, f"the template takes more than {_SECONDS:g} seconds")
        except ToolError:
            return None, Problem(
                "template", 0, 0, "the template takes more than 2 seconds of processor time or 512 MiB"
            )
        finally:
            self._rendered(time.monotonic() - begun)


def _too_long(name: str, text: str, limit: int) -> Problem | None:
    size = len(text.encode(errors="surrogatepass"))
    return Problem(name, 0, 0, f"expected at most {limit >> 10} KiB, found {size >> 10} KiB") if size > limit else None


class _Words:
    """The words of one filled-in template, and their values."""

    def __init__(self, mark: str, values: list[Any], lines: list[int]) -> None:
        self._pattern = re.compile(rf"{mark}([0-9]+)e")
        self._mark = mark
        self._values = values
        self._lines = lines
        self._used: set[int] = set()
        self._left = 0
        self.bytes = 0

    def read(self, text: str, is_plain: bool) -> Any:  # noqa: FBT001 - as `yamlio.load_all` calls it
        """Return the value of a scalar with its words replaced."""
        whole = self._pattern.fullmatch(text)
        if whole:
            value = self._value(int(whole[1]))
            return value if is_plain else _text(value)
        if self._mark not in text:
            return yamlio.scalar(text) if is_plain else text
        replaced = self._pattern.sub(lambda match: _text(self._value(int(match[1]))), text)
        self._left += self._mark in self._pattern.sub("", text)
        return replaced

    def _value(self, index: int) -> Any:
        if not 0 <= index < len(self._values):
            self._left += 1
            return None
        self._used.add(index)
        value = self._values[index]
        self.bytes += len(_text(value))
        return value

    def problems(self, keys: Iterable[str]) -> list[Problem]:
        """Return what became of words that are not in a value: in a key, in a comment, or changed by the template."""
        problems = [
            Problem("template", line, 1, "an expression can only be written into a value, not into a key or a comment")
            for index, line in enumerate(self._lines)
            if index not in self._used
        ]
        if not problems and (self._left or any(self._mark in key for key in keys)):
            problems.append(Problem("template", 0, 0, "the template changes what an expression has written"))
        return problems


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _objects(text: str, words: _Words) -> FilledTemplate:
    source = text.encode(errors="surrogatepass")
    problems = yamlio.indirections(source, "template as filled in")
    if problems:
        return FilledTemplate(problems=tuple(problems))
    documents, problems = yamlio.load_all(source, "template as filled in", max_bytes=MAX_RESULT, read=words.read)
    objects = tuple(document.data for document in documents if document.data is not None)
    problems += words.problems(key for item in objects for key in _keys(item))
    if len(objects) > MAX_OBJECTS:
        problems.append(Problem("template", 0, 0, f"expected at most {MAX_OBJECTS} objects, found {len(objects)}"))
    if len(source) + words.bytes > MAX_RESULT:
        problems.append(Problem("template", 0, 0, f"the objects are larger than {MAX_RESULT >> 10} KiB"))
    problems += [
        document.problem((), "expected a Kubernetes object")
        for document in documents
        if not isinstance(document.data, dict | None)
    ]
    return FilledTemplate(problems=tuple(problems)) if problems else FilledTemplate(objects)


def _keys(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)
