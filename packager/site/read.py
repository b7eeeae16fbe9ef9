"""Writes, finds and reads a site's file, the nearest one, and reports all its problems."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from packager.base import atomic, paths, yamlio
from packager.base.errors import ToolError, UsageError, reason, unreadable
from packager.base.faults import Fault
from packager.base.problems import ordered, show, similar
from packager.base.values import Value, as_plain, replace
from packager.kubernetes.allowed.judge import annotation_fault, is_below, is_free_domain
from packager.kubernetes.allowed.table import ANNOTATION
from packager.kubernetes.allowed.values import Facts, fits
from packager.kubernetes.mountpath import root_fault
from packager.modelspec import conversion
from packager.package.image import registry_complaint
from packager.package.layout import INVENTORY
from packager.package.options import BY_NAME, OPTIONS, PLACEMENT, exclusions
from packager.site.config import TEXT, SiteConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.base.yamlio import Document, Location
    from packager.site.config import OptionValues

SHORT = {"queue": "queue", "pull-secret": "pullSecret"}
"""The options that have a key of their own in a site's file."""

_STORAGES = tuple(option.name for option in OPTIONS if option.places)


_FOLDER_FILE = "mlpack-site.yaml"
"""The name of the file for a folder and all folders below it."""


class SetValue(Value, frozen=True):
    """A value that a site sets: its key as in the file, the value, and its file and line."""

    key: str
    value: Any
    place: str


class SiteSettings(Value, frozen=True):
    """A site's file: its path, its content, and where each value is."""

    path: Path
    config: SiteConfig
    document: Document

    @property
    def entries(self) -> tuple[SetValue, ...]:
        """The values by their keys, such as `storage.pvc.OUTPUT_CLAIM`, in order."""
        found = []
        for location, value in _values(self.config):
            place = self.document.problem(location, "", at_key=True)
            found.append(SetValue(".".join(location), value, f"{place.file}:{place.line}"))
        return tuple(found)

    @property
    def storage(self) -> tuple[str, ...]:
        """The options of storage that are on."""
        return tuple(self.config.storage or ())

    @property
    def options(self) -> tuple[str, ...]:
        """The other options that are on."""
        set_keys = {entry.key for entry in self.entries}
        chosen = {*self.config.options, *(name for name, key in SHORT.items() if key in set_keys)}
        if set_keys & {"nodeSelector", "tolerations", "annotations"}:
            chosen.add(PLACEMENT)
        return tuple(name for name in BY_NAME if name in chosen)

    @property
    def values(self) -> dict[str, str]:
        """The values for `site.env`."""
        short = {"queue": "QUEUE", "pullSecret": "PULL_SECRET"}
        keys = {entry.key: short.get(entry.key, "".join(entry.key.split(".")[2:])) for entry in self.entries}
        return {keys[entry.key]: entry.value for entry in self.entries if keys[entry.key]}

    @property
    def ids(self) -> dict[str, int]:
        """The ids that the site sets, as `uid`, `gid` and `fs_group`."""
        ids = {name: getattr(self.config.ids, name, None) for name in ("uid", "gid", "fs_group")}
        return {name: value for name, value in ids.items() if value is not None}

    @property
    def placement(self) -> dict[str, Any]:
        """The fields of a pod for the option `placement`."""
        return {entry.key: entry.value for entry in self.entries if entry.key in ("nodeSelector", "tolerations")}


