"""Plan -> Tree: fills the templates. The only importer of jinja2.

`templates/` is laid out like what it produces:

    package/        what every package has
    overlay/        what every overlay has, whatever its kind
    kinds/<Kind>/   what a kind adds: its overlay's files, and to the base what its workloads need
    scaffold/       what `mlpack init` writes: not a package, but a spec to begin with
    *.yaml          pieces that the others share

A path's FRAMEWORK and OVERLAY become the spec's framework and the overlay's name. Beside the base, `package/` has one
folder for each option of `packager.components`, and `site/` with the values that they read.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from packager import atomic
from packager.components import OPTIONS
from packager.errors import RenderError, ToolError
from packager.spec.fields import text
from packager.tree import Entry, Tree
from packager.yamlio import MISREAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.plan import Plan, PlannedOverlay

TEMPLATES = Path(__file__).resolve().parent / "templates"

# What every YAML reads as the same text without quotes: no number, no date, none of YAML 1.1's words.
_PLAIN = re.compile(r"[A-Za-z/$][A-Za-z0-9_./()$=-]*(:[A-Za-z0-9_./()$=-]+)*")

# JSON leaves these as they are; in YAML they end a line, or may not stand in a file at all.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

_BLANK_LINES = re.compile(r"^[ \t]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Base:
    """The files of the base that its kustomization lists."""

    scripts: tuple[str, ...]
    configurations: tuple[str, ...]


def render(plan: Plan) -> Tree:
    """Return the package's files.

    Raises:
        RenderError: A template names what there is not.
    """
    entries: dict[str, Entry] = {}
    workloads = {overlay.values.kind: overlay.values.pods for overlay in plan.overlays}
    kinds = list(workloads)
    base = _base(kinds)
    for template, path in _in_package(plan, kinds):
        context = {"base": base, "kinds": kinds, "workloads": workloads, "options": OPTIONS}
        _add(entries, path, _fill(template, plan=plan, **context))
    for overlay in plan.overlays:
        for template, path in _in_overlay(plan, overlay):
            _add(entries, path, _fill(template, plan=plan, overlay=overlay, options=OPTIONS))
    for component in plan.site.own:
        for entry in component.files:
            path = f"quickstart/common/{plan.spec.framework}/k8s/mlops/{component.name}/{entry.path}"
            entries[path] = replace(entry, path=path)
    for path, source, executable in plan.payload:
        entries[path] = Entry(path, source.path, source.size, executable)
    entries["spec.yaml"] = Entry("spec.yaml", plan.text, len(plan.text))
    return Tree(plan.name, tuple(entries[path] for path in sorted(entries)), plan.about)


def scaffold(name: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the files of a new model's folder: name, content, and whether it is executable."""
    for path in _files("scaffold"):
        yield path, _fill(f"scaffold/{path}", name=name), path.endswith(".sh")


def scalar(value: object) -> str:
    """Return `value` as one YAML scalar that every YAML reader takes for just this text (or this number)."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in MISREAD:
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
    return json.dumps(value)


def code_span(value: str) -> str:
    """Return `value` as code in a cell of a Markdown table, whatever backticks and bars it holds."""
    fence = "`" * (max((len(run) for run in re.findall("`+", value)), default=0) + 1)
    pad = " " if value.startswith("`") or value.endswith("`") or not value else ""
    return f"{fence}{pad}{cell(value)}{pad}{fence}"


def cell(value: str) -> str:
    """Return `value` as text in a cell of a Markdown table."""
    return value.replace("|", r"\|")


def _add(entries: dict[str, Entry], path: str, content: str) -> None:
    data = content.encode()
    entries[path] = Entry(path, data, len(data), executable=path.endswith(".sh"))


def _in_package(plan: Plan, kinds: list[str]) -> Iterator[tuple[str, str]]:
    for root in ("package", *(f"kinds/{kind}" for kind in kinds)):
        for path in _files(root):
            if "OVERLAY" not in path and (root == "package" or path.startswith("quickstart/")):
                yield f"{root}/{path}", path.replace("FRAMEWORK", plan.spec.framework)


def _in_overlay(plan: Plan, overlay: PlannedOverlay) -> Iterator[tuple[str, str]]:
    for root in ("overlay", f"kinds/{overlay.values.kind}"):
        for path in _files(root):
            if "OVERLAY" in path:
                yield (
                    f"{root}/{path}",
                    path.replace("OVERLAY", overlay.name).replace("FRAMEWORK", plan.spec.framework),
                )


def _base(kinds: list[str]) -> Base:
    roots = ("package", *(f"kinds/{kind}" for kind in kinds))
    names = sorted(path.rpartition("/")[2] for root in roots for path in _files(root) if "/base/" in path)
    return Base(
        scripts=tuple(name for name in names if name.endswith(".sh")),
        configurations=tuple(name for name in names if name.endswith("-names.yaml")),
    )


@cache
def _files(root: str) -> tuple[str, ...]:
    top = TEMPLATES / root
    return tuple(sorted(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        # YAML, Markdown and shell, never HTML: what a value may do there is the filters' affair.
        autoescape=False,  # noqa: S701
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        bytecode_cache=_bytecode_cache(),
    )
    environment.filters.update(yaml=scalar, text=text, cell=cell, code=code_span)
    return environment


def _bytecode_cache() -> jinja2.BytecodeCache | None:
    """Return where compiled templates are kept: compiling them is half of what a small build takes."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlpack" / "templates"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a folder that cannot be written, or a user without a home
        return None
    atomic.sweep(folder)
    return _Cache(str(folder))


class _Cache(jinja2.FileSystemBytecodeCache):
    """A cache that cannot fail a build: what cannot be written is compiled again next time."""

    def dump_bytecode(self, bucket: Any) -> None:
        # Jinja's own way leaves its temporary file in the cache for ever when the process is killed.
        with suppress(OSError, ToolError), atomic.file(Path(self._get_cache_filename(bucket))) as stream:
            bucket.write_bytecode(stream)


def _fill(template: str, **context: object) -> str:
    try:
        content = _environment().get_template(template).render(context)
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", None)
        place = f"{template}:{line}" if line else template
        raise RenderError(f"template {place}: {error.message}") from None
    if template.endswith(".yaml") and not template.startswith("scaffold/"):
        # A macro ends with its last line's newline, and so does the line that calls it.
        content = _BLANK_LINES.sub("", content)
    return content
