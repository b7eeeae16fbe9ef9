"""Site + package -> Defaults: what a site sets for one package, and where its file says so."""

from __future__ import annotations

from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base.values import Value, as_plain, field
from packager.package.options import BY_NAME, PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.base.yamlio import Location
    from packager.site.config import OptionValues, OverrideConfig, SiteFields, TolerationConfig
    from packager.site.read import SiteSettings

IDS = {"uid": "uid", "gid": "gid", "fs_group": "fsGroup"}
"""The ids, and their keys in a site's file."""


class Labels(Value, frozen=True):
    """The name of a package, and the names of what it was built from."""

    package: str
    model: str | None = None
    framework: str | None = None
    precision: str | None = None
    mode: str | None = None


class SetValue(Value, frozen=True):
    """A value that a site sets: its key as in the file, the value, and its file and line."""

    key: str
    value: Any
    place: str

    def as_json(self) -> dict[str, Any]:
        """Return the entry for `-o json`."""
        return {"key": self.key, "value": self.value, "from": self.place}


class Defaults(Value, frozen=True):
    """The values of a site for one package."""

    path: Path  # the site's file
    entries: tuple[SetValue, ...]  # the values by their keys, such as `storage.pvc.OUTPUT_CLAIM`, in order
    storage: tuple[str, ...] | None = None  # the options of storage; None if the site sets none
    options: tuple[str, ...] = ()  # the other options that are on
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # the values for `site.env`
    # the fields of a pod for the option `placement`
    placement: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # the annotations of all pods

    def value(self, key: str) -> Any:
        """Return the value of an entry; None without one."""
        return next((entry.value for entry in self.entries if entry.key == key), None)

    @property
    def registry(self) -> str | None:
        """The registry that images are pulled from."""
        value = self.value("registry")
        return None if value is None else str(value)

    @property
    def root(self) -> str | None:
        """The folder of packages."""
        value = self.value("root")
        return None if value is None else str(value)

    @property
    def ids(self) -> dict[str, int]:
        """The ids that the site sets, as `uid`, `gid` and `fs_group`."""
        ids = {name: self.value(f"ids.{key}") for name, key in IDS.items()}
        return {name: value for name, value in ids.items() if value is not None}


def defaults(site: SiteSettings, labels: Labels | None) -> Defaults:
    """Return the values of a site for a package; for None, those for every package.

    A key of an override replaces the one of the defaults: `ids`, `storage`, `options` and the values of an option one
    by one, except that one storage takes the place of the other.
    """
    entries: dict[str, SetValue] = {}
    for fields, place in _matching(site, labels):
        if fields.storage is not None:
            entries = {key: entry for key, entry in entries.items() if not key.startswith("storage.")}
        for key, location, value in _entries(fields):
            entries[key] = SetValue(key, value, site.place((*place, *location)))
    by_key = {key: entry.value for key, entry in entries.items()}
    storage = tuple(dict.fromkeys(key.split(".")[1] for key in by_key if key.startswith("storage.")))
    chosen = {key.split(".")[1] for key in by_key if key.startswith("options.")}
    values = {key.split(".")[2]: str(value) for key, value in by_key.items() if key.count(".") == 2}
    for key, option, name in (("queue", "queue", "QUEUE"), ("pullSecret", "pull-secret", "PULL_SECRET")):
        if key in by_key:
            chosen.add(option)
            values[name] = by_key[key]
    placement: dict[str, Any] = {key: by_key[key] for key in ("nodeSelector", "tolerations") if key in by_key}
    annotations: dict[str, str] = by_key.get("annotations", {})
    if placement or annotations:
        chosen.add(PLACEMENT)
    return Defaults(
        site.path,
        tuple(entries.values()),
        storage=storage or None,
        options=tuple(name for name in BY_NAME if name in chosen),
        values=MappingProxyType(values),
        placement=MappingProxyType(placement),
        annotations=MappingProxyType(annotations),
    )


def everything(site: SiteSettings) -> Iterator[SetValue]:
    """Yield each value in the file of a site: those of the defaults, and those of every override."""
    parts: list[tuple[SiteFields, Location]] = [(site.config, ())]
    parts += [(override, ("overrides", index)) for index, override in enumerate(site.config.overrides)]
    for fields, place in parts:
        for key, location, value in _entries(fields):
            yield SetValue(key, value, site.place((*place, *location)))


def _matching(site: SiteSettings, labels: Labels | None) -> Iterator[tuple[SiteFields, Location]]:
    """Yield the defaults, and the overrides for a package, each with its location."""
    yield site.config, ()
    for index, override in enumerate(site.config.overrides):
        if labels is not None and _is_for(override, labels):
            yield override, ("overrides", index)


def _is_for(override: OverrideConfig, labels: Labels) -> bool:
    if override.package is not None and not fnmatchcase(labels.package, override.package):
        return False
    expected = {} if override.labels is None else as_plain(override.labels)
    return all(value is None or getattr(labels, name) == value for name, value in expected.items())


def _entries(fields: SiteFields) -> Iterator[tuple[str, Location, Any]]:
    """Yield each value that is set: its key, its location below the fields, and itself."""
    for key, value in (("registry", fields.registry), ("root", fields.root)):
        if value is not None:
            yield key, (key,), value
    for name, key in IDS.items():
        if (number := getattr(fields.ids, name, None)) is not None:
            yield f"ids.{key}", ("ids", key), number
    yield from _option_entries("storage", fields.storage or {})
    for key, value in (("queue", fields.queue), ("pullSecret", fields.pull_secret)):
        if value is not None:
            yield key, (key,), value
    for key, mapping in (("nodeSelector", fields.node_selector), ("annotations", fields.annotations)):
        if mapping is not None:
            yield key, (key,), dict(mapping)
    if fields.tolerations is not None:
        yield "tolerations", ("tolerations",), _tolerations(fields.tolerations)
    yield from _option_entries("options", fields.options)


def _tolerations(entries: Sequence[TolerationConfig]) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if value is not None} for entry in as_plain(entries)]


def _option_entries(key: str, options: OptionValues) -> Iterator[tuple[str, Location, Any]]:
    for name, values in options.items():
        yield f"{key}.{name}", (key, name), "on"
        for value_name, value in (values or {}).items():
            yield f"{key}.{name}.{value_name}", (key, name, value_name), str(value)
