"""Finds and reads a site's file, the nearest one, and reports all its problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import paths, yamlio
from packager.base.errors import UsageError, unreadable
from packager.base.faults import Fault
from packager.base.problems import ordered, show, similar
from packager.base.values import Value
from packager.kubernetes.allowed.judge import annotation_fault, is_below, is_free_domain
from packager.kubernetes.allowed.table import ANNOTATION
from packager.kubernetes.allowed.values import Facts, fits
from packager.kubernetes.mountpath import root_fault
from packager.modelspec import conversion
from packager.package.image import registry_complaint
from packager.package.layout import INVENTORY
from packager.package.options import BY_NAME, OPTIONS, PLACEMENT, conflicts
from packager.site.config import SiteConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.base.yamlio import Document, Location
    from packager.site.config import OptionValues, SiteFields

SHORT = {"queue": "queue", "pull-secret": "pullSecret"}
"""The options that have a key of their own in a site's file."""

_STORAGES = tuple(option.name for option in OPTIONS if option.places)


_FOLDER_FILE = "mlpack-site.yaml"
"""The name of the file for a folder and all folders below it."""


class SiteSettings(Value, frozen=True):
    """A site's file: its path, its content, and where each value is."""

    path: Path
    config: SiteConfig
    document: Document

    def place(self, location: Location) -> str:
        """Return the file and the line of the value at `location`."""
        problem = self.document.problem(location, "", at_key=True)
        return f"{problem.file}:{problem.line}"


def read(path: Path) -> SiteSettings:
    """Return the site's defaults in a file."""
    try:
        with path.open("rb") as file:
            return parsed(path, file.read(yamlio.MAX_BYTES + 1))
    except OSError as error:
        raise unreadable(path, error) from None


def parsed(path: Path, content: bytes) -> SiteSettings:
    """Return the site's defaults in the content of a file."""
    document, problems = yamlio.load(content, str(path))
    if problems and document.is_empty:
        raise UsageError(f"{path} is not valid", problems=problems)
    config, faults = conversion.read(document, SiteConfig, _faults)
    problems += faults
    if problems or config is None:
        raise UsageError(f"{path} is not valid", problems=ordered(problems))
    return SiteSettings(path, config, document)


def own_annotations(site: SiteSettings) -> tuple[str, ...]:
    """Return the words of `--allow` for the annotations of a file that are of the site's own domains."""
    keys = {key for fields in (site.config, *site.config.overrides) for key in fields.annotations or {}}
    domains = site.config.annotation_domains
    return tuple(f"{ANNOTATION}{key}" for key in sorted(keys) if is_below(key.rpartition("/")[0], domains))


def nearest(folder: Path, config: Path) -> SiteSettings | None:
    """Return the defaults of the nearest file; None without one. `find` explains the arguments."""
    path = find(folder, config)
    return None if path is None else read(path)


def find(folder: Path, config: Path) -> Path | None:
    """Return the file of an absolute folder, or of the nearest one above that has one; else the user's `config`.

    A file inside a package is not the site's: it came with the package.
    """
    found = None
    for above in (folder, *folder.parents):
        if paths.is_file(above / INVENTORY):
            found = None
        elif found is None and paths.is_file(above / _FOLDER_FILE):
            found = above / _FOLDER_FILE
    return found or (config if paths.exists(config) else None)


def permitted(path: Path) -> tuple[str, ...]:
    """Return the words that permit the annotations which the user's own file sets and no package has by itself.

    A file beside a package may have come with it, so this is for the user's own file only.
    """
    return own_annotations(read(path))


def _faults(config: SiteConfig) -> Iterator[Fault]:
    """Yield the faults that the types cannot express."""
    yield from _faults_of_fields(config, config)
    for index, domain in enumerate(config.annotation_domains):
        if not is_free_domain(domain):
            yield Fault(
                ("annotationDomains", index), "annotations of this domain have a meaning: expected one of yours"
            )
    for index, override in enumerate(config.overrides):
        place: Location = ("overrides", index)
        if override.package is None and override.labels is None:
            message = "expected `package` or `labels`, which say for which packages this is"
            yield Fault(place, message, 'package: "resnet50-*"')
        yield from (fault.below(place) for fault in _faults_of_fields(override, config))


