"""Puts the compiled templates into the wheel; of an installation in place, into the checkout.

`packager.builder.templating` says what they are good for.
After a change of a template, `python hatch_build.py` compiles them again; until then, that template is slower.
"""

from __future__ import annotations

import hashlib
import os
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Mapping


class CompiledTemplates(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles the templates before a wheel is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the module, and have it packed although git ignores it."""
        del version
        path = compile_templates(Path(self.root))
        build_data["artifacts"].append(f"/{path.relative_to(self.root).as_posix()}")


def compile_templates(checkout: Path) -> Path:
    """Write the module of the compiled templates of `checkout`, and return its path."""
    sys.path.insert(0, str(checkout))
    try:
        from packager.builder import templating  # noqa: PLC0415 - of the checkout that is built
    finally:
        sys.path.remove(str(checkout))
    path = checkout / "packager/builder" / f"{templating.COMPILED}.py"
    source = module(templating.roots(checkout / "packager"))
    if not path.is_file() or path.read_text(encoding="utf-8") != source:
        part = path.with_name(f".{templating.COMPILED}.{os.getpid()}")  # others may be importing it
        part.write_text(source, encoding="utf-8")
        part.replace(path)
    return path


def module(folders: Mapping[str, Path]) -> str:
    """Return the source of a module that holds all templates in `folders`, compiled."""
    import jinja2  # noqa: PLC0415 - hatchling imports this file also where it is not installed
    from jinja2.bccache import bc_version  # noqa: PLC0415

    from packager.builder import templating  # noqa: PLC0415

    filters = dict.fromkeys(templating.FILTERS, _unavailable_filter)
    environment = templating.make_environment(jinja2.ChoiceLoader(templating.loaders(folders)), filters)
    functions, entries = [], []
    for number, name in enumerate(environment.list_templates()):
        assert environment.loader is not None
        text = environment.loader.get_source(environment, name)[0]
        code = textwrap.indent(environment.compile(text, name, raw=True), "    ")
        functions.append(f"def template_{number}(environment):\n{code}\n    __file__ = None\n    return locals()\n")
        digest = hashlib.sha256(text.encode()).hexdigest()
        entries.append(f"    {name!r}: ({digest!r}, template_{number}),\n")
    head = f'"""Made by hatch_build.py from the templates; not to be edited."""\n\nVERSION = {bc_version!r}\n'
    return "\n\n".join((head, *functions, f"TEMPLATES = {{\n{''.join(entries)}}}\n"))


def _unavailable_filter(_value: object) -> str:
    """Replace a filter: where it cannot be called, the compiler leaves the call to the template."""
    raise NotImplementedError


if __name__ == "__main__":
    compile_templates(Path(__file__).resolve().parent)
