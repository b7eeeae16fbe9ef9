"""Fills in templates: the only importer of jinja2.

Compiling the templates takes longer than the rest of a small build. So `hatch_build.py` compiles all of them to Python
when the project is installed, into `packager/builder/compiled_templates.py`. A compiled template is used only if its
text has not changed since; without that module everything works, only slower. No compiled template is read from
elsewhere.
"""

from __future__ import annotations

import hashlib
import importlib
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.bccache import bc_version

from packager.base.errors import RenderError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping
    from pathlib import Path

COMPILED = "compiled_templates"
"""The name of the module with the compiled templates."""

FILTERS = frozenset(("yaml", "text", "cell", "code", "quantity_key"))
"""The names of the filters that templates may use."""


def roots(package: Path) -> dict[str, Path]:
    """Return the folders of templates in a folder `packager`, by the first part of their templates' names.

    A template for every package is named by its path below `builder/templates`, under the key "". A template of a kind
    is named by the kind's folder, then its path below that folder's `templates`: `mpijob/about.md`.
    """
    kinds = sorted((package / "workloads").glob("*/templates"))
    return {"": package / "builder/templates", **{folder.parent.name: folder for folder in kinds}}


class Templates:
    """The templates in some folders (`roots`), filled by their names."""

    def __init__(self, folders: Mapping[str, Path], filters: Mapping[str, Callable[..., str]]) -> None:
        assert filters.keys() == FILTERS
        self._environment = make_environment(_Loader(folders), filters)

    def fill(self, template: str, context: Mapping[str, object]) -> str:
        """Return the template with the values of `context` in it."""
        try:
            return self._environment.get_template(template).render(context)
        except jinja2.TemplateError as error:
            line = getattr(error, "lineno", None)
            place = f"{template}:{line}" if line else template
            raise RenderError(f"template {place}: {error.message}") from None


def loaders(folders: Mapping[str, Path]) -> list[jinja2.BaseLoader]:
    """Return the loaders of the templates in some folders, by their names."""
    kinds = {name: jinja2.FileSystemLoader(folder) for name, folder in folders.items() if name}
    return [jinja2.FileSystemLoader(folders[""]), jinja2.PrefixLoader(kinds)]


class _Loader(jinja2.ChoiceLoader):
    """Takes a template that is compiled already from the module, when it is still the same."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        super().__init__(loaders(folders))
        self._folders = {name: str(folder) for name, folder in folders.items()}
        self._compiled = _compiled()

    def load(
        self,
        environment: jinja2.Environment,
        name: str,
        globals: MutableMapping[str, Any] | None = None,  # noqa: A002 - jinja2's name
    ) -> jinja2.Template:
        digest, make = self._compiled.get(name, (None, None))
        kind, _, path = name.partition("/")
        file = f"{self._folders[kind]}/{path}" if kind in self._folders else f"{self._folders['']}/{name}"
        if make is None or digest != _digest_of(file):
            return super().load(environment, name, globals)
        values = make(environment)
        return environment.template_class.from_module_dict(environment, values, globals or {})


def _compiled() -> Mapping[str, tuple[str, Callable[[jinja2.Environment], dict[str, Any]]]]:
    try:
        compiled: Any = importlib.import_module(f"packager.builder.{COMPILED}")
    except ImportError:
        return {}
    return compiled.TEMPLATES if bc_version == compiled.VERSION else {}


def _digest_of(file: str) -> str:
    # Reading the bytes takes half the time of jinja2's loader, which a small build would notice.
    with open(file, "rb", buffering=0) as stream:  # noqa: PTH123
        return hashlib.sha256(stream.read()).hexdigest()


def make_environment(loader: jinja2.BaseLoader, filters: Mapping[str, Callable[..., str]]) -> jinja2.Environment:
    """Return the environment in which templates are compiled and filled."""
    environment = jinja2.Environment(
        # YAML, Markdown and shell, never HTML: the filters escape values.
        autoescape=False,  # noqa: S701
        loader=loader,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters.update(filters)
    return environment
