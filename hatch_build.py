"""Puts the compiled templates into the wheel; of an installation in place, into the checkout.

`packager.builder.templating` says what they are good for.
After a change of a template, `python hatch_build.py` compiles them again; until then, that template is slower.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


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
        from packager.builder.templating import COMPILED, module, roots  # noqa: PLC0415 - of the checkout that is built
    finally:
        sys.path.remove(str(checkout))
    path = checkout / "packager/builder" / f"{COMPILED}.py"
    source = module(roots(checkout / "packager"))
    if not path.is_file() or path.read_text(encoding="utf-8") != source:
        part = path.with_name(f".{COMPILED}.{os.getpid()}")  # others may be importing it
        part.write_text(source, encoding="utf-8")
        part.replace(path)
    return path


if __name__ == "__main__":
    compile_templates(Path(__file__).resolve().parent)
