"""What `--with` and `--site` select: options by name, components out of a site's own folders, and values for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager import paths, tree, yamlio
from packager.components import BY_NAME, KEYS, OPTIONS, SITE, conflicts
from packager.contents import Limits
from packager.errors import UsageError, VerificationError
from packager.problems import similar
from packager.spec.fields import LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A component is a few lines of YAML; this leaves room for scripts.
_LIMITS = Limits(size=1 << 20, files=100)
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_TAKEN = (SITE, "base", *BY_NAME)


@dataclass(frozen=True, slots=True)
class OwnComponent:
    """A component of a site, which no package brings by itself: its name, and its files."""

    name: str
    files: tuple[tree.Entry, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """What is switched on in a package as it is built.

    Attributes:
        options: Names of options, in the order in which overlays list them.
        own: The site's own components, which come after them.
        values: Values of `site.env`.
    """

    options: tuple[str, ...] = ()
    own: tuple[OwnComponent, ...] = ()
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def names(self) -> tuple[str, ...]:
        """Every component that is on."""
        return (*self.options, *(component.name for component in self.own))

    @property
    def lacking(self) -> tuple[tuple[str, str], ...]:
        """Options that are on, each with a key that has no value yet."""
        keys = [(name, key) for name in self.options for key in BY_NAME[name].keys]
        return tuple((name, key.name) for name, key in keys if not key.usual and key.name not in self.values)


def select(given: Sequence[str], settings: Sequence[str] = ()) -> Selection:
    """Return what the command line selects.

    Args:
        given: Options by name; folders as paths, with a slash in them.
        settings: KEY=VALUE each, for `site.env`.

    Raises:
        UsageError: There is no such option, key or component, or they do not go together.
        ToolError: A folder cannot be read.
    """
    wanted = {name for name in given if "/" not in name}
    for name in wanted - BY_NAME.keys():
        hint = similar(name, BY_NAME) or "a folder is written with a slash, such as ./ours"
        raise UsageError(f"--with {name}: there is no such option; there are: {', '.join(BY_NAME)}", hint=hint)
    for conflict in conflicts(wanted):
        raise UsageError(f"--with: {conflict.message}", hint=conflict.hint)
    own = {path: _component(path) for path in given if "/" in path}
    names = [component.name for component in own.values()]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--with: two folders are called {name}")
    options = tuple(option.name for option in OPTIONS if option.name in wanted)
    return Selection(options, tuple(own.values()), MappingProxyType(dict(map(_value, settings))))


def _value(setting: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals:
        raise UsageError(f"--site {setting}: expected KEY=VALUE")
    if name not in KEYS:
        raise UsageError(f"--site {setting}: no option reads {name!r}", hint=similar(name, KEYS))
    if complaint := KEYS[name].complaint(value):
        raise UsageError(f"--site {name}: {complaint}")
    return name, value


def _component(given: str) -> OwnComponent:
    """Read the component in the folder `given`."""
    folder = Path(given)
    if not paths.is_folder(folder):
        raise UsageError(f"--with {given}: there is no such folder")
    name = folder.resolve().name
    if name in _TAKEN or not re.fullmatch(LABEL, name):
        why = "is a folder of every package" if name in _TAKEN else "is not lower-case letters, digits and '-'"
        raise UsageError(f"--with {given}: the name {name!r} {why}", hint="give the folder another name")
    try:
        files = tuple(tree.walk(folder, _LIMITS))
    except VerificationError as error:
        raise UsageError(f"--with {error}") from None
    found = [entry for entry in files if entry.path in _KUSTOMIZATIONS]
    if len(found) != 1:
        raise UsageError(f"--with {given}: expected one kustomization.yaml there, found {len(found) or 'none'}")
    _check_kind(found[0])
    return OwnComponent(name, files)


def _check_kind(entry: tree.Entry) -> None:
    path = str(entry.content)
    document, problems = yamlio.load(b"".join(tree.chunks(entry)), path)
    if problems:
        raise UsageError(f"--with: {path} is not YAML", problems=problems)
    kind = document.data.get("kind") if isinstance(document.data, dict) else None
    if kind != "Component":
        hint = "a component begins with `apiVersion: kustomize.config.k8s.io/v1alpha1` and `kind: Component`"
        raise UsageError(f"--with: {path}: expected the kind Component, found {kind!r}", hint=hint)
