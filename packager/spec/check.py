"""What no type can say of a spec: how its values go together, and what Kubernetes would make of them."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager import quantity
from packager.contents import DEFAULT, ContentError, Contents
from packager.problems import similar
from packager.spec import configmap
from packager.spec.fields import Parameter, text
from packager.yamlio import MISREAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.spec.fields import Resources
    from packager.spec.files import SourceFile, Sources
    from packager.spec.model import Environment, Spec
    from packager.yamlio import Location

# kustomize reads .env files by bufio.Scanner, which stops without a word at a line of 64 KiB (kustomize api/kv).
ENV_LINE_BYTES = (64 << 10) - 1

# A folder may have one of these, and the package brings it (kustomize, api/konfig).
KUSTOMIZATIONS = frozenset(("kustomization.yaml", "kustomization.yml", "kustomization"))

STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")

_ELSEWHERE = "put large files into the image, or list them under `assets`"

RESERVED = {
    "MODEL_DIR": "--root says where it begins",
    "REGISTRY": "`image.registry` or --registry says what it is",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and where in the spec.

    Attributes:
        location: Where the value stands.
        message: What was expected and found.
        hint: The fix, where it can be known.
        at_key: Whether the key is meant, not its value.
        needs: The places whose values the conclusion rests on; without any, `location`.
        among: The list or mapping in which something is not; a wrong item of it may have been meant for that.
    """

    location: Location
    message: str
    hint: str | None = None
    at_key: bool = False
    needs: tuple[Location, ...] = ()
    among: Location = ()

    def rests_on(self, doubtful: Sequence[Location]) -> bool:
        """Whether the conclusion rests on one of the places `doubtful`, on what is in one, or on what holds one."""
        for place in doubtful:
            if any(all(map(operator.eq, need, place)) for need in (self.needs or (self.location,))):
                return True
            if self.among and len(place) <= len(self.among) + 1 and all(map(operator.eq, self.among, place)):
                return True
        return False


def check(spec: Spec, sources: Sources) -> Iterator[Fault]:
    """Yield every fault of a spec whose types are right and whose files are `sources`."""
    yield from _twice(spec.aliases, ("aliases",))
    if spec.name in spec.aliases:
        alias = ("aliases", spec.aliases.index(spec.name))
        yield Fault(alias, f"{spec.name!r} is the model's name already", "leave it out", needs=(alias, ("name",)))
    yield from _variants(spec)
    yield from _names(spec)
    yield from _code(spec.files, sources.files)
    yield from _scripts(spec, sources.files)
    yield from _assets(spec.assets, sources.assets)
    yield from _environment(spec.environment, ("environment",))
    yield from _environments(spec)
    for name, overlay in spec.overlays.items():
        place = ("overlays", name)
        for complaint in overlay.complaints():
            yield Fault((*place, *complaint.location), complaint.message, complaint.hint, needs=(place,))
        for field in overlay.__struct_fields__:
            if field.endswith("resources"):
                yield from _resources(getattr(overlay, field), (*place, field))


def _twice(names: Sequence[str], place: Location) -> Iterator[Fault]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Fault((*place, index), f"{name!r} stands here twice", "leave one of them out")


def _variants(spec: Spec) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, variant in enumerate(spec.variants):
        place = ("variants", index)
        package = spec.package_name(variant)
        first = seen.setdefault(package, index)
        if first != index:
            message = f"another variant has the package name {package!r} too"
            needs = (*_naming(first), *_naming(index))
            yield Fault(place, message, "give it another precision or mode", needs=needs)
        if package in MISREAD:
            message = f"the package's name {package!r} is no text to every YAML"
            yield Fault(place, message, "give it a precision or a mode", needs=_naming(index))
        if variant.script not in spec.files:
            hint = similar(variant.script, spec.files) or "add it to `files`"
            script = (*place, "script")
            yield Fault(script, f"{variant.script!r} is not one of `files`", hint, among=("files",))
        yield from _twice(variant.overlays or (), (*place, "overlays"))
        for position, name in enumerate(variant.overlays or ()):
            if name not in spec.overlays:
                hint = similar(name, list(spec.overlays)) or f"the overlays are: {', '.join(spec.overlays)}"
                overlay = (*place, "overlays", position)
                yield Fault(overlay, f"there is no overlay {name!r}", hint, among=("overlays",))
        yield from _environment(variant.environment, (*place, "environment"))


def _names(spec: Spec) -> Iterator[Fault]:
    """Names that Kubernetes would refuse: a pod's and a Job's name is a DNS label of at most 63 characters."""
    for index, variant in enumerate(spec.variants):
        for name in variant.overlays or spec.overlays:
            if name not in spec.overlays:
                continue
            longest = spec.overlays[name].longest_name(f"{spec.package_name(variant)}-{name}")
            if len(longest) > 63:
                message = f"the overlay {name!r} makes the name {longest!r}: {len(longest)} characters, at most 63 fit"
                fix = "shorten `package`, the overlay's name, precision or mode"
                needs = (*_naming(index), ("variants", index, "overlays"), ("overlays", name))
                yield Fault(("variants", index), message, fix, needs=needs)


def _naming(variant: int) -> tuple[Location, ...]:
    """Return the places that a package's name is made of."""
    return ("name",), ("package",), ("variants", variant, "precision"), ("variants", variant, "mode")


