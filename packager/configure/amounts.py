"""Sets amounts: the numbers and quantities in mlops.env that manifests take from there.

kustomize fills a value of mlops.env into a field that is there, and adds no field. So memory and CPUs that the spec
does not name are written into the manifest itself, which people may edit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packager.base import envfile, units, yamlio
from packager.base.errors import UsageError
from packager.configure import additions, settings
from packager.kubernetes.manifest import Manifest, at, mapping
from packager.package.layout import env
from packager.package.options import GPU
from packager.rendering.origins import Replaced
from packager.workloads import structures
from packager.workloads.amounts import GPUS, WORKERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Document, Location
    from packager.configure.settings import Files

OPTIONS = {
    "--workers": WORKERS,
    "--memory": ("MEMORY", "MEMORY_LIMIT"),
    "--cpu": ("CPU", "CPU_LIMIT"),
    "--gpus": (GPUS,),
}
"""The options of the command line, and the keys of mlops.env that each sets: of `WORKERS`, the first that there is."""

_GPU_COUNT = "GPU_COUNT"
"""The key of site.env for the number of GPUs, where the option gpu is on."""


def assign(files: Files, overlays: Sequence[str], amounts: Sequence[tuple[str, str]]) -> None:
    """Set amounts in the mlops.env of each overlay that has them.

    Memory and CPUs that an overlay does not have are added to its manifest, and GPUs by the option `gpu`.
    """
    taken = {overlay: _taken(files, overlay) for overlay in overlays} if amounts else {}
    for option, value in amounts:
        present = {overlay: [key for key in OPTIONS[option] if key in taken[overlay]] for overlay in overlays}
        if option == "--gpus" and not any(present.values()):
            for overlay in overlays:
                if GPU not in settings.options(files, overlay):
                    additions.add(files, overlay, GPU)
                files.switch(overlay, GPU, on=True)
        done = [_assign(files, overlay, option, value, keys) for overlay, keys in present.items()]
        if not any(done):
            keys = OPTIONS[option]
            names = f"{', '.join(keys[:-1])} or {keys[-1]}" if len(keys) > 1 else keys[0]
            sources = [files.sources(overlay) for overlay in overlays]
            others = sorted({key for source in sources for key in source.numbers | source.quantities})
            hint = f"--set changes {', '.join(others)}" if others else None
            raise UsageError(f"{option}: mlops.env of {', '.join(overlays)} has no {names}", hint=hint)


def _assign(files: Files, overlay: str, option: str, value: str, keys: Sequence[str]) -> bool:
    """Set an amount of an overlay that has these keys for it; return whether it has the amount."""
    if option == "--gpus" and settings.options(files, overlay).get(GPU):
        for path in settings.site_files(files.package):
            files.assign(path, _GPU_COUNT, value)
        return True
    if option in ("--memory", "--cpu") and not keys:
        return _assign_resource(files, overlay, option.removeprefix("--"), value)
    for key in keys[:1] if option == "--workers" else keys:
        files.assign(env(overlay), key, value)
    return bool(keys)


def _taken(files: Files, overlay: str) -> set[str]:
    """Return the keys of mlops.env from which the manifest takes values."""
    path = env(overlay)
    origins = files.sources(overlay).origins
    places = {(origin.position.file, origin.position.line) for origin in origins if isinstance(origin, Replaced)}
    return {line.key for line in envfile.lines(files.read(path)) if (files.package.shown(path), line.number) in places}


def _assign_resource(files: Files, overlay: str, name: str, value: str) -> bool:
    """Set a limit of the pods that compute in their manifests; return False if the package sets it for one.

    A limit without a request is the request as well (Kubernetes, container resources).
    """
    splices: dict[str, list[tuple[int, int, str]]] = {}
    for path in settings.manifests(files, overlay):
        sealed = [resources for _, _, resources in _computing(files.package.sealed(path) or b"", path)]
        if any(name in {*mapping(part.get("requests")), *mapping(part.get("limits"))} for part in sealed):
            return False
        source = files.read(path).decode("utf-8-sig", errors="replace")
        for document, place, resources in _computing(files.read(path), files.package.shown(path)):
            limits, text = mapping(resources.get("limits")), json.dumps(value)
            start, _, column = document.span(place)
            if name in limits:
                start, end, _ = document.span((*place, name))
                splice = (start, end, text)
            elif source[start] == "{":
                splice = (start + 1, start + 1, f"{name}: {text}{', ' if limits else ''}")
            else:
                splice = (start, start, f"{name}: {text}\n{' ' * column}")
            splices.setdefault(path, []).append(splice)
    if splices:
        _check_quantity(name, value)
    for path, changes in splices.items():
        files.write(path, yamlio.spliced(files.read(path), changes))
    return bool(splices)


def _computing(text: bytes, name: str) -> Iterator[tuple[Document, Location, dict[str, object]]]:
    """Yield the place of the limits of each pod's main container that computes, and its resources."""
    for document in yamlio.load_all(text, name)[0]:
        for pods in structures.pods(Manifest(mapping(document.data))):
            place: Location = (*pods.location, "spec", "containers", 0, "resources", "limits")
            if pods.computes and document.depth(place) == len(place):
                yield document, place, mapping(at(document.data, place[:-1]))


def _check_quantity(name: str, value: str) -> None:
    try:
        is_positive = units.parse_quantity(value) > 0
    except ValueError:
        is_positive = False
    if not is_positive:
        example = "64Gi" if name == "memory" else "8"
        raise UsageError(f"--{name} {value}: expected a quantity such as {example}")
