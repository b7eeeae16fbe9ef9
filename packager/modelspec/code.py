"""Checks the code of a spec: names, sizes, and the programs among its files."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from packager.base import paths
from packager.base.fields import ASSET_PATH
from packager.base.problems import Fault, show, similar, without_repetitions
from packager.base.values import replace
from packager.kubernetes import configmap
from packager.package.layout import KUSTOMIZATIONS, SCRIPTS
from packager.package.path_checks import ContentError, Contents
from packager.workloads.program import TORCHRUN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from packager.base.yamlio import Location
    from packager.modelspec.files import SourceFile, SpecFiles
    from packager.modelspec.model import AnyOverlay, Spec, Variant
    from packager.workloads.program import Run

_LARGE_FILES_HINT = "put large files in the image, list them under `assets`, or build with --with package-volume"

_UNREADABLE_HINT = "change it, put the file in the image, list it under `assets`, or build with --with package-volume"

_MAX_PATH_LENGTH = 200


def too_large(spec: Spec, sources: SpecFiles) -> list[Fault]:
    """Return the faults of code that ConfigMaps cannot hold: only the option package-volume mounts it."""
    lists = dict(spec.code_lists())
    every = (spec.code_places(index) for index in range(len(spec.variants)))
    used = dict.fromkeys(tuple(place for place in places if lists[place]) for places in every)
    faults = (fault for places in used if places for fault in _sizes(sources.code(places), places[-1]))
    return without_repetitions(faults)


def fits(files: Sequence[SourceFile]) -> bool:
    """Return whether ConfigMaps can hold these files of a package."""
    return next(_sizes(files, ()), None) is None


def check(spec: Spec, sources: SpecFiles) -> Iterator[Fault]:
    """Yield the faults of the code of each variant's package, but for those of `too_large`, and of other overlays."""
    lists = dict(spec.code_lists())
    for place, entries in lists.items():
        for position, entry in enumerate(entries):
            if entry.lower() in map(str.lower, KUSTOMIZATIONS):
                yield _reserved(entry, (*place, position))
    packages: dict[tuple[Location, ...], dict[Location, Variant | AnyOverlay]] = {
        (("files",), ("overlays", name, "files")): {("overlays", name): overlay}
        for name, overlay in spec.overlays.items()
        if name not in (built for _, built in spec.pairs())
    }
    for index, variant in enumerate(spec.variants):
        holders = packages.setdefault(spec.code_places(index), {})
        holders[("variants", index)] = variant
        holders |= {("overlays", name): spec.overlays[name] for number, name in spec.pairs() if number == index}
    for places, holders in packages.items():
        files = sources.code(places)
        yield from _names(files)
        faults = _programs(holders, [entry for place in places for entry in lists[place]], files)
        yield from (replace(fault, needs=places) for fault in faults)
    for index, name, overlay, run in spec.runs():
        files, needs = sources.code(spec.code_places(index)), (("overlays", name), ("variants", index))
        arguments = spec.variants[index].args if run.scripts and overlay.args is None else None
        written: dict[Location, Sequence[str] | None] = {
            (*needs[0], "command"): overlay.command,
            (*needs[0], "args"): overlay.args,
            (*needs[1], "args"): arguments,
        }
        for location, words in written.items() if run.workdir is None else ():
            faults = _relative(words or (), {file.name for file in files})
            yield from (replace(fault.below(location), needs=needs) for fault in faults)
        yield from _first_lines(overlay, run, files, needs)


def _programs(
    holders: Mapping[Location, Variant | AnyOverlay], entries: Sequence[str], files: Sequence[SourceFile]
) -> Iterator[Fault]:
    """Check that the package has each file which runs, and each folder of the code in which a program starts."""
    names = [*entries, *(file.name for file in files)]
    folders = {*paths.folders_above(file.name for file in files), *(["."] if entries else [])}
    for place, holder in holders.items():
        for location, script in holder.programs():
            if script not in names:
                hint = similar(script, names) or "add it to `files`"
                yield Fault((*place, *location), f"{script!r} is not one of `files`", hint)
        for location, workdir in holder.workdirs():
            if not workdir.startswith("/") and workdir not in folders:
                entry = (*place, *location)
                hint = similar(workdir, folders) or f"a folder of the image is an absolute path: /{workdir}"
                yield Fault(entry, f"`files` have no folder {workdir!r}", hint)


