"""Sets values by key: in mlops.env, in the env file of the site options, and in placement/placement.yaml.

Amounts are the numbers and quantities in mlops.env that manifests take from there. kustomize fills a value of mlops.env
into a field that is there, and adds no field. So memory and CPUs that the spec does not name cannot be set there.

A key has its line there already, perhaps commented out: an unknown one is probably misspelt, and is refused unless it
is to be added.

Tests: configure/test_changes.py.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.names import split_registry
from packager.base.problems import show, similar
from packager.configure import additions, settings
from packager.configure.settings import placement_file, site_files, value, workloads
from packager.kubernetes.containers import MOUNTED, folder_complaint, refusal_reason
from packager.kubernetes.manifest import mapping
from packager.package import declared, placement
from packager.package import image as image_names
from packager.package.image import IMAGE, ImageName, parse
from packager.package.layout import env
from packager.package.options import GPU, KEYS, OPTIONS, PLACEMENT
from packager.rendering.origins import Replaced
from packager.workloads import structures
from packager.workloads.amounts import GPUS, WORKERS
from packager.workloads.pods import BUILT_ELSEWHERE
from packager.workloads.program import CHOICE, choices, wrong_choice
from packager.workloads.structures import reserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.configure.settings import Files
    from packager.package.opened import Package


_VALUE_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class Assignment:
    """A value to set."""

    # the option of the command line: `--set` for a key that the package has, `--site` for one in site.env,
    # `--add` for a new one
    option: str
    key: str  # the key
    value: str  # the value

    @property
    def label(self) -> str:
        """The beginning of a message about it."""
        return f"{self.option} {self.key}"


def assign(files: Files, overlays: Sequence[str], assignments: Sequence[Assignment]) -> None:
    """Set values in the files that have a line for them, or add lines to each overlay's mlops.env."""
    absent = []
    for entry in assignments:
        _check_assignment(files.package, entry)
        _check_workloads(files, overlays, entry)
        if entry.key == IMAGE and any(_has_image(files, overlay) for overlay in overlays):
            check_image(entry.value, entry.label)
        if entry.option == "--add":
            _add(files, overlays, entry)
        elif entry.key in placement.FIELDS and (file := placement_file(files)):
            fields = placement.parse(entry.label, entry.key, entry.value)
            files.write(file, placement.assign(files.read(file), files.package.name, fields, files.package.shown(file)))
        elif paths := [path for path in _env_files(files, overlays, entry) if _has_key(files.read(path), entry.key)]:
            for path in paths:
                files.assign(path, entry.key, entry.value)
        else:
            absent.append(entry)
    if absent:
        raise _unknown(files, overlays, absent)


def _env_files(files: Files, overlays: Sequence[str], entry: Assignment) -> list[str]:
    """Return the paths of the files in which a value may be set."""
    own = [] if entry.option == "--site" else [env(overlay) for overlay in overlays]
    return [*site_files(files.package), *own]


def _add(files: Files, overlays: Sequence[str], entry: Assignment) -> None:
    """Add a variable to each overlay's mlops.env; one that has this value already is left alone."""
    having = [path for path in site_files(files.package) if _has_key(files.read(path), entry.key)]
    having += [env(name) for name in overlays if value(files, name, entry.key) not in (None, entry.value)]
    if having:
        message = f"{entry.label}: {files.package.shown(having[0])} has it already"
        raise UsageError(message, hint=f"--set {entry.key}=VALUE changes it")
    for overlay in overlays:
        files.assign(env(overlay), entry.key, entry.value)


def _unknown(files: Files, overlays: Sequence[str], absent: Sequence[Assignment]) -> UsageError:
    """Return the error for keys that the package does not have; its hint is about all of them."""
    messages, hints = [], []
    for entry in absent:
        texts = [files.read(path) for path in _env_files(files, overlays, entry)]
        names = {key for text in texts for key in envfile.keys(text)} | placement.FIELDS.keys() | KEYS.keys()
        messages.append(f"{entry.label}: the package has no such value")
        readers = [option.name for option in OPTIONS if entry.key in {key.name for key in option.keys}]
        readers += [PLACEMENT] if entry.key in placement.FIELDS else []
        if readers:
            hints.append(f"--with {' or '.join(readers)} adds it")
        elif nearest := similar(entry.key, names) or similar(entry.key.upper(), names):
            hints.append(nearest)
        elif entry.option == "--set":
            hints.append(f"--add {entry.key}=VALUE adds a variable")
    return UsageError("; ".join(messages), hint="; ".join(hints) or None)


def _has_key(text: bytes, key: str) -> bool:
    return envfile.commented_out(text, key) is not None or any(line.key == key for line in envfile.lines(text))


def _check_assignment(package: Package, entry: Assignment) -> None:
    key, new, label = entry.key, entry.value, entry.label
    if reason := refusal_reason(key):
        raise UsageError(f"{label}: it cannot be set in a package", hint=reason)
    if not re.fullmatch(envfile.NAME, key):
        raise UsageError(f"{label}: expected KEY=VALUE, with a key of letters, digits and '_'")
    if re.search("[\ud800-\udfff]", new):  # Python's form of bytes that are not UTF-8
        raise UsageError(f"{label}: expected UTF-8 text")
    if not re.fullmatch(envfile.VALUE, new) or len(new.encode()) > _VALUE_BYTES:
        raise UsageError(f"{label}: expected a value of one line, of at most {_VALUE_BYTES >> 10} KiB")
    if entry.option == "--site" and key in KEYS and (complaint := KEYS[key].complaint(new)):
        raise UsageError(f"{label}: {complaint}")
    if key in declared.secrets(package):
        hint = "`kubectl create secret generic` puts it into a Secret of the namespace"
        raise UsageError(f"{label}: it is a secret, and anyone can read what is in the package", hint=hint)
    if key in MOUNTED and (complaint := folder_complaint(new)):
        raise UsageError(f"{label}: {complaint}")
    if envfile.is_quoted(new) and (key, new) not in declared.values(package):
        message = f"{label}: the quotes would be part of the value"
        raise UsageError(message, hint=f"remove them: {shlex.join([entry.option, f'{key}={new[1:-1]}'])}")


