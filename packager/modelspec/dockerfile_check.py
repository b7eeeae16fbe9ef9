"""Checks that the package contains the sources that the Dockerfile copies; its root is the build context.

Written after the Dockerfile reference: continued lines, comments, the JSON form, flags, here-documents. A path with a
variable, a backslash or `**` in it is not judged, nor one of another stage or of elsewhere.
"""

from __future__ import annotations

import json
import posixpath
import re
from fnmatch import fnmatchcase
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

# As the package's .dockerignore has it.
_IGNORED = re.compile(r"(.*/)?(\.git|\.env[^/]*|\.ssh|\.netrc)(/.*)?")

_ESCAPE = re.compile(r"\s*(#.*=.*\n\s*)*#[ \t]*escape[ \t]*=[ \t]*`", re.IGNORECASE)
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
    # The files that the package's .dockerignore lets through to the builder.
    files = [f"{SCRIPTS}/{file.name}" for file in sources.files]
    files += [f"assets/{path}" for path in (*(file.name for file in sources.assets), *sources.downloads)]
    files = [path for path in files if not _IGNORED.fullmatch(path)]
    known = {*files, *(str(above) for path in files for above in PurePosixPath(path).parents)}
    for instruction, word in _copied(sources):
        if re.search(r"\$|\\|\*\*|\[\^", word.text) or _REMOTE_SOURCE.match(word.text):
            continue
        # Builders take a path from the context's root, even where it would lead out; empty for all.
        path = posixpath.normpath(f"/{word.text.lstrip('/')}").lstrip("/") or "."
        if path not in known and not (re.search(r"[*?[]", path) and any(_matches(one, path) for one in known)):
            name = posixpath.basename(path)
            same_name = next((f"it is {file}" for file in files if posixpath.basename(file) == name), None)
            usual = f"the spec's `files` are in {SCRIPTS}, and its `assets` in assets"
            message = f"{instruction} {shown(word.text)}: there is no such file in the image's context"
            yield Problem(str(shown_as), word.line, word.column, message, same_name or similar(path, files) or usual)


def copies_assets(sources: SpecFiles) -> bool:
    """Whether the Dockerfile of a spec copies some of its assets into the image."""
    tops = (word.text.removeprefix("./").partition("/")[0] for _, word in _copied(sources))
    return any(top in ("", ".", "*", "assets") for top in tops)


def _matches(path: str, pattern: str) -> bool:
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _copied(sources: SpecFiles) -> Iterator[tuple[str, Word]]:
    """Yield each source that COPY and ADD take from the context, with the instruction's name."""
    if sources.dockerfile is None:
        return
    text = sources.dockerfile.path.read_bytes().decode(errors="replace").removeprefix("\ufeff")
    escape = "`" if _ESCAPE.match(text) else "\\"
    lines = enumerate(text.split("\n"), start=1)
    for number, line in lines:
        instruction = _COPY.match(line)
        words = _words(line.rstrip().removesuffix(escape), number)
        continues = line.rstrip().endswith(escape) and not line.lstrip().startswith("#")
        while continues and (following := next(lines, None)):
            if not following[1].lstrip().startswith("#"):
                words += _words(following[1].rstrip().removesuffix(escape), following[0])
                continues = following[1].rstrip().endswith(escape)
        for heredoc in [match for word in words for match in _HEREDOC.finditer(word.text)]:
            for _, inner in lines:
                if (inner.lstrip("\t") if heredoc[1] else inner).removesuffix("\r") == heredoc[3]:
                    break
        if instruction:
            yield from ((instruction[1].upper(), word) for word in _sources(words[1:]))


def _words(line: str, number: int) -> list[Word]:
    return [Word(match[0], number, match.start() + 1) for match in re.finditer(r'"(?:\\.|[^"\\])*"|[^ \t]+', line)]


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
