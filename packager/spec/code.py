"""Checks the code of a spec: names, sizes, and the programs among its files."""

from __future__ import annotations

import math
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.fields import ASSET_PATH
from packager.base.problems import show, similar
from packager.kubernetes import configmap
from packager.package.contents import ContentError, Contents
from packager.package.layout import KUSTOMIZATIONS, SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.spec.files import SourceFile, SpecFiles
    from packager.spec.model import Spec

_LARGE_FILES_HINT = "put large files in the image, or list them under `assets`"

_MAX_PATH_LENGTH = 200

_LISTING_BYTES = 200 << 10
"""How much of a manifest may be taken by the paths of the files: below what `kubectl apply` accepts in all."""


def check(spec: Spec, sources: SpecFiles) -> Iterator[Fault]:
    """Yield every fault of the files of `spec` that are code."""
    yield from _names(spec.files, sources.files)
    yield from _sizes(spec, sources.files)
    places = list(_programs(spec))
    known = [*spec.files, *(file.name for file in sources.files)]
    for place, script in places:
        if script not in known:
            hint = similar(script, known) or "add it to `files`"
            yield Fault(place, f"{script!r} is not one of `files`", hint, among=("files",))
    runs = ((spec.overlays[name], spec.variants[index].run) for index, name in spec.pairs())
    executed = {script for overlay, run in runs for script in overlay.executed(overlay.run(run))}
    yield from _first_lines(executed, sources.files)
    yield from _folders(spec, sources.files)
    yield from _relative(spec, {file.name for file in sources.files})


def _programs(spec: Spec) -> Iterator[tuple[Location, str]]:
    """Yield each file that the spec runs, and where it says so."""
    for index, variant in enumerate(spec.variants):
        if variant.script is not None:
            yield ("variants", index, "script"), variant.script
        for position, script in enumerate(variant.scripts or ()):
            yield ("variants", index, "scripts", position), script
        if variant.init is not None and variant.init.script is not None:
            yield ("variants", index, "init", "script"), variant.init.script
    for name, overlay in spec.overlays.items():
        for location, script in overlay.programs():
            yield ("overlays", name, *location), script


def _folders(spec: Spec, files: Sequence[SourceFile]) -> Iterator[Fault]:
    """Check that a program which starts in a folder of the code finds it."""
    places: list[tuple[Location, str | None]] = [
        (("variants", index, "workdir"), variant.workdir) for index, variant in enumerate(spec.variants)
    ]
    places += [
        (("overlays", name, *location), workdir)
        for name, overlay in spec.overlays.items()
        for location, workdir in overlay.workdirs()
    ]
    folders = {"."} if spec.files else set()
    folders |= {str(above) for file in files for above in PurePosixPath(file.name).parents}
    for place, workdir in places:
        if workdir is not None and not workdir.startswith("/") and workdir not in folders:
            hint = similar(workdir, folders) or f"a folder of the image is an absolute path: /{workdir}"
            yield Fault(place, f"`files` have no folder {workdir!r}", hint, needs=(place, ("files",)))


def _relative(spec: Spec, names: Collection[str]) -> Iterator[Fault]:
    """Find words that are the path of a file for a program that would not find it, since it starts elsewhere."""
    seen: set[Location] = set()
    for index, name in spec.pairs():
        overlay, variant = spec.overlays[name], spec.variants[index]
        run = overlay.run(variant.run)
        if run.workdir is not None:
            continue
        lists: list[tuple[Location, Sequence[str]]] = [
            (("overlays", name, "command"), overlay.command or ()),
            (("overlays", name, "args"), overlay.args or ()),
        ]
        if run.scripts and overlay.args is None:
            lists.append((("variants", index, "args"), variant.args or ()))
        for location, words in lists:
            for position, word in enumerate(words):
                place, path = (*location, position), word.removeprefix("./")
                if path in names and ("/" in word or "." in word) and place not in seen:
                    seen.add(place)
                    message = f"{word!r} is one of `files`, and the program does not start in their folder"
                    hint = f"set `workdir: .`, or write $(MODEL_DIR)/{SCRIPTS}/{path}"
                    needs = (place, ("files",), ("overlays", name), ("variants", index))
                    yield Fault(place, message, hint, needs=needs)