def _check_workloads(files: Files, overlays: Sequence[str], entry: Assignment) -> None:
    """Refuse a key that the kind of a workload sets, and a script that is not one of the scripts of an overlay."""
    for overlay in overlays:
        for workload in workloads(files, overlay):
            if reason := reserved(workload, entry.key):
                raise UsageError(f"{entry.label}: it cannot be set for {overlay} ({workload.kind})", hint=reason)
            for pods in structures.pods(workload) if entry.key == CHOICE else ():
                scripts = choices(pods)
                if scripts and entry.value not in scripts:
                    message, hint = wrong_choice(entry.value, scripts)
                    raise UsageError(f"{entry.label}, for {overlay}: {message}", hint=hint)


def check_image(image: str, label: str = "--image") -> None:
    """Refuse a text that is no image without a registry."""
    if registry := split_registry(image)[0]:
        hint = f"the registry is REGISTRY in mlops.env: --registry {registry} --image {image.partition('/')[2]}"
        raise UsageError(f"{label} {show(image)}: expected an image without a registry", hint=hint)
    if complaint := image_names.complaint(image):
        raise UsageError(f"{label} {show(image)}: {complaint}")


def assign_image(files: Files, overlays: Sequence[str], image: str) -> None:
    """Set the image of overlays; without a tag and a digest, it gets the present ones.

    Of several overlays, those are left alone whose image is built elsewhere.
    """
    new = parse(image)
    assert new is not None
    with_image = [overlay for overlay in overlays if _has_image(files, overlay)]
    if not with_image:
        hint = "their manifests and kustomizations name images: change these there"
        raise UsageError(f"--image: mlops.env of {', '.join(overlays)} has no IMAGE", hint=hint)
    for overlay in [overlay for overlay in with_image if _builds_image(files, overlay)] or with_image:
        present = parse(value(files, overlay, IMAGE) or "")
        is_bare = not (new.tag or new.digest)
        merged = ImageName(new.name, present.tag, present.digest) if present and is_bare else new
        files.assign(env(overlay), IMAGE, str(merged))


def _has_image(files: Files, overlay: str) -> bool:
    """Return whether the manifests of an overlay take their image from IMAGE in mlops.env, as those since 0.2.0 do."""
    return IMAGE in files.original.sources(overlay).image_keys


def _builds_image(files: Files, overlay: str) -> bool:
    """Return whether an image of an overlay is built from the package."""
    pods = (entry for workload in workloads(files, overlay) for entry in structures.pods(workload))
    return any(BUILT_ELSEWHERE not in mapping(entry.metadata.get("annotations")) for entry in pods)


AMOUNTS = {
    "--workers": WORKERS,
    "--memory": ("MEMORY", "MEMORY_LIMIT"),
    "--cpu": ("CPU", "CPU_LIMIT"),
    "--gpus": (GPUS,),
}
"""The options of the command line, and the keys of mlops.env that each sets: of `WORKERS`, the first that there is."""


def assign_amounts(files: Files, overlays: Sequence[str], amounts: Sequence[tuple[str, str]]) -> None:
    """Set amounts in the mlops.env of each overlay that has them; GPUs that none has are those of the option `gpu`."""
    taken = {overlay: _taken(files, overlay) for overlay in overlays} if amounts else {}
    for option, amount in amounts:
        present = {overlay: [key for key in AMOUNTS[option] if key in taken[overlay]] for overlay in overlays}
        if option == "--gpus" and not any(present.values()):
            for overlay in overlays:
                if GPU not in settings.options(files, overlay):
                    additions.add(files, overlay, GPU)
                files.switch(overlay, GPU, on=True)
        done = [_assign_amount(files, overlay, option, amount, keys) for overlay, keys in present.items()]
        if not any(done):
            keys = AMOUNTS[option]
            names = f"{', '.join(keys[:-1])} or {keys[-1]}" if len(keys) > 1 else keys[0]
            sources = [files.sources(overlay) for overlay in overlays]
            others = {key for source in sources for key in source.numbers | source.quantities if key.endswith(keys)}
            edit = "write it into the overlay's manifest with an editor, or name it in the spec"
            by_hand = None if option == "--workers" else edit
            hint = f"--set changes {', '.join(sorted(others))}" if others else by_hand
            raise UsageError(f"{option}: mlops.env of {', '.join(overlays)} has no {names}", hint=hint)


def _assign_amount(files: Files, overlay: str, option: str, value: str, keys: Sequence[str]) -> bool:
    """Set an amount of an overlay that has these keys for it; return whether it has the amount."""
    if option == "--gpus" and settings.options(files, overlay).get(GPU):
        for path in settings.site_files(files.package):
            files.assign(path, "GPU_COUNT", value)  # the option's, in place of GPUS in mlops.env
        return True
    for key in keys[:1] if option == "--workers" else keys:
        files.assign(env(overlay), key, value)
    return bool(keys)


def _taken(files: Files, overlay: str) -> set[str]:
    """Return the keys of mlops.env from which the manifest takes values."""
    path = env(overlay)
    origins = files.sources(overlay).origins
    places = {(origin.position.file, origin.position.line) for origin in origins if isinstance(origin, Replaced)}
    return {line.key for line in envfile.lines(files.read(path)) if (files.package.shown(path), line.number) in places}