def _relative(words: Sequence[str], names: Collection[str]) -> Iterator[Fault]:
    """Find words that are the path of a file for a program that would not find it, since it starts elsewhere."""
    for position, word in enumerate(words):
        path = word.removeprefix("./")
        if path in names and ("/" in word or "." in word):
            message = f"{word!r} is one of `files`, and the program does not start in their folder"
            yield Fault((position,), message, f"set `workdir: .`, or write $(MODEL_DIR)/{SCRIPTS}/{path}")


def _first_lines(
    overlay: AnyOverlay, run: Run, files: Sequence[SourceFile], needs: tuple[Location, ...]
) -> Iterator[Fault]:
    """Find scripts that the kernel cannot start: the pod's log would not say why."""
    roles = [(overlay.run_of(role, run), overlay.program_of(role, run)) for role in overlay.role_keys]
    started = {
        script
        for of_role, program in roles or [(run, overlay.program(run))]
        for script in of_role.scripts
        if TORCHRUN not in program.command or not script.endswith(".py")
    }
    if run.init is not None:
        started.add(run.init.script or "")
    for file in files:
        line = b"#!" if file.content is None else file.content.partition(b"\n")[0]  # too much code is not read
        if line.startswith(b"#!") and line.endswith(b"\r"):
            yield Fault(file.place, f"{file.name} has Windows line ends", "convert it with dos2unix")
        elif file.name in started and not line.startswith((b"#!", b"\x7fELF")):
            message = f"{file.name} has no #! line, and is started by it"
            hint = f"begin it with #!{'/usr/bin/env python3' if file.name.endswith('.py') else '/bin/sh'}"
            yield Fault(file.place, message, hint, needs=needs)


def _names(files: Sequence[SourceFile]) -> Iterator[Fault]:
    contents = Contents()
    for file in files:
        place = file.place
        if not re.match(ASSET_PATH, file.name):
            message = f"{show(file.name)}: expected letters, digits and - . _ + @ between the slashes"
            yield Fault(place, message, "rename it, or list the other files")
            continue
        if len(file.name) > _MAX_PATH_LENGTH:
            message = f"{show(file.name)}: the path has {len(file.name)} characters, the limit is {_MAX_PATH_LENGTH}"
            yield Fault(place, message, "rename it, or list the other files")
        elif file.name.lower() in map(str.lower, KUSTOMIZATIONS):
            yield _reserved(file.name, file.place)
        try:
            contents.add_file(file.name, 0)
        except ContentError as error:
            yield Fault(place, str(error), "rename one of them")


def _reserved(name: str, place: Location) -> Fault:
    message = f"the name {name} is reserved: the package has such a file beside them"
    return Fault(place, message, "rename it")


def _sizes(files: Sequence[SourceFile], place: Location) -> Iterator[Fault]:
    """Check that the files fit into ConfigMaps."""
    unfit = False
    keys = configmap.keys([file.name for file in files])
    for file in files:
        if file.content is not None and (reason := configmap.unreadable_reason(file.content)):
            unfit = True
            text = f"{file.name} {reason}: kubectl refuses or changes such a text in a ConfigMap"
            yield Fault(file.place, text, _UNREADABLE_HINT)
    for file in files:
        text = ""
        if file.size > configmap.CODE_BYTES:
            text = f"{file.name} is {_kib(file.size)}; a file that is delivered in a ConfigMap has at most "
            text += _kib(configmap.CODE_BYTES)
        elif configmap.entry_size(keys[file.name], file.encoded or 0) > configmap.BYTES:
            text = f"{file.name} is {_kib(file.encoded or 0)} as JSON, where quotes, line ends and <, >, & take more "
            text += f"room; at most {_kib(configmap.BYTES)} fit into a ConfigMap"
        if text:
            unfit = True
            yield Fault(file.place, text, _LARGE_FILES_HINT)
    size, parts = sum(file.size for file in files), configmap.CODE_PARTS
    if not unfit and (any(file.encoded is None for file in files) or len(packed(files)) > parts):
        largest = max(files, key=lambda file: file.size)
        text = (
            f"the files are {_kib(size)}: more than {parts} ConfigMaps of {_kib(configmap.CODE_BYTES)} hold "
            f"(the largest is {largest.name}, {_kib(largest.size)})"
        )
        hint = "put it in the image, list large files under `assets`, or build with --with package-volume"
        yield Fault(place, text, hint, at_key=True)


def packed(files: Sequence[SourceFile]) -> list[list[str]]:
    """Return the keys of each ConfigMap that the files need, in the order of the files."""
    keys = configmap.keys([file.name for file in files])
    return configmap.packed({keys[file.name]: (file.size, file.encoded or 0) for file in files})


def _kib(size: int) -> str:
    return f"{math.ceil(size / 1024):,} KiB"
