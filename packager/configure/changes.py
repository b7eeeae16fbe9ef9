"""Package + Answers -> changed files: applies the user's answers to the files that contain the values.

mlops.env has the package's folder and the registry of its image; the patches have the user and group; the
overlay's kustomization.yaml lists the site options. All other lines of these files stay unchanged.
"""

from __future__ import annotations

import itertools
import shlex
from dataclasses import dataclass
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import envfile
from packager.base.errors import UsageError, VerificationError
from packager.base.masking import masked_line
from packager.base.problems import similar
from packager.base.values import Value, replace
from packager.builder.selection import OwnComponent
from packager.configure import additions
from packager.configure.assignments import assign, assign_amounts, assign_image
from packager.configure.settings import (
    Files,
    ids,
    invalid_ids,
    option_problems,
    options,
    patches,
    placement_file,
    places,
    workloads,
)
from packager.kubernetes.containers import ROOT
from packager.kubernetes.manifest import at, mapping
from packager.package import ids as patch_ids
from packager.package import inventory, layout, placement, tree
from packager.package.layout import INVENTORY, env
from packager.package.options import BY_NAME, CLAIM_CLASS, OPTIONS, conflicts
from packager.package.tree import Entry, Tree
from packager.workloads import structures
from packager.workloads.pods import SITE_ANNOTATIONS, annotation_component

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.configure.assignments import Assignment
    from packager.package.opened import Package
    from packager.site.read import SiteSettings

_STORAGES = tuple(option.name for option in OPTIONS if option.places)
_SHORT = frozenset(("scratch", "host-path", "nfs", "pvc"))
"""The options of storage that take the place of all others."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The user's answers; None, or an empty one, changes nothing."""

    root: str | None = None  # the folder that contains the package
    registry: str | None = None  # the address that its image is pulled from
    uid: int | None = None  # the user id to run as
    gid: int | None = None  # the group id to run as
    fs_group: int | None = None  # the group that its volumes belong to
    # numbers of the manifests, each the option of the command line and the value
    amounts: tuple[tuple[str, str], ...] = ()
    image: str | None = None  # the name, the tag and the digest of the image
    assignments: tuple[Assignment, ...] = ()  # other values
    switch_on: tuple[str, ...] = ()  # site options
    switch_off: tuple[str, ...] = ()  # site options
    storage: tuple[str, ...] = ()  # the options of storage that take the place of those that are on
    placement: Mapping[str, Any] | None = None  # the fields of a pod that the option `placement` sets
    components: tuple[OwnComponent, ...] = ()  # the site's own components, which are added
    annotations: Mapping[str, str] | None = None  # the annotations of all pods, from the site
    site: SiteSettings | None = None  # the defaults of the site, which count less than the other answers

    @property
    def ids(self) -> dict[str, int]:
        """The ids that are given, by the keys of a pod's security context."""
        ids = {"runAsUser": self.uid, "runAsGroup": self.gid, "fsGroup": self.fs_group}
        return {key: value for key, value in ids.items() if value is not None}


class Change(Value, frozen=True):
    """A changed line, with possible secrets masked."""

    path: str  # the file below the package's root
    line: int
    shown_before: str | None  # None: a new line
    shown_after: str


def configure(
    package: Package, overlays: Sequence[str], answers: Answers, defaults: Mapping[str, Answers] = MappingProxyType({})
) -> Files:
    """Return the package's files with the changes that the answers make."""
    files = Files(package)
    for overlay, filled in defaults.items():
        _apply(files, [overlay], filled)
    _apply(files, overlays, answers)
    for overlay in overlays:
        _check_overlay(files, overlay, answers, defaults.get(overlay, Answers()))
    return files


def _apply(files: Files, overlays: Sequence[str], answers: Answers) -> None:
    package = files.package
    for overlay in overlays:
        _switch_options(files, overlay, answers)
    assign_amounts(files, overlays, answers.amounts)
    if answers.image is not None:
        assign_image(files, overlays, answers.image)
    assign(files, overlays, answers.assignments)
    if package.workspace and any(entry.key == CLAIM_CLASS.keys[0].name for entry in answers.assignments):
        files.switch(layout.WORKSPACE, CLAIM_CLASS.name, on=True)
    for overlay in overlays:
        path = env(overlay)
        if answers.registry is not None:
            files.assign(path, "REGISTRY", answers.registry)
        if answers.root is not None:
            _set_root(files, path, answers.root.rstrip("/"))
        if answers.ids:
            _set_ids(files, overlay, answers.ids)
    for component in (*answers.components, *_annotating(files, answers.annotations or {})):
        _add_component(files, overlays, component)
    if answers.placement is not None and (file := placement_file(files)):
        files.write(file, placement.built(package.name, answers.placement))