def _faults_of_fields(fields: SiteFields, defaults: SiteConfig) -> Iterator[Fault]:
    """Yield the faults of the defaults, or of an override of them."""
    if fields.registry is not None and (message := registry_complaint(fields.registry)):
        yield Fault(("registry",), f"{message}, found {show(fields.registry)}")
    if fields.root is not None and (message := root_fault(fields.root)):
        yield Fault(("root",), f"{message}, found {show(fields.root)}")
    for key, options in (("storage", fields.storage or {}), ("options", fields.options)):
        names = _STORAGES if key == "storage" else tuple(name for name in BY_NAME if name not in _STORAGES)
        known = defaults.options if key == "options" else {}
        yield from _faults_of_options((key,), options, names, known)
    for conflict in conflicts(fields.storage or ()):
        if len(conflict.needs) > 1:
            name = str(conflict.location[0])
            needs = tuple(("storage", *need) for need in conflict.needs)
            yield Fault(("storage", name), conflict.message, conflict.hint, at_key=True, needs=needs)
    is_root = fields.ids is not None and fields.ids.uid == 0
    if is_root and "root" not in {**defaults.options, **fields.options}:
        yield Fault(("ids", "uid"), "user 0 needs the option root", "options: {root: {}}", needs=(("options",),))
    yield from _faults_of_placement(fields, defaults)


def _faults_of_placement(fields: SiteFields, defaults: SiteConfig) -> Iterator[Fault]:
    for key, value in (
        ("nodeSelector", fields.node_selector),
        ("tolerations", fields.tolerations),
        ("annotations", fields.annotations),
    ):
        if value is not None and not value:
            yield Fault((key,), "expected at least one entry", f"leave `{key}` out")
    for key, text in (fields.annotations or {}).items():
        if message := annotation_fault(key, text, PLACEMENT, defaults.annotation_domains):
            yield Fault(("annotations", key), message, at_key=True)
    for index, toleration in enumerate(fields.tolerations or ()):
        if not fits("taint", toleration.key, "", Facts()):
            yield Fault(("tolerations", index, "key"), "no package may tolerate the taint of the control plane")


def _faults_of_options(
    place: Location, options: OptionValues, names: tuple[str, ...], known: OptionValues
) -> Iterator[Fault]:
    """Yield the faults of options and their values; `known` are those that an override adds to."""
    for name, values in options.items():
        here = (*place, name)
        if name in SHORT:
            yield Fault(here, f"the option {name} has a key of its own", f"{SHORT[name]}: NAME", at_key=True)
        elif name not in names:
            other = "options" if place == ("storage",) else "storage"
            is_elsewhere = name in BY_NAME and name not in SHORT
            hint = f"put it below `{other}`" if is_elsewhere else similar(name, names)
            message = f"expected one of {', '.join(name for name in names if name not in SHORT)}, found {show(name)}"
            yield Fault(here, message, hint, at_key=True)
        else:
            yield from _faults_of_values(here, name, values or {}, known.get(name) or {})


def _faults_of_values(
    place: Location, option: str, values: Mapping[str, object], known: Mapping[str, object]
) -> Iterator[Fault]:
    keys = {key.name: key for key in BY_NAME[option].keys}
    for name, value in values.items():
        if name not in keys:
            hint = similar(name, keys) or (f"the values are: {', '.join(keys)}" if keys else None)
            yield Fault((*place, name), f"the option {option} reads no {show(name)}", hint, at_key=True)
        elif complaint := keys[name].complaint(str(value)):
            yield Fault((*place, name), complaint)
    for key in keys.values():
        if not key.usual and key.only is None and key.name not in {**known, **values}:
            message = f"the option {option} needs {key.name}"
            yield Fault(place, message, f"{option}: {{{key.name}: {key.example}}}", at_key=True)
