"""Checks a spec for what types cannot express: how its values fit together, and Kubernetes' rules."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.fields import text
from packager.base.problems import similar
from packager.base.yamlio import MISREAD
from packager.kubernetes import configmap, resources
from packager.package import tarheader
from packager.package.contents import ContentError, Contents, composed, normalized
from packager.package.layout import KUSTOMIZATIONS
from packager.package.limits import DEFAULT
from packager.spec import environments, programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.fields import Resources
    from packager.base.yamlio import Location
    from packager.spec.files import SourceFile, SpecFiles
    from packager.spec.model import Spec

_LARGE_FILES_HINT = "put large files in the image, or list them under `assets`"


def check(spec: Spec, sources: SpecFiles) -> Iterator[Fault]:
    """Yield every fault of a spec that has valid types and the files `sources`."""
    yield from _duplicates(spec.aliases, ("aliases",))
    if spec.name in spec.aliases:
        alias = ("aliases", spec.aliases.index(spec.name))
        yield Fault(alias, f"{spec.name!r} is already the model's name", "remove it", needs=(alias, ("name",)))
    yield from _variants(spec)
    yield from _names(spec)
    yield from _code(spec.files, sources.files)
    yield from _scripts(spec, sources.files)
    longest = max((spec.package_name(variant) for variant in spec.variants), key=len, default="")
    yield from _assets(spec.assets, sources.assets, longest)
    yield from environments.check(spec)
    yield from programs.check(spec)
    for name, overlay in spec.overlays.items():
        place = ("overlays", name)
        for fault in overlay.faults():
            yield replace(fault.below(place), needs=(place,))
        for location, resources_of_one in overlay.containers():
            yield from _resources(resources_of_one, (*place, *location))
        for location, script in overlay.scripts():
            yield from _script(spec, script, (*place, *location))


def _duplicates(names: Sequence[str], place: Location) -> Iterator[Fault]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Fault((*place, index), f"duplicate entry {name!r}", "remove one of them")


def _variants(spec: Spec) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, variant in enumerate(spec.variants):
        place = ("variants", index)
        package = spec.package_name(variant)
        first = seen.setdefault(package, index)
        if first != index:
            message = f"another variant also has the package name {package!r}"
            needs = (*_name_locations(first), *_name_locations(index))
            yield Fault(place, message, "use a different precision or mode", needs=needs)
        if package in MISREAD:
            message = f"some YAML parsers read the package name {package!r} as {MISREAD[package]}"
            yield Fault(place, message, "give it a precision or a mode", needs=_name_locations(index))
        if variant.script is not None:
            yield from _script(spec, variant.script, (*place, "script"))
        yield from _duplicates(variant.overlays or (), (*place, "overlays"))
        for position, name in enumerate(variant.overlays or ()):
            if name not in spec.overlays:
                hint = similar(name, list(spec.overlays)) or f"the overlays are: {', '.join(spec.overlays)}"
                overlay = (*place, "overlays", position)
                yield Fault(overlay, f"overlay {name!r} not found", hint, among=("overlays",))


def _script(spec: Spec, script: str, place: Location) -> Iterator[Fault]:
    if script not in spec.files:
        hint = similar(script, spec.files) or "add it to `files`"
        yield Fault(place, f"{script!r} is not one of `files`", hint, among=("files",))


def _names(spec: Spec) -> Iterator[Fault]:
    """Names that Kubernetes would refuse: a pod's and a Job's name is a DNS label of at most 63 characters."""
    for index, variant in enumerate(spec.variants):
        for name in variant.overlays or spec.overlays:
            if name not in spec.overlays:
                continue
            longest = spec.overlays[name].longest_name(f"{spec.package_name(variant)}-{name}")
            if len(longest) > 63:
                message = f"the overlay {name!r} makes the name {longest!r}: {len(longest)} characters, the limit is 63"
                fix = "shorten `package`, the overlay's name, precision or mode"
                needs = (*_name_locations(index), ("variants", index, "overlays"), ("overlays", name))
                yield Fault(("variants", index), message, fix, needs=needs)


def _name_locations(variant: int) -> tuple[Location, ...]:
    """Return the places that a package's name is made of."""
    return ("name",), ("package",), ("variants", variant, "precision"), ("variants", variant, "mode")