def edited(package: Package, changed: Mapping[str, bytes]) -> tuple[Tree, Entry]:
    """Return the package with its changes, and its inventory as it was: edits are to be seen as edits."""
    before = tree.read(package.folder)
    entries = tuple(
        replace(entry, content=changed[entry.path], size=len(changed[entry.path])) if entry.path in changed else entry
        for entry in before.entries
    )
    paths = {entry.path for entry in entries}
    added = [Entry(path, content, len(content)) for path, content in changed.items() if path not in paths]
    entries = tuple(sorted((*entries, *added), key=lambda entry: entry.path))
    sealed = inventory.content(package.folder)
    return replace(before, entries=entries), Entry(INVENTORY, sealed, len(sealed))


def added_options(files: Files) -> tuple[str, ...]:
    """Return the names of the options whose components are added."""
    new = (layout.component_of(path) for path in files.changed() if files.before(path) is None)
    return tuple(dict.fromkeys(name for name in new if name))


def changes(files: Files) -> Iterator[Change]:
    """Yield the lines that change, beside those of the components of options that are added."""
    for path, content in files.changed().items():
        if files.before(path) is None and layout.component_of(path):
            continue
        is_site = path.endswith(layout.site_env(""))
        # Lines as editors count them: other separators, such as U+2028, are part of a line.
        before, after = (
            text.decode(errors="replace").removesuffix("\n").split("\n") if text else []
            for text in (files.before(path) or b"", content)
        )
        for tag, first, last, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            lines = [*itertools.zip_longest(before[first:last], after[begin:end])] if tag != "equal" else []
            for number, (old, new) in enumerate(lines, start=begin + 1):
                if old is not None or new:  # a new blank line says nothing
                    shown = None if old is None else masked_line(old.strip(), is_site=is_site)
                    yield Change(path, number, shown, masked_line((new or "").strip(), is_site=is_site))


def _annotating(files: Files, annotations: Mapping[str, str]) -> Iterator[OwnComponent]:
    """Yield the component with annotations of the site, for the pods of all overlays; none without annotations."""
    if not annotations:
        return
    pods = [
        (entry, mapping(at(workload.data, ("metadata", "labels"))).get("mlpack/overlay"))
        for overlay in files.package.overlays
        for workload in workloads(files, overlay)
        for entry in structures.pods(workload)
    ]
    content = annotation_component(pods, annotations)
    entry = Entry(layout.KUSTOMIZATION, content, len(content))
    yield OwnComponent(SITE_ANNOTATIONS, (entry,))


def _add_component(files: Files, overlays: Sequence[str], component: OwnComponent) -> None:
    """Copy a component into the package, and list it in each overlay."""
    for entry in component.files:
        if not layout.is_added(f"{layout.ADDED}/{component.name}/{entry.path}") or entry.executable:
            hint = "all files are directly in its folder, have names that end with .yaml, and are not executable"
            raise UsageError(f"--with: {component.name}/{entry.path} cannot be added to a package", hint=hint)
    contents = {entry.path: b"".join(tree.chunks(entry)) for entry in component.files}
    files.add_component(overlays, component.name, contents)


def _set_root(files: Files, path: str, root: str) -> None:
    """Set the folder of the package: in MODEL_DIR, and in every value below that or below ROOT."""
    name = files.package.name
    text = files.read(path)
    model_dir = next((line.value for line in envfile.lines(text) if line.key == "MODEL_DIR"), None)
    if model_dir is None or not model_dir.endswith(f"/{name}"):
        reason = "MODEL_DIR is not set" if model_dir is None else f"MODEL_DIR does not end with /{name}: {model_dir!r}"
        raise UsageError(
            f"{files.package.shown(path)}: {reason}", hint=shlex.join(["--set", f"MODEL_DIR={root}/{name}"])
        )
    moves = ((model_dir, f"{root}/{name}"), (ROOT, root))
    for line in envfile.lines(text):
        for old, new in moves:
            if line.value == old or line.value.startswith(f"{old}/"):
                files.assign(path, line.key, new + line.value.removeprefix(old))
                break


