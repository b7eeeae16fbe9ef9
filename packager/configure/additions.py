"""Adds options to a package that was built without them, each as a build with it makes it: from the package's own spec.

The inventory has the digest of each component that the build could have made. So a later check
recognizes the component of the build, whatever version of mlpack has added it.

Tests: configure/test_additions.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager import __version__
from packager.base import envfile
from packager.base.errors import UsageError
from packager.configure import settings
from packager.package import kustomization, layout, tree
from packager.package.options import BY_NAME, OPTIONS, TRAITS, offered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.builder.render import Components
    from packager.configure.settings import Files
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
    before = settings.Files(old)
    overlays = set(old.overlays) & set(new.overlays)
    options = {overlay: settings.options(before, overlay) for overlay in overlays}
    values = b"".join(map(before.read, settings.site_files(old)))
    on = {overlay: [name for name, is_on in listed.items() if is_on] for overlay, listed in options.items()}
    return offering(new, on, values)


def offering(package: Package, options: Mapping[str, Sequence[str]], values: bytes) -> dict[str, bytes]:
    """Return the files with which overlays of a package have options, switched off, as far as they fit.

    Args:
        package: The package.
        options: The names of the options, by overlay.
        values: Values of options, whose order they are added in.

    Raises:
        UsageError, ToolError: As `carry`.
    """
    files = settings.Files(package)
    places = {key: number for number, key in enumerate(dict.fromkeys(envfile.keys(values)))}
    names = {name for listed in options.values() for name in listed if name in BY_NAME}
    order = {
        name: min((places[key.name] for key in BY_NAME[name].keys if key.name in places), default=0) for name in names
    }
    for name in sorted(names, key=lambda name: (order[name], name)):
        for overlay, listed in options.items():
            if name in listed and name not in settings.options(files, overlay) and can_add(files, overlay, name):
                add(files, overlay, name)
    return files.changed()
