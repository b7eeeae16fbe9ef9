"""Reads YAML without changing any value, and gives each problem a line and a column.

YAML 1.1 reads `yes` as true, `010` as 8, `1.10` as 1.1 and `12:30` as 750. Here only spellings that mean the
same in every YAML are numbers or booleans (`true`, `false`, `20`, `-1`, `0.5`); every other plain scalar is the
text as written. So `str(value)` is always what the author wrote.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import yaml

from packager.base.masking import shortened
from packager.base.problems import MAX_PROBLEMS, Fault, Problem, show
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

# The parser for all YAML: libyaml's if PyYAML was built with it (its wheels are), else the slower one in Python.
_Parser: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

DUPLICATE_KEY = "duplicate key"
"""The kind of the problems with keys that a mapping has twice."""

MISREAD = {
    **dict.fromkeys(("y", "yes", "n", "no", "on", "off", "true", "false"), "a boolean"),
    "null": "null",
    "nan": "a number",
    "inf": "a number",
}
"""Words, in lower case, that some YAML parsers do not read as text, each with the value that they read."""

# JSON does not escape these; in YAML they end a line, or are not allowed.
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)}

# Far above any spec a person writes; a document past these is an attack ("billion laughs") or a mistake.
MAX_BYTES = 1 << 20
MAX_NODES = 50_000
MAX_DEPTH = 40

# The characters that a value counts for when an alias repeats it: MAX_NODES values count for MAX_BYTES.
_NODE_CHARACTERS = MAX_BYTES // MAX_NODES

# libyaml compares each tag directive with all earlier ones.
_MAX_DIRECTIVES = 100
_DIRECTIVE = re.compile("^%TAG", re.MULTILINE)

# YAML 1.1 breaks lines at these and YAML 1.2 does not; a byte order mark is allowed only at the start.
_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")

# Numbers and times of YAML 1.1 and of Go's parsers, which remove every `_` from a number first
# (go-yaml, resolve.go: `resolve`); yaml.org/type/int, float and timestamp.
_NUMBER_OR_TIME = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
    r"|[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?)|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?"
)
_MERGE = "<<"
_TEXT_TAG = "tag:yaml.org,2002:str"

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,9})\.[0-9]{1,6}")
# A cache of the entries of mappings: without it, a problem at each of many keys takes minutes.
_KEYS: WeakKeyDictionary[yaml.Node, dict[Any, tuple[yaml.Node, yaml.Node]]] = WeakKeyDictionary()

_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "~": None, "": None}

Location = tuple[str | int, ...]
"""The location of a value in a document: keys and indices from the root."""


class Span(NamedTuple):
    """A part of a text, from `start` to before `end`, in characters, not counting a byte order mark.

    `column` is the column of `start`, from 0; for a block list, that of its first `-`.
    """

    start: int
    end: int
    column: int


class Document(Value, frozen=True):
    """A YAML file: its values and their positions."""

    name: str  # the file as the user named it
    data: Any  # dicts, lists, strings, numbers, booleans and None
    _root: yaml.Node | None  # the node of `data`, with lines and columns; None for an empty file

    def problem(self, location: Location, message: str, *, hint: str | None = None, at_key: bool = False) -> Problem:
        """Return a problem with the value at `location` (with its key, for `at_key`).

        If the document does not have the location, the problem is at its nearest ancestor.
        """
        entries = self._entries(location)
        if self._root is None:
            return Problem(self.name, 1, 1, message, hint)
        node = entries[-1][0 if at_key else 1] if entries else self._root
        return Problem(self.name, node.start_mark.line + 1, node.start_mark.column + 1, message, hint)

    def problem_of(self, fault: Fault) -> Problem:
        """Return the problem of a fault, with its place."""
        return self.problem(fault.location, fault.message, hint=fault.hint, at_key=fault.at_key)

    @property
    def is_flow(self) -> bool:
        """Whether the document is written in flow style, as JSON is."""
        return bool(getattr(self._root, "flow_style", False))

    @property
    def is_empty(self) -> bool:
        """Whether the file is empty or could not be read."""
        return self._root is None

    def span(self, location: Location, *, at_key: bool = False) -> Span:
        """Return the span of the value at `location`, or of its key; for an alias, the span of its anchor's value.

        Raises:
            KeyError: The document has no such location.
        """
        entries = self._entries(location)
        if self._root is None or len(entries) < len(location):
            raise KeyError(location)
        node = entries[-1][0 if at_key else 1] if entries else self._root
        return Span(node.start_mark.index, node.end_mark.index, node.start_mark.column)

    def sizes(self) -> Iterator[tuple[Location, int]]:
        """Yield the location of each list and mapping, and how many entries it has."""
        places: list[tuple[Location, Any]] = [((), self.data)]
        for location, value in places:
            if not isinstance(value, dict | list):
                continue
            yield location, len(value)
            entries: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
            places.extend(((*location, step), entry) for step, entry in entries)

    def oversized(self, most: int) -> Iterator[Problem]:
        """Yield a problem for each list or mapping with more than `most` entries: checks compare them."""
        for location, size in self.sizes():
            if size > most:
                yield self.problem(location, f"expected at most {most:,} entries, found {size:,}")

    def depth(self, location: Location) -> int:
        """Return how many steps of `location` the document has."""
        return len(self._entries(location))

    def _entries(self, location: Location) -> list[tuple[yaml.Node, yaml.Node]]:
        """Return the key and the value at each step of `location` that the document has."""
        node = self._root
        entries = []
        for step in location:
            entry = _child(node, step)
            if entry is None:
                break
            entries.append(entry)
            node = entry[1]
        return entries


def load(text: bytes, name: str) -> tuple[Document, list[Problem]]:
    """Read one YAML document in UTF-8, which problems call `name`.

    Its problems are those of YAML: syntax, duplicate keys, keys that are not text, aliases without end. If the text
    cannot be read, the document is empty.
    """
    roots, problems = _compose(text, name, MAX_BYTES, lambda source, loader: [yaml.compose(source, Loader=loader)])
    if problems:
        return Document(name, None, None), problems
    return _Reader(name).document(roots[0])


def load_all(
    text: bytes, name: str, *, max_bytes: int = MAX_BYTES, read: Callable[[str, bool], Any] | None = None
) -> tuple[list[Document], list[Problem]]:
    """Read every document of a stream of manifests; see `load`. A stream with a syntax error has no documents.

    A key that kubectl or kustomize could read as another one, or merge, is a problem. `read` returns the value of a
    scalar that is not a key, from its text and whether it is plain; by default, the value that `load` returns.
    """
    roots, problems = _compose(
        text, name, max_bytes, lambda source, loader: list(yaml.compose_all(source, Loader=loader))
    )
    documents = []
    reader = _Reader(name, read or _as_written, key_problem=_key_problem)
    for root in roots:
        document, document_problems = reader.document(root)
        documents.append(document)
        problems.extend(document_problems)
    return documents, problems


def indirections(text: bytes, name: str) -> list[Problem]:
    """Return a finding for each anchor, alias, tag, directive, and character at which only some parsers break lines.

    A file without findings means the same to every YAML parser. `load` reports syntax errors and files that are too
    large. There are at most twice MAX_PROBLEMS findings.
    """
    source = text.decode("utf-8-sig", "replace")
    problems = []
    for match in islice(_BREAKS.finditer(source), MAX_PROBLEMS):
        message = f"the character U+{ord(match[0]):04X} ends a line for some YAML parsers but not for others"
        line_start = source.rfind("\n", 0, match.start()) + 1
        place = (source.count("\n", 0, match.start()) + 1, match.start() - line_start + 1)
        problems.append(Problem(name, *place, message))
    problems += islice(_indirections(source, name), MAX_PROBLEMS)
    return problems


def _indirections(source: str, name: str) -> Iterator[Problem]:
    if len(_DIRECTIVE.findall(source)) > _MAX_DIRECTIVES:
        return
    depth = 0
    with suppress(yaml.YAMLError):
        # A list or a mapping is one node and two events; the document itself has two more events.
        for event in islice(yaml.parse(source, Loader=_Parser), 4 * MAX_NODES):
            for message, hint in _indirection(event):
                assert event.start_mark
                yield Problem(name, event.start_mark.line + 1, event.start_mark.column + 1, message, hint)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                return


def _indirection(event: Any) -> Iterator[tuple[str, str]]:
    """Yield the reasons why the value of `event` may differ from what is written, each with the fix."""
    if isinstance(event, yaml.AliasEvent):
        yield f"aliases are not allowed here, found *{event.anchor}", "write the value out"
    elif isinstance(event, yaml.DocumentStartEvent) and (event.version or event.tags):
        yield "YAML directives are not allowed here", "remove them"
    elif getattr(event, "anchor", None) is not None:
        yield f"anchors are not allowed here, found &{event.anchor}", "write the value out wherever it is needed"
    if getattr(event, "tag", None) is not None:
        yield f"YAML tags are not allowed here, found {event.tag}", "remove it, or quote the value"


def read(path: Path, name: str | None = None) -> tuple[Document, list[Problem]]:
    """Read the YAML file at `path`; see `load`. Raises OSError if the file cannot be read."""
    with path.open("rb") as file:
        return load(file.read(MAX_BYTES + 1), name or str(path))


def spliced(text: bytes, splices: Iterable[tuple[int, int, str]]) -> bytes:
    """Return a UTF-8 text with each splice's text from its start to before its end, counted as in `Span`.

    A splice that occurs twice, as for two aliases of one value, is made once.
    """
    source = text.decode("utf-8-sig")
    mark = text[: len(text) - len(source.encode())]
    for start, end, new in sorted(set(splices), reverse=True):
        source = source[:start] + new + source[end:]
    return mark + source.encode()


def dump(values: Iterable[Any]) -> str:
    """Return values as YAML, a document each, that every YAML parser reads as the same values."""
    return str(yaml.dump_all(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096))


def scalar(text: str) -> Any:
    """Return the value of the plain scalar `text`: a number or boolean if every YAML agrees, else the text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and repr(float(text)) == text:
        return float(text)
    return text


