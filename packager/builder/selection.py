"""Resolves `--with` and `--site`: options, a site's own components, and values. Tests: test_options.py."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import paths
from packager.base.errors import UsageError, VerificationError
from packager.base.names import LETTER_FIRST
from packager.base.paths import Limits
from packager.base.problems import similar
from packager.base.values import Value, field
from packager.package import placement, tree
from packager.package.layout import KUSTOMIZATIONS, SITE
from packager.package.options import BY_NAME, KEYS, KNOWN, OPTIONS, conflicts
from packager.workloads.pods import SITE_ANNOTATIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# A component is a few lines of YAML; this leaves room for scripts.
_LIMITS = Limits(size=1 << 20, files=100)
ALL = "all"
"""The name for `--with` that puts all options into a package, switched off."""

_RESERVED_NAMES = (SITE, "base", ALL, SITE_ANNOTATIONS, *KNOWN)


class OwnComponent(Value, frozen=True):
    """A component from a site's own folders: its name and its files."""

    name: str
    files: tuple[tree.Entry, ...]


class Selection(Value, frozen=True):
    """The components that a build switches on."""

    options: tuple[str, ...] = ()  # names of options, in the order in which overlays list them
    own: tuple[OwnComponent, ...] = ()  # the site's own components, which come after them
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # values of `site.env`
    # fields of a pod for `placement/placement.yaml`, in place of those that every package has
    placement: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # annotations of all pods
    every: bool = False  # whether the package contains all options, and not only those that are on

    @property
    def names(self) -> tuple[str, ...]:
        """The values of `--with` that select this: `all`, and every component that is on."""
        return (*([ALL] if self.every else ()), *self.options, *(component.name for component in self.own))

    def missing_values(self, traits: Collection[str]) -> tuple[tuple[str, str], ...]:
        """Return the options that are on, each with a key that has no value yet and that a package needs."""
        keys = [(name, key) for name in self.options for key in BY_NAME[name].keys]
        needed = [(name, key) for name, key in keys if key.only is None or key.only in traits]
        return tuple((name, key.name) for name, key in needed if not key.usual and key.name not in self.values)


def select(selected: Sequence[str], settings: Sequence[str] = ()) -> Selection:
    """Return the selected components: options by name, or `ALL`, and folders as paths, with a slash in them.

    `settings` are KEY=VALUE each, for `site.env`.
    """
    option_names = {name for name in selected if "/" not in name and name != ALL}
    for name in option_names - BY_NAME.keys():
        hint = similar(name, BY_NAME) or "write a folder with a slash, such as ./ours"
        raise UsageError(f"--with {name}: unknown option; the options are: {', '.join(BY_NAME)}", hint=hint)
    for conflict in conflicts(option_names):
        raise UsageError(f"--with: {conflict.message}", hint=conflict.hint)
    components = {path: _component(path) for path in selected if "/" in path}
    names = [component.name for component in components.values()]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--with: two folders have the name {name}")
    options = tuple(option.name for option in OPTIONS if option.name in option_names)
    placed = [setting for setting in settings if setting.partition("=")[0] in placement.FIELDS]
    values = dict(_value(setting) for setting in settings if setting not in placed)
    fields: dict[str, Any] = {}  # the last value of a field counts
    for key, _, value in (setting.partition("=") for setting in placed):
        fields |= placement.parse(key, key, value)
    return Selection(
        options,
        tuple(components.values()),
        MappingProxyType(values),
        MappingProxyType(fields),
        every=ALL in selected,
    )


def _value(setting: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals:
        raise UsageError(f"--site {setting}: expected KEY=VALUE")
    if name not in KEYS:
        hint = similar(name, (*KEYS, *placement.FIELDS))
        raise UsageError(f"--site {setting}: no option reads {name!r}", hint=hint)
    if complaint := KEYS[name].complaint(value):
        raise UsageError(f"--site {name}: {complaint}")
    return name, value


def _component(path: str) -> OwnComponent:
    """Return the component in a folder."""
    folder = Path(path)
    if not paths.is_folder(folder):
        raise UsageError(f"--with {path}: folder not found")
    name = folder.resolve().name
    if name in _RESERVED_NAMES or not re.fullmatch(LETTER_FIRST, name):
        problem = (
            "is the name of a folder in every package"
            if name in _RESERVED_NAMES
            else "is not lower-case letters, digits and '-'"
        )
        raise UsageError(f"--with {path}: the name {name!r} {problem}", hint="give the folder another name")
    try:
        files = tuple(tree.walk(folder, _LIMITS))
    except VerificationError as error:
        raise UsageError(f"--with {error}") from None
    kustomizations = [entry for entry in files if entry.path in KUSTOMIZATIONS]
    if len(kustomizations) != 1:
        raise UsageError(f"--with {path}: expected one kustomization.yaml there, found {len(kustomizations) or 'none'}")
    return OwnComponent(name, files)