def _code(names: Sequence[str], files: Sequence[SourceFile]) -> Iterator[Fault]:
    yield from _duplicates(names, ("files",))
    seen: dict[str, str] = {}
    for index, name in enumerate(names):
        place = ("files", index)
        if name.lower() in map(str.lower, KUSTOMIZATIONS):
            yield Fault(place, f"the name {name} is reserved: the package has such a file beside them", "rename it")
        if not configmap.KEY.fullmatch(configmap.key(name)):
            message = f"{name!r} is not a valid ConfigMap key, and the files are delivered in a ConfigMap"
            yield Fault(place, message, "rename it: use letters, digits and - . _")
        # A key of a ConfigMap has no slashes, and a file system may not tell `A` from `a`.
        other = seen.setdefault(configmap.key(name).lower(), name)
        if other != name:
            message = f"{name!r} and {other!r} become the same ConfigMap key where case is ignored"
            yield Fault(place, message, "rename one of them")
    nested = _listing_size(names)
    if nested > configmap.CODE_BYTES:
        message = (
            f"the list of files in folders takes {_kib(nested)} in a pod; the limit is {_kib(configmap.CODE_BYTES)}"
        )
        yield Fault(("files",), message, "pack them into one archive, or list them under `assets`", at_key=True)
    size = sum(file.size for file in files)
    if size > configmap.CODE_BYTES:
        largest = max(files, key=lambda file: file.size)
        message = (
            f"the files are {_kib(size)}; at most {_kib(configmap.CODE_BYTES)} go into a ConfigMap "
            f"(the largest is {largest.name}, {_kib(largest.size)})"
        )
        yield Fault(("files",), message, _LARGE_FILES_HINT, at_key=True)
        return
    size = configmap.size({configmap.key(file.name): file.path.read_bytes() for file in files})
    if size > configmap.BYTES:
        message = f"the files are {_kib(size)} as JSON, where quotes, line ends and <, >, & take more room"
        yield Fault(("files",), f"{message}; at most {_kib(configmap.BYTES)} fit", _LARGE_FILES_HINT, at_key=True)


def _listing_size(names: Sequence[str]) -> int:
    """Return how many bytes the list of files takes that says which key stands for which path; 0 without folders."""
    if not any("/" in name for name in names):
        return 0
    return sum(len(f'{{"key":"{configmap.key(name)}","path":"{name}"}},') for name in names)


def _kib(size: int) -> str:
    return f"{math.ceil(size / 1024)} KiB"


def _scripts(spec: Spec, files: Sequence[SourceFile]) -> Iterator[Fault]:
    run = {variant.script for variant in spec.variants}
    run |= {script for overlay in spec.overlays.values() for _, script in overlay.scripts()}
    for file in files:
        if file.size > configmap.CODE_BYTES or not (file.name.endswith(".sh") or file.name in run):
            continue
        with file.path.open("rb") as stream:
            start = stream.readline(200)
        place = ("files", spec.files.index(file.name))
        if start.startswith(b"#!") and start.endswith(b"\r\n"):
            yield Fault(place, f"{file.name} has Windows line endings", "convert it with dos2unix")
        elif not start.startswith((b"#!", b"\x7fELF")):
            yield Fault(place, f"{file.name} has no #! line", "start it with #!/bin/sh")


def _assets(names: Sequence[str], files: Sequence[SourceFile], package: str) -> Iterator[Fault]:
    """Names that not every system can hold or tell apart, or no archive of `package`; and more than a package takes."""
    yield from _duplicates(names, ("assets",))
    contents = Contents()
    for file in files:
        try:
            path = composed(contents.add_file(f"assets/{file.name}", file.size))
            tarheader.of_file(normalized(f"{package}/{path}"), file.size, 0o644, 0)
        except ContentError as error:
            index = next(index for index, name in enumerate(names) if f"{file.name}/".startswith(f"{name}/"))
            yield Fault(("assets", index), str(error), "rename it" if file.size < DEFAULT.size else None)


def _resources(container_resources: Resources, place: Location) -> Iterator[Fault]:
    parts = [
        {name: text(value) for name, value in part.items()}
        for part in (container_resources.requests, container_resources.limits)
    ]
    yield from (fault.below(place) for fault in resources.faults(*parts))