def quoted(text: str) -> str:
    """Return a text in double quotes, as every YAML reads it."""
    return json.dumps(text, ensure_ascii=False).translate(_ESCAPED)


class _Dumper(yaml.SafeDumper):
    """Writes texts with several lines as blocks, and quotes a text that some parser would read as another type."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _represented(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    is_ambiguous = text.lower().lstrip("+-.") in MISREAD or text[:1] in "+-.0123456789"
    style = "|" if "\n" in text else '"' if is_ambiguous else None
    return dumper.represent_scalar(_TEXT_TAG, text, style=style)


_Dumper.add_representer(str, _represented)


class _TooLargeError(Exception):
    """A document is too deep, or has too many keys and values."""

    def __init__(self, node: yaml.Node | None, message: str) -> None:
        super().__init__(message)
        mark = node.start_mark if node is not None else None
        self.place = (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _composer(max_nodes: int) -> Any:
    """Return a loader that gives up at more than MAX_DEPTH levels or `max_nodes` keys and values, aliases not counted.

    libyaml's composer is a recursion in C, which ends the process when a document is too deep for the stack. It calls
    these methods of PyYAML's resolver before and after each node.
    """

    class Composer(_Parser):  # type: ignore[misc]
        depth = nodes = 0

        def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:  # noqa: ARG002
            self.depth += 1
            self.nodes += 1
            if self.depth > MAX_DEPTH + 1:
                raise _TooLargeError(current_node, "the document is nested too deeply")
            if self.nodes > max_nodes:
                raise _TooLargeError(current_node, f"the file has more than {max_nodes:,} keys and values")

        def ascend_resolver(self) -> None:
            self.depth -= 1

    return Composer


def _compose(
    text: bytes, name: str, max_bytes: int, parse: Callable[[str, Any], list[yaml.Node | None]]
) -> tuple[list[yaml.Node | None], list[Problem]]:
    """Return the root of each document in `text`; none, with the problem, if it is not valid YAML."""
    if len(text) > max_bytes:
        return [], [Problem(name, 1, 1, f"the file is larger than {max_bytes // 1024} KiB, the limit for such a file")]
    try:
        source = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], [Problem(name, *_line_and_column(text, error.start), "expected UTF-8 text, found other bytes")]
    if len(_DIRECTIVE.findall(source)) > _MAX_DIRECTIVES:
        return [], [Problem(name, 1, 1, f"the file has more than {_MAX_DIRECTIVES} tag directives")]
    place = (1, 1)
    try:
        return parse(source, _composer(2 * MAX_NODES * max(1, max_bytes // MAX_BYTES))), []
    except _TooLargeError as error:
        place, message = error.place, str(error)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else place
        message = f"not valid YAML: {_sentence(error)}"
    except yaml.reader.ReaderError as error:
        place = _line_and_column(source.encode(), error.position)
        message = f"not valid YAML: {error.reason}"
    return [], [Problem(name, *place, message)]


def _as_written(text: str, is_plain: bool) -> Any:  # noqa: FBT001 - as `load_all` calls it
    return scalar(text) if is_plain else text


class _Reader:
    """Turns the nodes of a stream into values, and counts them.

    Aliases may repeat at most MAX_BYTES characters in the whole stream, counting _NODE_CHARACTERS for each value:
    readers of the values walk a shared list, and check a shared text, at each place.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[str, bool], Any] = _as_written,
        key_problem: Callable[[yaml.ScalarNode], tuple[str, str] | None] = lambda _: None,
    ) -> None:
        self.name = name
        self._key_problem = key_problem
        self._problems: list[Problem] = []
        self._exhausted = False
        self._read = read
        self._nodes = 0
        self._repeated = 0
        self._scalars: dict[yaml.Node, Any] = {}
        self._collections: set[yaml.Node] = set()

    def document(self, root: yaml.Node | None) -> tuple[Document, list[Problem]]:
        """Return the next document and its problems."""
        self._problems, self._exhausted, self._nodes = [], False, 0
        data = self._value(root, 0) if root is not None else None
        read = (None, None) if self._exhausted else (data, root)
        return Document(self.name, *read), self._problems

    def _value(self, node: yaml.Node, depth: int) -> Any:
        self._nodes += 1
        if self._exhausted:
            return None
        if node in self._scalars or node in self._collections:
            self._repeated += _NODE_CHARACTERS + _characters(node)
        if depth > MAX_DEPTH or self._nodes > MAX_NODES or self._repeated > MAX_BYTES:
            self._exhausted = True
            self._add_problem(node, "the document is nested too deeply, or its aliases expand without limit")
            return None
        if isinstance(node, yaml.ScalarNode):
            if node not in self._scalars:
                self._scalars[node] = self._scalar(node)
            return self._scalars[node]
        self._collections.add(node)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, depth + 1) for item in node.value]
        assert isinstance(node, yaml.MappingNode)
        return self._mapping(node, depth)

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._add_problem(key, "expected text as the key, found a list or a mapping")
            elif key.value in mapping:
                self._add_problem(key, f"duplicate key {show(key.value)}", "keep one of them", kind=DUPLICATE_KEY)
            elif problem := self._key_problem(key):
                self._add_problem(key, *problem)
            else:
                mapping[key.value] = self._value(item, depth + 1)
        return mapping

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        if _SURROGATES.search(node.value):
            self._add_problem(node, "expected text, found an unpaired surrogate (\\ud800 to \\udfff)")
            return ""
        return self._read(node.value, not node.style)

    def _add_problem(self, node: yaml.Node, message: str, hint: str | None = None, kind: str = "") -> None:
        mark = node.start_mark
        if len(self._problems) == MAX_PROBLEMS:
            message, hint, kind = "there are more problems here and below", None, ""
            self._exhausted = True
        if len(self._problems) <= MAX_PROBLEMS:
            self._problems.append(Problem(self.name, mark.line + 1, mark.column + 1, message, hint, kind))