def _names(entries: Sequence[str], files: Sequence[SourceFile]) -> Iterator[Fault]:
    for index, entry in enumerate(entries):
        if entry.lower() in map(str.lower, KUSTOMIZATIONS):
            yield _reserved(entry, index)
    contents = Contents()
    for file in files:
        place = ("files", file.entry)
        if not re.match(ASSET_PATH, file.name):
            message = f"{show(file.name)}: expected letters, digits and - . _ + @ between the slashes"
            yield Fault(place, message, "rename it, or list the other files")
            continue
        if len(file.name) > _MAX_PATH_LENGTH:
            message = f"{show(file.name)}: the path has {len(file.name)} characters, the limit is {_MAX_PATH_LENGTH}"
            yield Fault(place, message, "rename it, or list the other files")
        elif file.name not in entries and file.name.lower() in map(str.lower, KUSTOMIZATIONS):
            yield _reserved(file.name, file.entry)
        try:
            contents.add_file(file.name, 0)
        except ContentError as error:
            yield Fault(place, str(error), "rename one of them")


def _reserved(name: str, index: int) -> Fault:
    message = f"the name {name} is reserved: the package has such a file beside them"
    return Fault(("files", index), message, "rename it")


def _sizes(spec: Spec, files: Sequence[SourceFile]) -> Iterator[Fault]:
    """Check that the files fit into ConfigMaps, and the list of their paths into the manifest of each overlay."""
    unfit = False
    keys = configmap.keys([file.name for file in files])
    for file in files:
        message = None
        if file.size > configmap.CODE_BYTES:
            message = f"{file.name} is {_kib(file.size)}; a file that is delivered in a ConfigMap has at most "
            message += _kib(configmap.CODE_BYTES)
        elif configmap.entry_size(keys[file.name], file.encoded or 0) > configmap.BYTES:
            message = (
                f"{file.name} is {_kib(file.encoded or 0)} as JSON, where quotes, line ends and <, >, & take more room"
            )
            message += f"; at most {_kib(configmap.BYTES)} fit into a ConfigMap"
        if message:
            unfit = True
            yield Fault(("files", file.entry), message, _LARGE_FILES_HINT)
    size, parts = sum(file.size for file in files), configmap.CODE_PARTS
    if not unfit and (any(file.encoded is None for file in files) or len(packed(files)) > parts):
        largest = max(files, key=lambda file: file.size)
        message = (
            f"the files are {_kib(size)}: more than {parts} ConfigMaps of {_kib(configmap.CODE_BYTES)} hold "
            f"(the largest is {largest.name}, {_kib(largest.size)})"
        )
        hint = "code of this size belongs in the image; large files may also be listed under `assets`"
        yield Fault(("files",), message, hint, at_key=True)
    listing = _listing_size([file.name for file in files])
    for name, overlay in spec.overlays.items():
        if listing * overlay.templates > _LISTING_BYTES:
            times = f", and the overlay {name!r} has {overlay.templates} of them" if overlay.templates > 1 else ""
            message = f"the list of files in folders takes {_kib(listing)} in the manifest of a pod{times}"
            message += f"; the limit is {_kib(_LISTING_BYTES)}"
            hint = "pack them into one archive, or list them under `assets`"
            yield Fault(("files",), message, hint, at_key=True, needs=(("files",), ("overlays", name)))
            return


def _listing_size(names: Sequence[str]) -> int:
    """Return how many bytes the list of files takes that says which key stands for which path; 0 without folders."""
    keys = configmap.keys(names)
    if all(keys[name] == name for name in names):
        return 0
    return sum(len(f'{{"key":"{keys[name]}","path":"{name}"}},') for name in names)


def packed(files: Sequence[SourceFile]) -> list[list[str]]:
    """Return the keys of each ConfigMap that the files need, in the order of the files."""
    keys = configmap.keys([file.name for file in files])
    return configmap.packed({keys[file.name]: (file.size, file.encoded or 0) for file in files})


def _kib(size: int) -> str:
    return f"{math.ceil(size / 1024):,} KiB"


def _first_lines(programs: set[str], files: Sequence[SourceFile]) -> Iterator[Fault]:
    """Check that what is started itself names its interpreter; any other file may begin as it likes."""
    for file in files:
        if file.size > configmap.CODE_BYTES or not (file.name.endswith(".sh") or file.name in programs):
            continue
        with file.path.open("rb") as stream:
            start = stream.readline(200)
        place = ("files", file.entry)
        if start.startswith(b"#!") and start.endswith(b"\r\n"):
            yield Fault(place, f"{file.name} has Windows line endings", "convert it with dos2unix")
        elif file.name in programs and not start.startswith((b"#!", b"\x7fELF")):
            interpreter = "/usr/bin/env python3" if file.name.endswith(".py") else "/bin/sh"
            yield Fault(place, f"{file.name} has no #! line", f"start it with #!{interpreter}")