def _set_ids(files: Files, overlay: str, new: Mapping[str, int]) -> None:
    paths = patches(files, overlay)
    if missing := new.keys() - ids(files, overlay).keys():
        where = ", ".join(files.package.shown(path) for path in paths) or f"{overlay} has no patches"
        raise UsageError(f"no patch of {overlay} sets {', '.join(sorted(missing))}: {where}")
    for path in paths:
        files.write(path, patch_ids.assign(files.read(path), new, files.package.shown(path)))


def _switch_options(files: Files, overlay: str, answers: Answers) -> None:
    switches = dict.fromkeys(answers.switch_on, True) | dict.fromkeys(answers.switch_off, False)
    if not (switches or answers.storage):
        return
    before = options(files, overlay)
    if answers.storage:
        off = {name: False for name in _replaced(answers.storage) if name in before}
        switches = off | switches | dict.fromkeys(answers.storage, True)
    _refuse_conflicts(before | switches)
    for name, on in switches.items():
        if on and name in BY_NAME and (name not in before or name in files.package.inventory.get("options", {})):
            additions.add(files, overlay, name)
        elif name not in before:
            listed = ", ".join(before) or "none"
            hint = similar(name, {**before, **BY_NAME} if on else before)
            raise UsageError(f"{overlay} has no option {name!r}; it has: {listed}", hint=hint)
    for name, on in switches.items():
        files.switch(overlay, name, on=on)
    for name, place in places(files, overlay).items():
        if not switches.get(name, True):
            path = files.package.shown(layout.kustomization(overlay))
            message = f"{path} does not list {name} any more, but it is still on"
            raise UsageError(message, hint=f"leave it out in {place.file}:{place.line}")


def _refuse_conflicts(options: Mapping[str, bool]) -> None:
    for conflict in conflicts(name for name, on in options.items() if on):
        raise UsageError(conflict.message, hint=conflict.hint)


def _replaced(storage: Sequence[str]) -> list[str]:
    """Return the options that are switched off when those of `storage` are switched on.

    A short form, such as nfs, replaces all others; one for a single folder those for the same folder alone.
    """
    for name in storage:
        if name not in _STORAGES:
            hint = similar(name, _STORAGES)
            raise UsageError(f"--storage {name}: expected one of {', '.join(_STORAGES)}", hint=hint)
    places = {place for name in storage for place in BY_NAME[name].places}
    replaced = [BY_NAME[name] for name in _STORAGES if name not in storage]
    if not _SHORT & set(storage):
        replaced = [option for option in replaced if places >= set(option.places)]
    needing = [option.name for option in OPTIONS if option.needs and not set(option.needs) & set(storage)]
    return [option.name for option in replaced] + (needing if "output" in places else [])


def _check_overlay(files: Files, overlay: str, answers: Answers, filled: Answers) -> None:
    """Refuse answers, and values of the site, with which the overlay could not run."""
    offered = options(files, overlay)
    _refuse_conflicts(offered)
    requested = {*answers.switch_on, *answers.storage, *filled.switch_on, *filled.storage}
    problems = [problem for option, problem in option_problems(files, overlay) if option in requested]
    if problems:
        raise UsageError("an option has no value; nothing was changed", problems=problems)
    if answers.amounts or answers.assignments:
        before = files.original.sources(overlay).refused
        if problems := [problem for problem in files.sources(overlay).refused if problem not in before]:
            raise UsageError("the package would be invalid; nothing was changed", problems=problems)
    if problems := list(invalid_ids(files, overlay)):
        raise VerificationError(
            f"{files.package.source} contains invalid values; nothing was changed", problems=problems
        )
    is_asked = answers.uid is not None or "root" in answers.switch_off
    if is_asked and ids(files, overlay).get("runAsUser") == 0 and not offered.get("root"):
        hint = "--with root allows it" if "root" in offered else None
        raise UsageError(f"{overlay} would run as root, which the package does not allow", hint=hint)
