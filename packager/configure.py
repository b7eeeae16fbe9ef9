"""Package + Answers -> changed files: the edits that a package leaves to its user, in the files that hold them.

mlops.env says where the package lies and where its image comes from; the patches say as which user it runs; the
overlay's kustomization.yaml lists the site options. What a person has written there otherwise stays as it is.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager import edits, envfile, tree
from packager.components import BY_NAME, OPTIONS, conflicts
from packager.errors import UsageError
from packager.manifest import MANIFEST
from packager.problems import similar
from packager.settings import (
    UNSET_ROOT,
    Files,
    env,
    ids,
    kustomization,
    lacking,
    options,
    patches,
    site_files,
)
from packager.tree import Entry, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.package import Package

_STORAGES = tuple(option.name for option in OPTIONS if option.storage)

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALUE_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class Answers:
    """What the user says; None, or nothing, leaves things as they are.

    Attributes:
        root: The folder that the package lies in.
        registry: Where its image is pulled from.
        uid: The user that it runs as.
        gid: Its group.
        fs_group: The group that its volumes belong to.
        settings: Other values, by key.
        switch_on: Site options.
        switch_off: Site options.
        storage: The one storage option.
    """

    root: str | None = None
    registry: str | None = None
    uid: int | None = None
    gid: int | None = None
    fs_group: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    switch_on: tuple[str, ...] = ()
    switch_off: tuple[str, ...] = ()
    storage: str | None = None

    @property
    def ids(self) -> dict[str, int]:
        """The ids that are given, by the keys of a pod's security context."""
        given = {"runAsUser": self.uid, "runAsGroup": self.gid, "fsGroup": self.fs_group}
        return {key: value for key, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Change:
    """A line that changes: its file below the package's root, its number, what it was (None: it is new) and becomes."""

    path: str
    line: int
    before: str | None
    after: str


def configure(package: Package, overlays: Sequence[str], answers: Answers) -> dict[str, bytes]:
    """Return the new content of every file that changes, by its path below the package's root.

    Raises:
        UsageError: An answer does not fit this package.
        ToolError: A file that would be edited cannot be read.
    """
    files = Files(package)
    for overlay in overlays:
        _switch(files, overlay, answers)
    for key, value in answers.settings:
        _check(key, value)
        _set(files, overlays, key, value)
    for overlay in overlays:
        path = env(overlay)
        if answers.registry is not None:
            files.assign(path, "REGISTRY", answers.registry)
        if answers.root is not None:
            _move(files, path, answers.root.rstrip("/"))
        if answers.ids:
            _identify(files, overlay, answers.ids)
    for overlay in overlays:
        _fit(files, overlay, answers)
    return files.changed()


def edited(package: Package, changed: Mapping[str, bytes]) -> tuple[Tree, Entry]:
    """Return the package with its changes, and its manifest as it was: edits are to be seen as edits."""
    before = tree.read(package.folder)
    entries = tuple(
        replace(entry, content=changed[entry.path], size=len(changed[entry.path])) if entry.path in changed else entry
        for entry in before.entries
    )
    manifest = (package.folder / MANIFEST).read_bytes()
    return replace(before, entries=entries), Entry(MANIFEST, manifest, len(manifest))


def changes(package: Package, changed: Mapping[str, bytes]) -> Iterator[Change]:
    """Yield the lines that change."""
    files = Files(package)
    for path, content in changed.items():
        before, after = (text.decode(errors="replace").splitlines() for text in (files.read(path), content))
        for number, (old, new) in enumerate(itertools.zip_longest(before, after), start=1):
            if old != new:
                yield Change(path, number, old, new or "")


def _move(files: Files, path: str, root: str) -> None:
    """Set the folder that the package lies in: in MODEL_DIR, and in every value that lies below that or below ROOT."""
    name = files.package.name
    text = files.read(path)
    model_dir = next((line.value for line in envfile.lines(text) if line.key == "MODEL_DIR"), None)
    if model_dir is None or not model_dir.endswith(f"/{name}"):
        said = "there is no MODEL_DIR" if model_dir is None else f"MODEL_DIR={model_dir} does not end with /{name}"
        raise UsageError(f"{files.package.shown(path)}: {said}", hint=f"--set MODEL_DIR={root}/{name}")
    moves = ((model_dir, f"{root}/{name}"), (UNSET_ROOT, root))
    for line in envfile.lines(text):
        for old, new in moves:
            if line.value == old or line.value.startswith(f"{old}/"):
                files.assign(path, line.key, new + line.value.removeprefix(old))
                break


def _identify(files: Files, overlay: str, wanted: Mapping[str, int]) -> None:
    there = patches(files, overlay)
    if missing := wanted.keys() - ids(files, overlay).keys():
        where = ", ".join(files.package.shown(path) for path in there) or f"{overlay} has no patches"
        raise UsageError(f"no patch of {overlay} sets {', '.join(sorted(missing))}: {where}")
    for path in there:
        files.write(path, edits.set_ids(files.read(path), wanted, files.package.shown(path)))


def _switch(files: Files, overlay: str, answers: Answers) -> None:
    there = options(files, overlay)
    wanted = dict.fromkeys(answers.switch_on, True) | dict.fromkeys(answers.switch_off, False)
    if answers.storage is not None:
        if answers.storage not in _STORAGES:
            hint = similar(answers.storage, _STORAGES)
            raise UsageError(f"--storage {answers.storage}: expected one of {', '.join(_STORAGES)}", hint=hint)
        others = [option.name for option in OPTIONS if option.storage or option.needs in _STORAGES]
        off = {name: False for name in others if name in there and BY_NAME[name].needs != answers.storage}
        wanted = off | wanted | {answers.storage: True}
    for name in wanted:
        if name not in there:
            listed = ", ".join(there) or "none"
            raise UsageError(f"{overlay} has no option {name!r}; it has: {listed}", hint=similar(name, there))
    for conflict in conflicts(name for name, on in (there | wanted).items() if on):
        raise UsageError(conflict.message, hint=conflict.hint)
    text = files.read(kustomization(overlay))
    for name, on in wanted.items():
        text = edits.switch(text, name, on=on)
    files.write(kustomization(overlay), text)


def _fit(files: Files, overlay: str, answers: Answers) -> None:
    """Refuse answers with which the overlay could not run."""
    asked = {*answers.switch_on, answers.storage}
    problems = [problem for option, problem in lacking(files, overlay) if option in asked]
    if problems:
        raise UsageError("nothing was changed: an option lacks a value", problems=problems)
    is_asked = answers.uid is not None or "root" in answers.switch_off
    offered = options(files, overlay)
    if is_asked and ids(files, overlay).get("runAsUser") == 0 and not offered.get("root"):
        hint = "--with root permits it" if "root" in offered else None
        raise UsageError(f"{overlay} would run as root, which is refused as delivered", hint=hint)


def _set(files: Files, overlays: Sequence[str], key: str, value: str) -> None:
    """Set `key` where it stands: where the options' values are, else in each overlay's mlops.env."""
    site = [path for path in site_files(files.package) if _has(files.read(path), key)]
    for path in site:
        files.assign(path, key, value)
    for overlay in overlays:
        path = env(overlay)
        if not site or _has(files.read(path), key):
            files.assign(path, key, value)


def _has(text: bytes, key: str) -> bool:
    return edits.offered(text, key) is not None or any(line.key == key for line in envfile.lines(text))


def _check(key: str, value: str) -> None:
    if not _KEY.fullmatch(key):
        raise UsageError(f"--set {key}: expected KEY=VALUE, with a key of letters, digits and '_'")
    if any(ord(character) < 32 and character != "\t" for character in value) or len(value.encode()) > _VALUE_BYTES:
        raise UsageError(f"--set {key}: expected a value of one line, of at most {_VALUE_BYTES >> 10} KiB")
