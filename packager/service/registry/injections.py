"""Finds filled values that a template writes into code, which a shell or an interpreter runs.

The template is rendered with marks in place of the values. A mark in a script that is not a quoted word of the shell
(the filter `sh`) shows a place where a value such as `$(…)` would run.

Tests: service/registry/test_definitions.py.
"""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from packager.kubernetes.environment import Expander
from packager.kubernetes.manifest import listing, mapping
from packager.service.registry.description import FreeMapping, Group, Items, Leaf, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packager.base.values import Json
    from packager.base.yamlio import Location
    from packager.kubernetes.objects import Object
    from packager.service.registry.description import Described
    from packager.service.registry.rendering import FilledTemplate

MAX_SINGLE = 20
"""The maximum number of values that are tried one by one, if the template cannot be rendered with all marks."""

_SAFE_TYPES = ("integer", "number", "boolean", "quantity")
_LABELS = ("taskDef", "name", "creator")
"""The keys whose values are label values, with only letters, digits and '-_.'."""

_MARK = "mlpack{}mark'\"$(x)"
_QUOTED_MARK = re.compile(re.escape(shlex.quote(_MARK)).replace(r"\{\}", "[0-9]+"))
"""The text in place of a value, by its number, and the same as a quoted word of a shell."""

_CODE_OPTION = re.compile(
    r"-[A-Za-z]*[ceE]|-[abefhiklmnprtuvx]*c[abefhiklmnprtuvx]*|--?(?:command|eval|exec|execute|run)"
)
"""An option whose argument is code: `bash -ec`, `bash -cx`, `python3 -c`, `perl -e`."""

_OF_PROGRAM = {"node": ("-p", "--print"), "nodejs": ("-p", "--print"), "bun": ("-p", "--print"), "php": ("-r",)}
"""Options with code of single programs; for other programs, the same options mean something else."""

_LONG_WITH_CODE = re.compile(r"--(?:command|eval|exec|execute)=")
_SHORT_WITH_CODE = re.compile(r"-[A-Za-z]*?[ceE]")
"""The start of a word that is an option with its code; the short form is one of interpreters only, not of shells."""

_FLAG = re.compile("--|[-+][A-Za-z]+")
_FLAG_WITH_VALUE = re.compile("[-+][A-Za-z]*[oO]|--(?:init-file|rcfile)")
"""Options that may follow `-c`, before the code."""

_INTERPRETER = re.compile(r"(?:python|perl|ruby|node|nodejs|bun|deno|php|lua|luajit|Rscript|julia)[0-9.]*")
"""Programs that run another language than that of the shell, whose words the filter `sh` quotes."""

_SCRIPT_KEY = re.compile(r".*\.(?:sh|bash|zsh|ksh|py|pl|rb|js|lua|r|R)", re.DOTALL)
_SHELL_KEY = re.compile(r".*\.(?:sh|bash|zsh|ksh)", re.DOTALL)
_SHELL_LINE = re.compile(r"#!.*[/ ](?:ba|da|a|z|k)?sh( |$)", re.MULTILINE)
"""The names of shell scripts, and their first lines."""

_HINT = "quote it with the filter sh, pass it in an environment variable, or describe it as an integer"


class _CodeText(NamedTuple):
    """A text that runs as code: where it is, and whether a shell reads it."""

    place: str
    text: str
    is_shell: bool


def warnings(
    described: Group, filled: Mapping[str, Json], render: Callable[[Mapping[str, Json]], FilledTemplate]
) -> list[str]:
    """Return a warning for each filled value that becomes a part of code.

    Args:
        described: The description of the values.
        filled: Values that satisfy the description.
        render: Renders the template with other values.
    """
    locations = list(_texts((), described, dict(filled)))
    marks = {location: _MARK.format(index) for index, location in enumerate(locations)}

    def rendered(marks: Mapping[Location, str]) -> FilledTemplate:
        return render({key: _marked(value, marks, (key,)) for key, value in filled.items()})

    every = rendered(marks)
    if not every.problems:
        return list(_found(every.objects, marks))
    pairs = ({place: mark} for place, mark in itertools.islice(marks.items(), MAX_SINGLE))
    return [warning for pair in pairs for warning in _found(rendered(pair).objects, pair)]