def _values(config: SiteConfig) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value that is set, with its location: each id, each option and each of its values by itself."""
    for key, value in as_plain(config).items():
        if key in ("storage", "options"):
            for name, values in (value or {}).items():
                yield (key, name), "on"
                yield from (((key, name, part), str(text)) for part, text in (values or {}).items())
        elif key == "ids":
            yield from (((key, name), number) for name, number in (value or {}).items() if number is not None)
        elif key == "tolerations" and value is not None:
            yield (key,), [{name: part for name, part in entry.items() if part is not None} for entry in value]
        elif key != "annotationDomains" and value is not None:
            yield (key,), value


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


def text(values: Mapping[str, str]) -> str:
    """Return the text of a new file, with the lines of some of QUESTIONS filled in."""
    new = TEXT
    for key, value in values.items():
        line = f"{key}: {json.dumps(value)}".replace("\\", r"\\")
        new = re.sub(rf"^#{key}: .*$", line, new, flags=re.MULTILINE)
    return new


def create(path: Path, values: Mapping[str, str], *, force: bool) -> None:
    """Write a new, commented file; the folder is created."""
    content = text(values).encode()
    parsed(path, content)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"{path.parent} cannot be created: {reason(error)}") from None
    with atomic.file(path, exists_hint=None if force else "--force replaces it") as stream:
        stream.write(content)


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
    """Return the words of `--allow` for the annotations of the user's own file that are of the site's own domains.

    A file beside a package may have come with it, so this is for the user's own file only.
    """
    config = read(path).config
    keys = sorted(config.annotations or ())
    return tuple(f"{ANNOTATION}{key}" for key in keys if is_below(key.rpartition("/")[0], config.annotation_domains))


def _faults(config: SiteConfig) -> Iterator[Fault]:
    """Yield the faults that the types cannot express."""
    if config.registry is not None and (message := registry_complaint(config.registry)):
        yield Fault(("registry",), f"{message}, found {show(config.registry)}")
    if config.root is not None and (message := root_fault(config.root)):
        yield Fault(("root",), f"{message}, found {show(config.root)}")
    for key, options in (("storage", config.storage or {}), ("options", config.options)):
        names = _STORAGES if key == "storage" else tuple(name for name in BY_NAME if name not in _STORAGES)
        yield from _faults_of_options(key, options, names)
    for conflict in exclusions(config.storage or ()):
        yield replace(conflict.below(("storage",)), at_key=True)
    if config.ids is not None and config.ids.uid == 0 and "root" not in config.options:
        yield Fault(("ids", "uid"), "user 0 needs the option root", "options: {root: {}}")
    yield from _faults_of_placement(config)
    for index, domain in enumerate(config.annotation_domains):
        if not is_free_domain(domain):
            message = "annotations of this domain have a meaning: expected one of yours"
            yield Fault(("annotationDomains", index), message)


def _faults_of_placement(config: SiteConfig) -> Iterator[Fault]:
    for key, value in (
        ("nodeSelector", config.node_selector),
        ("tolerations", config.tolerations),
        ("annotations", config.annotations),
    ):
        if value is not None and not value:
            yield Fault((key,), "expected at least one entry", f"leave `{key}` out")
    for key, text in (config.annotations or {}).items():
        if message := annotation_fault(key, text, PLACEMENT, config.annotation_domains):
            yield Fault(("annotations", key), message, at_key=True)
    for index, toleration in enumerate(config.tolerations or ()):
        if not fits("taint", toleration.key, "", Facts()):
            yield Fault(("tolerations", index, "key"), "no package may tolerate the taint of the control plane")


def _faults_of_options(key: str, options: OptionValues, names: tuple[str, ...]) -> Iterator[Fault]:
    """Yield the faults of options and their values."""
    for name, values in options.items():
        here = (key, name)
        if name in SHORT:
            yield Fault(here, f"the option {name} has a key of its own", f"{SHORT[name]}: NAME", at_key=True)
        elif name not in names:
            other = "options" if key == "storage" else "storage"
            hint = f"put it below `{other}`" if name in BY_NAME else similar(name, names)
            message = f"expected one of {', '.join(name for name in names if name not in SHORT)}, found {show(name)}"
            yield Fault(here, message, hint, at_key=True)
        else:
            yield from _faults_of_values(here, name, values or {})


def _faults_of_values(place: Location, option: str, values: Mapping[str, object]) -> Iterator[Fault]:
    keys = {key.name: key for key in BY_NAME[option].keys}
    for name, value in values.items():
        if name not in keys:
            hint = similar(name, keys) or (f"the values are: {', '.join(keys)}" if keys else None)
            yield Fault((*place, name), f"the option {option} reads no {show(name)}", hint, at_key=True)
        elif complaint := keys[name].complaint(str(value)):
            yield Fault((*place, name), complaint)
    for key in keys.values():
        if not key.usual and key.only is None and key.name not in values:
            message = f"the option {option} needs {key.name}"
            yield Fault(place, message, f"{option}: {{{key.name}: {key.example}}}", at_key=True)