def _key_problem(key: yaml.ScalarNode) -> tuple[str, str] | None:
    """Return the message and the fix for a key that kubectl or kustomize reads as another one; None for other keys.

    kustomize merges `<<` even in quotes, and prints the keys `yes` and `y` where kubectl reads `true`.
    """
    text = key.value
    if text == _MERGE:
        return "<< is not allowed here: not every YAML parser merges keys", "write the entries out"
    if key.tag != _TEXT_TAG:
        return f"YAML tags are not allowed here, found {shortened(key.tag, 60)}", "remove it, and quote the key"
    if key.style or text in ("true", "false") or _INTEGER.fullmatch(text):
        return None
    is_text = text not in _WORDS and text.lower().lstrip("+-.") not in MISREAD
    if is_text and not _NUMBER_OR_TIME.fullmatch(text[:1] + text[1:].replace("_", "")):
        return None
    return f"the key {show(text)} is not text for every YAML parser", "quote it"


def _characters(node: yaml.Node) -> int:
    """Return the number of characters of a scalar, or of the keys of a mapping."""
    if isinstance(node, yaml.ScalarNode):
        return len(node.value)
    return sum(len(key.value) for key, _ in node.value) if isinstance(node, yaml.MappingNode) else 0


def _sentence(error: yaml.MarkedYAMLError) -> str:
    problem, context = error.problem or "", error.context or ""
    return f"{context} {problem}".strip() if problem.startswith("but ") else f"{problem} {context}".strip()


def _line_and_column(text: bytes, offset: int) -> tuple[int, int]:
    """Return line and column, in characters, of the byte at `offset`."""
    before = text[:offset]
    return before.count(b"\n") + 1, len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        if node not in _KEYS:
            # Of equal keys, the first counts.
            _KEYS[node] = {key.value: (key, value) for key, value in reversed(node.value)}
        return _KEYS[node].get(step)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None
