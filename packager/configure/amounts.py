"""Sets amounts: the numbers and quantities in mlops.env that manifests take from there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.problems import Problem
from packager.configure import additions, resources, settings
from packager.kubernetes.manifest import at, integer
from packager.package import kustomization, layout
from packager.package.layout import env
from packager.package.options import GPU
from packager.rendering.origins import Generated, Replaced, selected
from packager.workloads import structures
from packager.workloads.amounts import GPUS, WORKERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.configure.settings import Files
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.origins import Position

OPTIONS = {
    "--workers": WORKERS,
    "--memory": ("MEMORY", "MEMORY_LIMIT"),
    "--cpu": ("CPU", "CPU_LIMIT"),
    "--gpus": (GPUS,),
}
"""The options of the command line, and the keys of mlops.env that each sets: of `WORKERS`, the first that there is."""

_RESOURCES = {"--memory": "memory", "--cpu": "cpu"}
"""The options for resources that pods may have without a key of mlops.env, and the names of the resources."""

_GPU_COUNT = "GPU_COUNT"
"""The key of site.env for the number of GPUs, where the option gpu is on."""

_NUMBER = r"[0-9]{1,10}"
"""The form of a number of a manifest; any other value is refused where it is read."""


def assign(files: Files, overlays: Sequence[str], amounts: Sequence[tuple[str, str]]) -> None:
    """Set amounts in the mlops.env of each overlay that has them.

    Memory and CPUs that an overlay does not have are added by a component of it, and GPUs by the option `gpu`.
    """
    taken = {overlay: _taken(files, overlay) for overlay in overlays} if amounts else {}
    for option, value in amounts:
        keys = OPTIONS[option]
        places = [
            (env(overlay), key)
            for overlay in overlays
            for key in [key for key in keys if key in taken[overlay]][: 1 if keys == WORKERS else None]
        ]
        if option == "--gpus":
            if not places:
                _switch_gpu(files, overlays)
            by_option = {
                env(overlay) for overlay in overlays if not places or settings.options(files, overlay).get(GPU)
            }
            places = [place for place in places if place[0] not in by_option]
            places += [(path, _GPU_COUNT) for path in settings.site_files(files.package) if by_option]
        name = _RESOURCES.get(option)
        lacking = [overlay for overlay in overlays if name and not taken[overlay] & {*keys}]
        added = [resources.assign(files, overlay, name, value) for overlay in lacking if name]
        if not places and not any(added):
            raise _missing(files, overlays, option)
        for path, key in places:
            files.assign(path, key, value)


def _missing(files: Files, overlays: Sequence[str], option: str) -> UsageError:
    """Return the error for an option of which no overlay has a key."""
    keys = OPTIONS[option]
    names = f"{', '.join(keys[:-1])} or {keys[-1]}" if len(keys) > 1 else keys[0]
    others = sorted({key for overlay in overlays for key in _amounts(files, overlay)})
    hint = f"--set changes {', '.join(others)}" if others else None
    return UsageError(f"{option}: mlops.env of {', '.join(overlays)} has no {names}", hint=hint)


def _switch_gpu(files: Files, overlays: Sequence[str]) -> None:
    """Switch the option `gpu` on in each overlay."""
    for overlay in overlays:
        if GPU not in settings.options(files, overlay):
            additions.add(files, overlay, GPU)
        path = layout.kustomization(overlay)
        files.write(path, kustomization.switch(files.read(path), GPU, files.package.shown(path), on=True))


def refused(files: Files, overlay: str) -> Iterator[Problem]:
    """Yield the problems for which kustomize or the kind of a workload would refuse an overlay since the changes."""
    before = [*files.original.sources(overlay).refused, *_out_of_range(files.original, overlay)]
    after = (*files.sources(overlay).refused, *_out_of_range(files, overlay))
    yield from (problem for problem in after if problem not in before)


def _out_of_range(files: Files, overlay: str) -> Iterator[Problem]:
    """Yield the numbers of env files that the kind of a workload does not accept."""
    for workload in settings.workloads(files, overlay):
        filled = _fill(files, overlay, workload)
        for fault in structures.faults(workload):
            if fault.location in filled:
                key, place = filled[fault.location]
                yield Problem(*place, f"{key}: {fault.message}")


def _fill(files: Files, overlay: str, workload: Manifest) -> dict[Location, tuple[str, Position]]:
    """Fill the numbers of env files into a workload, and return the key and the place of each, by its location."""
    keys = {
        position: (key, origin.values[key])
        for origin in files.sources(overlay).origins
        if isinstance(origin, Generated)
        for key, position in origin.keys.items()
        if key in origin.values
    }
    filled: dict[Location, tuple[str, Position]] = {}
    for origin in files.sources(overlay).origins:
        if isinstance(origin, Replaced) and (origin.kind, origin.name) == (workload.kind, workload.name):
            key, value = keys.get(origin.position, ("", ""))
            for location, written in [*selected(origin.field_path, workload.data)]:
                if integer(written) is not None and re.fullmatch(_NUMBER, value):
                    at(workload.data, location[:-1])[location[-1]] = int(value)
                    filled[location] = key, origin.position
    return filled


def _taken(files: Files, overlay: str) -> set[str]:
    """Return the keys of mlops.env from which the manifest takes values."""
    path = env(overlay)
    origins = files.sources(overlay).origins
    places = {(origin.position.file, origin.position.line) for origin in origins if isinstance(origin, Replaced)}
    return {line.key for line in envfile.lines(files.read(path)) if (files.package.shown(path), line.number) in places}


def _amounts(files: Files, overlay: str) -> set[str]:
    """Return the keys of mlops.env from which the manifest takes whole numbers and quantities."""
    sources = files.sources(overlay)
    return sources.numbers | sources.quantities