def _texts(here: Location, described: Described | None, value: Json) -> Iterator[Location]:
    """Yield the location of each value that may be any text."""
    if isinstance(value, dict):
        entries = dict(described.entries) if isinstance(described, Group) else {}
        free = FreeMapping() if isinstance(described, FreeMapping) or described is None else None
        for key, item in value.items():
            if here or key not in _LABELS:
                yield from _texts((*here, key), entries.get(key, free), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            number = kind_of(described, item) if isinstance(described, Items) else None
            kind = described.kinds[number] if isinstance(described, Items) and number is not None else None
            yield from _texts((*here, index), kind, item)
    elif value is not None and here[-1] != "type" and not _is_safe(described):
        yield here


def _is_safe(described: Described | None) -> bool:
    return isinstance(described, Leaf) and described.type in _SAFE_TYPES


def _marked(value: Json, marks: Mapping[Location, str], here: Location) -> Json:
    """Return a copy of the value at `here` with marks at their locations."""
    if here in marks:
        return marks[here]
    if isinstance(value, dict):
        return {key: _marked(item, marks, (*here, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, marks, (*here, index)) for index, item in enumerate(value)]
    return value


def _found(objects: tuple[Object, ...], marks: Mapping[Location, str]) -> Iterator[str]:
    """Yield a warning for each mark in code that is not a quoted word."""
    for code in (code for item in objects for code in _code(item, str(item.get("kind")))):
        rest = (_without_words(code.text) if code.is_shell else code.text).lower()
        for location, mark in marks.items():
            if mark.partition("'")[0] in rest:
                name = ".".join(map(str, location))
                message = f"{name} becomes a part of the code in {code.place}: a value such as $(…) would run there"
                yield f"{message}; {_HINT}"


def _without_words(code: str) -> str:
    """Return code of a shell without the marks that are quoted words: outside of quotes and of here-documents."""
    if not _QUOTED_MARK.search(code):
        return code
    rest: list[str] = []
    within = [""]
    index = 0
    while index < len(code):
        quoted = _QUOTED_MARK.match(code, index) if within[-1] in ("", "$(") else None
        if quoted:
            index = quoted.end()
            continue
        character, pair = code[index], code[index : index + 2]
        if pair == "<<" and within[-1] != "'":
            return "".join(rest) + code[index:]
        step = 2 if within[-1] != "'" and (character == "\\" or pair == "$(") else 1
        _follow(within, pair if pair == "$(" else character)
        rest.append(code[index : index + step])
        index += step
    return "".join(rest)


def _follow(within: list[str], character: str) -> None:
    """Note the quote or substitution that begins or ends with a character."""
    ends = {"'": "'", '"': '"', "`": "`", "$(": ")"}
    if ends.get(within[-1]) == character:
        within.pop()
    elif within[-1] != "'" and (character in ends and not (character == "'" and within[-1] == '"')):
        within.append(character)


def _code(value: Json, here: str) -> Iterator[_CodeText]:
    """Yield each text in an object that runs as code."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _code(item, f"{here}[{index}]")
    elif isinstance(value, dict):
        if here == "ConfigMap":
            yield from _scripts(mapping(value.get("data")))
        yield from _arguments(value, here)
        for key, item in value.items():
            yield from _code(item, f"{here}.{key}")


def _scripts(data: Mapping[str, Json]) -> Iterator[_CodeText]:
    for key, text in data.items():
        if isinstance(text, str) and (text.startswith("#!") or _SCRIPT_KEY.fullmatch(key)):
            is_shell = _SHELL_LINE.match(text) if text.startswith("#!") else _SHELL_KEY.fullmatch(key)
            yield _CodeText(f"ConfigMap.data.{key}", text, is_shell is not None)


def _arguments(value: Mapping[str, Json], here: str) -> Iterator[_CodeText]:
    """Yield the arguments of a command that are code; further options may precede the code."""
    variables = Expander()
    for variable in map(mapping, listing(value.get("env"))):
        if isinstance(variable.get("value"), str):
            variables.add(str(variable.get("name")), str(variable["value"]))
    words = [
        (f"{here}.{key}[{index}]", variables.expand(word))
        for key in ("command", "args")
        for index, word in enumerate(listing(value.get(key)))
        if isinstance(word, str)
    ]
    programs: list[str] = []
    before = ""
    for place, word in words:
        is_shell = not any(_INTERPRETER.fullmatch(program) for program in programs)
        options = {option for program in programs for option in _OF_PROGRAM.get(program, ())}
        joined = _LONG_WITH_CODE.match(word) or (None if is_shell else _SHORT_WITH_CODE.match(word))
        if before == "code" and _FLAG.fullmatch(word):
            before = "value" if _FLAG_WITH_VALUE.fullmatch(word) else "code"
        elif before == "value":
            before = "code"
        elif before == "code":
            yield _CodeText(place, word, is_shell)
            before = ""
        elif _CODE_OPTION.fullmatch(word) or word in options:
            before = "code"
        elif joined:
            yield _CodeText(place, word[joined.end() :], is_shell)
        programs.append(posixpath.basename(word))
