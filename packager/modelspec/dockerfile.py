"""Checks that the package contains the sources that the Dockerfile copies; its root is the build context.

Written after the Dockerfile reference: continued lines, comments, the JSON form, flags, here-documents, wildcards by
the rules of Go's filepath.Match. A path with a variable in it is not judged, nor one of another stage or of elsewhere.
"""

from __future__ import annotations

import json
import posixpath
import re
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packager.base.problems import Problem, similar
from packager.base.values import Value
from packager.package.layout import SCRIPTS
from packager.package.path_checks import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.modelspec.files import SpecFiles

_MAX_BYTES = 1 << 20

_MAX_PATH_LENGTH = 300
_MAX_WILDCARDS = 4
_MAX_FINDINGS = 100
"""Findings, and patterns: a file of a stranger's may hold many thousands, and each of them takes time."""

# As the package's .dockerignore has it.
_IGNORED = re.compile(r"(.*/)?(\.git|\.env[^/]*|\.ssh|\.netrc)(/.*)?")

_ESCAPE = re.compile(r"#[ \t]*escape[ \t]*=[ \t]*(\\|`)[ \t]*", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#[ \t]*[a-z]+[ \t]*=", re.IGNORECASE)
_COPY = re.compile(r"[ \t]*(COPY|ADD)[ \t]+", re.IGNORECASE)
_HEREDOC = re.compile(r"(?<!<)<<(-?)([\"']?)([A-Za-z_][A-Za-z0-9_.]*)\2")
_REMOTE_SOURCE = re.compile(r"[a-z][a-z0-9+.-]*://|git@", re.IGNORECASE)


class Word(Value, frozen=True):
    """A word of an instruction, and its place, from 1."""

    text: str
    line: int
    column: int


def problems(shown_as: Path, sources: SpecFiles) -> Iterator[Problem]:
    """Yield a problem for everything that the spec's Dockerfile copies and the package will not contain."""
    if sources.dockerfile is None or sources.dockerfile.size > _MAX_BYTES:
        return
    context = _Context(sources)
    text = sources.dockerfile.path.read_bytes().decode(errors="replace").removeprefix("\ufeff")
    missing = ((instruction, word) for instruction, word in _copied(text) if not context.has(word.text))
    for instruction, word in islice(missing, _MAX_FINDINGS):
        message = f"{instruction} {shown(word.text)}: there is no such file in the image's context"
        yield Problem(str(shown_as), word.line, word.column, message, context.hint(word.text))


def copies_assets(sources: SpecFiles) -> bool:
    """Whether the Dockerfile of a spec copies some of its assets into the image."""
    if sources.dockerfile is None:
        return False
    text = sources.dockerfile.path.read_bytes().decode(errors="replace").removeprefix("\ufeff")
    return any(word.text.removeprefix("./").partition("/")[0] in ("", ".", "*", "assets") for _, word in _copied(text))


class _Context:
    """The files that the package's .dockerignore lets through to the builder: quickstart/scripts and assets."""

    def __init__(self, sources: SpecFiles) -> None:
        paths = [f"{SCRIPTS}/{file.name}" for file in sources.files]
        paths += [f"assets/{file.name}" for file in sources.assets]
        paths += [f"assets/{path}" for path in sources.downloads]
        self._files = [path for path in paths if not _IGNORED.fullmatch(path)]
        self._paths = {*self._files, *(str(above) for path in self._files for above in PurePosixPath(path).parents)}
        self._patterns = 0

    def has(self, source: str) -> bool:
        """Return whether a source exists, or cannot be judged."""
        if "$" in source or _REMOTE_SOURCE.match(source):
            return True
        path = _context_path(source)
        if not re.search(r"[*?[\\]", path):
            return path in self._paths
        self._patterns += 1
        if (
            self._patterns > _MAX_FINDINGS
            or len(path) > _MAX_PATH_LENGTH
            or len(re.findall(r"[*?[]", path)) > _MAX_WILDCARDS
        ):
            return True
        pattern = re.compile(_pattern(path), re.DOTALL)
        return any(pattern.fullmatch(known_path) for known_path in self._paths)

    def hint(self, source: str) -> str:
        """Return how a source that is not there may have been meant."""
        path = _context_path(source)[:_MAX_PATH_LENGTH]
        name = posixpath.basename(path)
        same_name = next((file for file in self._files if posixpath.basename(file) == name), None)
        if same_name:
            return f"it is {same_name}"
        near = similar(path, self._files[:_MAX_FINDINGS])
        return near or f"the spec's `files` are in {SCRIPTS}, and its `assets` in assets"


def _context_path(source: str) -> str:
    """Return a source as builders take it: from the context's root, even where it would lead out; empty for all."""
    return posixpath.normpath(f"/{source.lstrip('/')}").lstrip("/") or "."


def _pattern(path: str) -> str:
    """Return the regular expression of a path with wildcards (Go, filepath.Match; `**` for any number of folders)."""
    parts = re.findall(r"\*\*/?|\*|\?|\[\^?\]?[^]]*\]|\\.|.", path, re.DOTALL)
    return "".join(map(_part_pattern, parts))


def _part_pattern(part: str) -> str:
    if part.startswith("**"):
        return "(?:.*/)?" if part.endswith("/") else ".*"
    if part in ("*", "?"):
        return "[^/]*" if part == "*" else "[^/]"
    if part.startswith("[") and len(part) > 2:
        inner = part[1:-1].replace("[", r"\[").replace("&&", r"&\&").replace("--", r"-\-").replace("~~", r"~\~")
        try:
            re.compile(f"[{inner}]")
        except re.error:
            return ".*"  # the builder's affair
        return f"[{inner}]"
    return re.escape(part[1:] if part.startswith("\\") and len(part) == 2 else part)


def _copied(text: str) -> Iterator[tuple[str, Word]]:
    """Yield each source that COPY and ADD take from the context, with the instruction's name."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    escape = _escape(lines)
    number = 0
    while number < len(lines):
        words: list[Word] = []
        instruction = _COPY.match(lines[number])
        while True:
            line = lines[number].rstrip()
            number += 1
            is_comment = line.lstrip().startswith("#")
            continues = not is_comment and line.endswith(escape)
            if not is_comment:
                words += _words(line[:-1] if continues else line, number)
            if number == len(lines) or not (continues or (is_comment and words)):
                break
        heredocs = [match for word in words for match in _HEREDOC.finditer(word.text)]
        for match in heredocs:
            number = _heredoc_end(match, lines, number)
        if instruction:
            yield from ((instruction[1].upper(), word) for word in _sources(words[1:]))


def _escape(lines: Sequence[str]) -> str:
    """Return the character that continues a line: a backslash, or that of a directive at the head of the file."""
    for line in lines:
        if match := _ESCAPE.fullmatch(line.strip()):
            return match[1]
        if not _DIRECTIVE.match(line.strip()):
            break
    return "\\"


def _words(line: str, number: int) -> list[Word]:
    return [Word(match[0], number, match.start() + 1) for match in re.finditer(r'"(?:\\.|[^"\\])*"|[^ \t]+', line)]


def _heredoc_end(heredoc: re.Match[str], lines: Sequence[str], number: int) -> int:
    """Return the number of the line after a here-document that begins at `number`."""
    while number < len(lines):
        line = lines[number].lstrip("\t") if heredoc[1] else lines[number]
        number += 1
        if line == heredoc[3]:
            break
    return number


def _sources(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the sources among an instruction's paths, unless they come from another stage or a here-document."""
    rest = list(words)
    while rest and rest[0].text.startswith("--"):
        if rest[0].text.lower().startswith("--from="):
            return
        rest.pop(0)
    if rest and rest[0].text.startswith("["):
        rest = _json_paths(rest)
    for word in rest[:-1]:
        if not _HEREDOC.match(word.text):
            yield Word(word.text.strip("\"'"), word.line, word.column)


def _json_paths(words: Sequence[Word]) -> list[Word]:
    """Return the paths of the JSON form; nothing if the text is not JSON, which the builder reports."""
    try:
        paths = json.loads(" ".join(word.text for word in words))
    except (ValueError, RecursionError):
        return []
    places = [word for word in words if '"' in word.text]
    return [
        Word(str(path), place.line, place.column + max(place.text.find('"'), 0))
        for path, place in zip(paths, [*places, *([words[0]] * len(paths))], strict=False)
        if isinstance(path, str)
    ]
