"""A site's defaults: the types of its file, which is written, and read with all its problems."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from packager.base import atomic, yamlio
from packager.base.errors import ToolError, UsageError, reason, unreadable
from packager.base.names import KEY, LABEL_VALUE, SUBDOMAIN
from packager.base.problems import Fault, ordered, show, similar
from packager.base.values import Fields, Meta, Value, as_dict, as_plain, field, replace
from packager.base.yamlio import Document, Location
from packager.kubernetes.allowed.judge import is_below
from packager.kubernetes.allowed.table import ANNOTATION
from packager.kubernetes.containers import root_fault
from packager.modelspec import conversion
from packager.package.image import registry_complaint
from packager.package.options import BY_NAME, OPTIONS, PLACEMENT, exclusions

Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Name = Annotated[
    str, Meta(max_length=253, pattern=rf"^{SUBDOMAIN}$", title="the name of an object in Kubernetes (at most 253)")
]
Domain = Annotated[str, Meta(max_length=253, pattern=rf"^{SUBDOMAIN}$", title="a domain such as example.com")]
Key = Annotated[str, Meta(max_length=317, pattern=rf"^{KEY}$", title="a key such as pool or example.com/pool")]
LabelValue = Annotated[
    str, Meta(max_length=63, pattern=rf"^({LABEL_VALUE})?$", title="the value of a label (at most 63)")
]
Scalar = Annotated[str, Meta(max_length=4096)] | int | float
OptionValues = dict[str, dict[str, Scalar] | None]
"""Options by name, each with its values for site.env."""


class IdsConfig(Fields, frozen=True, rename="camel", omit_defaults=True):
    """The user and groups that pods run as."""

    uid: Id | None = None
    gid: Id | None = None
    fs_group: Id | None = None


class TolerationConfig(Fields, frozen=True, rename="camel", omit_defaults=True):
    """A taint that pods tolerate, as in a pod."""

    key: Key
    operator: Literal["Exists", "Equal"] | None = None
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class SiteConfig(Fields, frozen=True, rename="camel", omit_defaults=True):
    """The defaults of a site; None leaves a package as it was built."""

    registry: Annotated[str, Meta(max_length=1000)] | None = None
    root: Annotated[str, Meta(max_length=4096)] | None = None
    ids: IdsConfig | None = None
    storage: OptionValues | None = None
    queue: Name | None = None
    pull_secret: Name | None = None
    node_selector: Annotated[dict[Key, LabelValue], Meta(min_length=1, max_length=100)] | None = None
    annotations: (
        Annotated[dict[Key, Annotated[str, Meta(max_length=4096)]], Meta(min_length=1, max_length=100)] | None
    ) = None
    tolerations: Annotated[list[TolerationConfig], Meta(min_length=1, max_length=100)] | None = None
    options: OptionValues = field(default_factory=dict)
    annotation_domains: Annotated[list[Domain], Meta(max_length=100)] = field(default_factory=list)


TEXT = """\
# The defaults of a site: what mlpack sets in every package here, unless the command line says otherwise.
# `mlpack site show` prints what is in effect.

# Where images are pulled from.
#registry: registry.example.com/team

# The folder that contains the packages, as the pods see it.
#root: /nfs/models

# The user and the groups that pods run as.
#ids: {uid: 1000, gid: 1000, fsGroup: 1000}

# Where results, datasets and checkpoints are: options of storage, with their values.
#storage:
#  output-pvc: {OUTPUT_CLAIM: results}

# The LocalQueue of Kueue, and the secret for pulling images.
#queue: user-queue
#pullSecret: registry

# The nodes that pods run on, and the taints that they tolerate.
#nodeSelector: {pool: train}
#tolerations:
#  - {key: train, operator: Exists, effect: NoSchedule}

# Annotations of all pods, of those that `mlpack verify` allows, or of your own domains.
#annotations: {prometheus.io/scrape: "true"}
#annotationDomains: [example.com]

# Other site options that are on, with their values.
#options:
#  shared-memory: {SHM_SIZE: 8Gi}
"""
"""The commented file that `mlpack site init` writes."""

SHORT = {"queue": "queue", "pull-secret": "pullSecret"}
"""The options that have a key of their own in a site's file."""

_STORAGES = tuple(option.name for option in OPTIONS if option.places)


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
        found: list[tuple[tuple[str, ...], Any]] = []
        for key, value in as_plain(self.config).items():
            if key in ("storage", "options"):
                for name, values in value.items():
                    found.append(((key, name), "on"))
                    found += [((key, name, part), str(text)) for part, text in (values or {}).items()]
            elif key == "ids":
                found += [((key, name), number) for name, number in value.items()]
            elif key != "annotationDomains":
                found.append(((key,), value))
        places = [self.document.problem(location, "", at_key=True) for location, _ in found]
        return tuple(
            SetValue(".".join(location), value, f"{place.file}:{place.line}")
            for (location, value), place in zip(found, places, strict=True)
        )

    @property
    def storage(self) -> tuple[str, ...]:
        """The options of storage that are on."""
        return tuple(self.config.storage or ())

    @property
    def options(self) -> tuple[str, ...]:
        """The other options that are on."""
        set_keys = {entry.key for entry in self.entries}
        chosen = {*self.config.options, *(name for name, key in SHORT.items() if key in set_keys)}
        is_placed = not set_keys.isdisjoint(("nodeSelector", "tolerations", "annotations"))
        return tuple(name for name in BY_NAME if name in chosen or (name == PLACEMENT and is_placed))

    @property
    def values(self) -> dict[str, str]:
        """The values for `site.env`."""
        short = {"queue": "QUEUE", "pullSecret": "PULL_SECRET"}
        keys = {entry.key: short.get(entry.key, "".join(entry.key.split(".")[2:])) for entry in self.entries}
        return {keys[entry.key]: entry.value for entry in self.entries if keys[entry.key]}

    @property
    def ids(self) -> dict[str, int]:
        """The ids that the site sets, as `uid`, `gid` and `fs_group`."""
        return {name: value for name, value in as_dict(self.config.ids or IdsConfig()).items() if value is not None}

    @property
    def placement(self) -> dict[str, Any]:
        """The fields of a pod for the option `placement`."""
        return {entry.key: entry.value for entry in self.entries if entry.key in ("nodeSelector", "tolerations")}


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


def create(path: Path, *, force: bool) -> None:
    """Write a new, commented file; the folder is created."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"{path.parent} cannot be created: {reason(error)}") from None
    with atomic.file(path, exists_hint=None if force else "--force replaces it") as stream:
        stream.write(TEXT.encode())


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
        yield Fault(("ids", "uid"), "user 0 needs the option root", "options: {root: {}}", needs=(("options",),))


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