def _code(names: Sequence[str], files: Sequence[SourceFile]) -> Iterator[Fault]:
    yield from _twice(names, ("files",))
    seen: dict[str, str] = {}
    for index, name in enumerate(names):
        place = ("files", index)
        if name.lower() in KUSTOMIZATIONS:
            yield Fault(place, f"the name {name} is taken: the package has one beside the files", "rename it")
        # A key of a ConfigMap has no slashes, and a file system may not tell `A` from `a`.
        other = seen.setdefault(configmap.key(name).lower(), name)
        if other != name:
            message = f"{name!r} and {other!r} cannot stand beside each other in a ConfigMap"
            yield Fault(place, message, "rename one of them")
    size = sum(file.size for file in files)
    if size > configmap.CODE_BYTES:
        largest = max(files, key=lambda file: file.size)
        message = (
            f"the files are {_kib(size)}; at most {_kib(configmap.CODE_BYTES)} go into a ConfigMap "
            f"(the largest is {largest.name}, {_kib(largest.size)})"
        )
        yield Fault(("files",), message, _ELSEWHERE, at_key=True)
        return
    size = configmap.size({configmap.key(file.name): file.path.read_bytes() for file in files})
    if size > configmap.BYTES:
        message = f"the files are {_kib(size)} as JSON, where quotes, line ends and <, >, & take more room"
        yield Fault(("files",), f"{message}; at most {_kib(configmap.BYTES)} fit", _ELSEWHERE, at_key=True)


def _kib(size: int) -> str:
    return f"{math.ceil(size / 1024)} KiB"


def _scripts(spec: Spec, files: Sequence[SourceFile]) -> Iterator[Fault]:
    run = {variant.script for variant in spec.variants}
    for file in files:
        if file.size > configmap.CODE_BYTES or not (file.name.endswith(".sh") or file.name in run):
            continue
        with file.path.open("rb") as stream:
            start = stream.readline(200)
        place = ("files", spec.files.index(file.name))
        if start.startswith(b"#!") and start.endswith(b"\r\n"):
            yield Fault(place, f"{file.name} has the line ends of Windows", "convert it with dos2unix")
        elif not start.startswith((b"#!", b"\x7fELF")):
            yield Fault(place, f"{file.name} does not say what runs it", "begin it with #!/bin/sh")


def _assets(names: Sequence[str], files: Sequence[SourceFile]) -> Iterator[Fault]:
    """Names that not every system can hold, or tell apart; and more than a package takes."""
    yield from _twice(names, ("assets",))
    contents = Contents()
    for file in files:
        try:
            contents.add_file(f"assets/{file.name}", file.size)
        except ContentError as error:
            index = next(index for index, name in enumerate(names) if f"{file.name}/".startswith(f"{name}/"))
            yield Fault(("assets", index), str(error), "rename it" if file.size < DEFAULT.size else None)


def _environment(environment: Environment, place: Location) -> Iterator[Fault]:
    for key, entry in environment.items():
        here = (*place, key)
        if key in RESERVED:
            yield Fault(here, f"{key} is not for a spec to set", RESERVED[key], at_key=True)
        value = _value(entry)
        size = len(f"{key}={value}".encode())
        if size > ENV_LINE_BYTES:
            message = f"the value takes {size / 1024:.0f} KiB, and kustomize drops a line of 64 KiB and all after it"
            yield Fault(here, message, "bring it as a file")
        if key in ("DATASET_DIR", "OUTPUT_DIR"):
            yield from _mount_path(value, here)


def _environments(spec: Spec) -> Iterator[Fault]:
    """Environments that are too large for the ConfigMap which mlops.env becomes."""
    for index, variant in enumerate(spec.variants):
        together = {**spec.environment, **variant.environment}
        size = configmap.size({key: _value(entry).encode() for key, entry in together.items()})
        if size > configmap.BYTES:
            place: Location = ("variants", index, "environment") if variant.environment else ("environment",)
            message = f"the environment is {_kib(size)}; a ConfigMap takes at most {_kib(configmap.BYTES)}"
            yield Fault(place, message, "bring large values as files", at_key=True)
            return


def _value(entry: Parameter | str | float) -> str:
    return text(entry.value if isinstance(entry, Parameter) else entry)


def _mount_path(value: str, here: Location) -> Iterator[Fault]:
    """Kubernetes refuses a mountPath with a colon, and `..` would leave the folder it names (ValidateVolumeMounts)."""
    steps = value.split("/")
    if not value.startswith(("/", "ROOT/")) or ":" in value or ".." in steps or value.strip("/ ") == "":
        message = f"expected an absolute path (or one below ROOT) without ':' and '..', found {value!r}"
        yield Fault(here, message)


def _resources(resources: Resources, place: Location) -> Iterator[Fault]:
    """What the API server would refuse (Kubernetes, pkg/apis/core/validation: ValidateResourceRequirements)."""
    for part, quantities in (("requests", resources.requests), ("limits", resources.limits)):
        for name in quantities:
            if "/" not in name and name not in STANDARD_RESOURCES and not name.startswith("hugepages-"):
                near = None if name.endswith("gpu") else similar(name, STANDARD_RESOURCES)
                hint = near or "a device has a domain: nvidia.com/gpu"
                yield Fault((*place, part, name), f"Kubernetes has no resource {name!r}", hint, at_key=True)
    for name, request in resources.requests.items():
        limit = resources.limits.get(name)
        here = (*place, "requests", name)
        needs = (here, (*place, "limits", name))
        extended = "/" in name and not name.partition("/")[0].endswith("kubernetes.io")
        if limit is None and extended:
            message = f"a request for {name} needs an equal limit, and there is none"
            yield Fault(here, message, among=(*place, "limits"))
        elif limit is not None and quantity.parse(text(request)) > quantity.parse(text(limit)):
            message = f"requests {text(request)} of {name}, above its limit of {text(limit)}"
            yield Fault(here, message, "raise the limit, or lower the request", needs=needs)
        elif limit is not None and extended and quantity.parse(text(request)) != quantity.parse(text(limit)):
            message = f"requests {text(request)} of {name}, which has to equal its limit of {text(limit)}"
            yield Fault(here, message, needs=needs)
