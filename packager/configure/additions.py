"""Lists options, and adds them to a package that was built without them, as a build with them does: from its own spec.

The inventory has the digest of each component that the build could have made. So a later check
recognizes the component of the build, whatever version of mlpack has added it.

Tests: configure/test_additions.py.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from packager import __version__
from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.values import Value
from packager.configure import settings
from packager.package import integrity, kustomization, layout, tree
from packager.package.opened import opened
from packager.package.options import BY_NAME, OPTIONS, TRAITS, VARIABLES, offered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from packager.builder.render import Components
    from packager.configure.settings import Files
    from packager.kubernetes.podsecurity import Level
    from packager.package.opened import Package

_NAMES = [option.name for option in OPTIONS]


def add(files: Files, overlay: str, name: str) -> None:
    """Add an option to an overlay, switched off: its component, its line and its values, as far as they are missing."""
    from packager.builder.render import option_line, sections  # noqa: PLC0415 - imports jinja2

    package, option = files.package, BY_NAME[name]
    present = settings.options(files, overlay)
    digest = package.inventory.get("options", {}).get(name)
    is_sealed = any(layout.component_of(path) == name for path in package.inventory["files"])
    if name not in present and not ((digest or is_sealed) and _fits(files.components, overlay, name)):
        hint = TRAITS[option.only].format(overlay) if option.only else f"build the package again with --with {name}"
        raise UsageError(f"{overlay} has no option {name!r}; it has: {', '.join(present) or 'none'}", hint=hint)
    if digest and not is_sealed:
        _write_component(files, name, digest)
    if name in present:
        return
    plan = files.components.plan
    path = layout.kustomization(overlay)
    line, earlier = option_line(option, plan.spec.framework), _NAMES[: _NAMES.index(name)]
    files.write(path, kustomization.offer(files.read(path), line, earlier, package.shown(path)))
    path = layout.site_env(layout.common(plan.spec.framework))
    text = files.read(path)
    for section in sections(plan, [option], envfile.keys(text)):
        text = text.rstrip(b"\n") + b"\n\n" + section.encode()
    files.write(path, text)


def _write_component(files: Files, name: str, digest: str) -> None:
    from packager.builder.render import component_digest  # noqa: PLC0415 - imports jinja2

    entries = files.components.files(name)
    if component_digest(entries) != digest:
        built = files.package.inventory.get("tool", {}).get("version")
        message = f"mlpack {__version__} makes another {name} than mlpack {built}, which built {files.package.source}"
        raise UsageError(message, hint=f"mlpack {built} can add it, or build the package again")
    for entry in entries:
        if not (layout.is_placement(entry.path) and files.before(entry.path)):  # it may have other values by now
            files.write(entry.path, b"".join(tree.chunks(entry)))


def can_add(files: Files, overlay: str, name: str) -> bool:
    """Return whether an option that an overlay does not list fits it."""
    return name in files.package.inventory.get("options", {}) and _fits(files.components, overlay, name)


def keys(files: Files, names: Iterable[str]) -> set[str]:
    """Return the keys of `site.env` that come with options which are added."""
    return {key.name for name in names for key in BY_NAME[name].keys if files.components.plan.has(key.only)}


def _fits(components: Components, overlay: str, name: str) -> bool:
    planned = {planned.name: planned for planned in components.plan.overlays}
    return overlay in planned and BY_NAME[name] in offered(components.plan.traits_of(planned[overlay]))


def carry(old: Package, new: Package) -> dict[str, bytes]:
    """Return the files with which a newer package has the options that are on in an older one, switched off.

    They are those that fit the newer package and that its overlays do not list; their values are those of its build.
    """
    before, files = settings.Files(old), settings.Files(new)
    overlays = set(old.overlays) & set(new.overlays)
    options = {overlay: settings.options(before, overlay) for overlay in overlays}
    on = {overlay: [name for name, is_on in listed.items() if is_on] for overlay, listed in options.items()}
    offer(files, on, b"".join(map(before.read, settings.site_files(old))))
    return files.changed()


def completed(package: Package, entries: Mapping[str, tree.Entry]) -> tuple[Package, dict[str, bytes]]:
    """Return a package as if it had been built with the options that were added to it since, switched off.

    Returns:
        The package with these options in its inventory; and the contents of files which they change in the build.
    """
    package, _ = integrity.with_added_options(package, entries)
    files = settings.Files(package)
    added = {overlay: _added(files, overlay) for overlay in package.overlays}
    if not any(added.values()):
        return package, {}
    values = b"".join(map(files.read, settings.site_files(package)))
    sealed = {path: package.sealed(path) or b"" for path in package.inventory["editable"]}
    for path, content in sealed.items():
        files.write(path, content)
    with suppress(UsageError):  # another version of mlpack has added them, or built the package
        offer_as_delivered(files, added, values)
    return package, {path: files.read(path) for path in sealed if files.read(path) != sealed[path]}


def offer_as_delivered(files: Files, options: Mapping[str, Sequence[str]], values: bytes) -> None:
    """Add options to overlays as `offer` does, with those of their keys alone that `values` has.

    An option may have got others since it was added, which then are new values of a newer package.
    """
    before = {key for path in settings.site_files(files.package) for key in envfile.keys(files.read(path))}
    offer(files, options, values)
    for path in settings.site_files(files.package):
        text = files.read(path)
        for key in set(envfile.keys(text)) - before - set(envfile.keys(values)):
            text = re.sub(rb"(?m)^# .*\n#?%s=.*\n" % key.encode(), b"", text)
        files.write(path, text)


def _added(files: Files, overlay: str) -> list[str]:
    """Return the names of the options that an overlay lists or offers, and that it was sealed without."""
    path = layout.kustomization(overlay)
    sealed = {component.path for component in kustomization.components(files.package.sealed(path) or b"", path)}
    with suppress(UsageError):  # it is not YAML
        listed = kustomization.components(files.read(path), path)
        return [item.name for item in listed if item.name in BY_NAME and item.path not in sealed]
    return []


def offer(files: Files, options: Mapping[str, Sequence[str]], values: bytes) -> None:
    """Add options to overlays, switched off, as far as they fit and are not there, in the order of their `values`."""
    places = {key: number for number, key in enumerate(dict.fromkeys(envfile.keys(values)))}
    names = {name for listed in options.values() for name in listed if name in BY_NAME}
    order = {
        name: min((places[key.name] for key in BY_NAME[name].keys if key.name in places), default=0) for name in names
    }
    for name in sorted(names, key=lambda name: (order[name], name)):
        for overlay, listed in options.items():
            if name in listed and name not in settings.options(files, overlay) and can_add(files, overlay, name):
                add(files, overlay, name)


class PackageOption(Value, frozen=True):
    """One option that fits a package."""

    name: str
    summary: str
    in_package: bool  # else `mlpack configure --with NAME` adds it
    on: tuple[str, ...]  # the overlays in which it is on
    keys: tuple[str, ...]  # of site.env
    pod_security: Level  # the strictest level that a workload reaches with it


class PackageOptions(Value, frozen=True):
    """The options that fit a package, in the order in which overlays list them."""

    package: str
    options: tuple[PackageOption, ...]


def options(path: Path) -> PackageOptions:
    """Return the options of the package at `path`, a folder or an archive: what it has, and what can be added."""
    with opened(path) as package:
        files = settings.Files(package)
        switches = {overlay: settings.options(files, overlay) for overlay in package.overlays}
        present = {layout.component_of(path) for path in package.inventory["files"]}
        present |= {folder.name for folder in package.folder.glob(f"{layout.COMMON}/*") if folder.is_dir()}
        texts = [files.read(layout.env(overlay)) for overlay in package.overlays]
        variables = {line.key for text in texts for line in envfile.lines(text)}
        return PackageOptions(
            package.name,
            tuple(
                PackageOption(
                    option.name,
                    option.summary,
                    option.name in present,
                    tuple(overlay for overlay, names in switches.items() if names.get(option.name)),
                    tuple(key.name for key in option.keys if VARIABLES.get(key.only or "") in (None, *variables)),
                    option.level,
                )
                for option in OPTIONS
                if option.name in present or option.name in package.inventory.get("options", {})
            ),
        )
