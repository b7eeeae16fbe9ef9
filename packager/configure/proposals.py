"""Package -> Answers: what a site sets, and what is proposed to a user who configures.

Tests: configure/test_proposals.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.problems import Problem
from packager.builder.plan import Options, check_options
from packager.configure import additions, settings
from packager.configure.assignments import Assignment
from packager.configure.changes import Answers
from packager.kubernetes.containers import ROOT, root_fault
from packager.package import ids as patch_ids
from packager.package import kustomization, layout
from packager.package.ids import LARGEST_ID, is_id
from packager.package.image import registry_complaint
from packager.package.layout import env
from packager.package.options import BY_NAME, PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.configure.settings import Files
    from packager.package.opened import Package
    from packager.site.read import SiteSettings

_DELIVERED_ID = 1000
_KEYS = {"uid": "runAsUser", "gid": "runAsGroup", "fs_group": "fsGroup"}


def site_answers(files: Files, overlay: str, site: SiteSettings, given: Answers) -> Answers:
    """Return the answers that a site makes for an overlay: those that a person has neither edited nor given.

    A default takes the place of what the package was built with. What a person has edited stays, and the options of the
    command line count more.
    """
    path, now = env(overlay), settings.options(files, overlay)
    text = files.package.sealed(layout.kustomization(overlay)) or b""
    built = {component.name for component in kustomization.components(text) if component.on}
    assigned = {entry.key for entry in given.assignments}
    switched_on = {name for name in (*given.switch_on, *given.storage) if name in BY_NAME}
    chosen = {*given.switch_on, *given.switch_off}

    def is_available(name: str) -> bool:
        """Whether the overlay lists an option, on or off, or it can be added."""
        return name in now or additions.can_add(files, overlay, name)

    def is_as_built(path: str, key: str) -> bool:
        """Whether a file has the value that it was built with, and the command line sets no other one."""
        texts = (files.read(path), files.package.sealed(path) or b"")
        values = [next((line.value for line in envfile.lines(text) if line.key == key), None) for text in texts]
        return key not in assigned and values[0] == values[1]

    edited = {name for name in {*now, *built} if now.get(name, False) != (name in built)}
    has_storage = any(BY_NAME[name].places for name in {*given.storage, *chosen, *edited} if name in BY_NAME)
    storage = () if has_storage else tuple(filter(is_available, site.storage))
    on = tuple(
        name
        for name in site.options
        if name not in chosen and name not in edited and is_available(name)
        if not BY_NAME[name].needs or set(BY_NAME[name].needs) & set(storage)
    )
    # What the site says of their keys holds for the options that the person switches on, too.
    used = {*on, *storage, *switched_on}
    paths = settings.site_files(files.package)
    new = [name for name in used if name not in now and is_available(name)]
    present = additions.keys(files, new) if new else set()
    present.update(key for path in paths for key in envfile.keys(files.read(path)))
    keys = {key.name for name in used for key in BY_NAME[name].keys} & present
    model_dir = settings.value(files, overlay, "MODEL_DIR") or ""
    has_folders_as_built = model_dir.endswith(f"/{files.package.name}") and is_as_built(path, "MODEL_DIR")
    placed = settings.placement_file(files)
    is_placed_as_built = placed is None or files.read(placed) == files.package.sealed(placed)
    return Answers(
        root=site.config.root if given.root is None and has_folders_as_built else None,
        registry=site.config.registry if given.registry is None and is_as_built(path, "REGISTRY") else None,
        assignments=tuple(
            Assignment("--site", key, value)
            for key, value in site.values.items()
            if key in keys and all(is_as_built(path, key) for path in paths)
        ),
        switch_on=on,
        storage=storage,
        placement=(site.placement or None) if PLACEMENT in used and is_placed_as_built else None,
        annotations=site.config.annotations,
        **_ids(files, overlay, site, given),
    )


def _ids(files: Files, overlay: str, site: SiteSettings, given: Answers) -> dict[str, Any]:
    """Return the ids that neither the person nor the command line has set."""
    now: dict[str, object] = {}
    built: dict[str, object] = {}
    for path in settings.patches(files, overlay):
        now = patch_ids.read(files.read(path), path) | now
        built = patch_ids.read(files.package.sealed(path) or b"", path) | built
    as_built = {key for key, value in now.items() if value == built.get(key)}
    return {key: value for key, value in site.ids.items() if getattr(given, key) is None and _KEYS[key] in as_built}


@dataclass(frozen=True, slots=True)
class Proposal:
    """The proposed values."""

    answers: Answers  # the valid values of the package, and values that fit the user instead of the invalid ones
    problems: tuple[Problem, ...]  # the invalid values of the package


def proposal(package: Package, overlays: tuple[str, ...], *, uid: int, gid: int) -> Proposal:
    """Return the values to propose for a package to a user with this user and group id."""
    files = settings.Files(package)
    problems = tuple(problem for overlay in overlays for problem in _invalid_values(files, overlay))
    ids = {key: value for key, value in settings.ids(files, overlays[0]).items() if is_id(value)}
    root, registry = settings.root(files, overlays[0]), settings.value(files, overlays[0], "REGISTRY")

    def proposed_id(key: str, own: int) -> int:
        """Return the current id if it differs from the delivered one, else that of the user.

        The delivered package refuses root, so root's id is not proposed.
        """
        current = int(str(ids.get(key, _DELIVERED_ID)))
        return own if own and current == _DELIVERED_ID else current

    group = proposed_id("runAsGroup", gid)
    answers = Answers(
        root=root if root and not root_fault(root) else str(package.source.resolve().parent),
        registry=registry if registry and not registry_complaint(registry) else "docker.io",
        uid=proposed_id("runAsUser", uid),
        gid=group,
        fs_group=proposed_id("fsGroup", group),
    )
    return Proposal(answers, problems)


def parse_root(answer: str) -> str:
    """Return the folder in the user's answer. Raises UsageError when it is not a valid folder of a package."""
    check_options(Options(root=answer))
    return answer


def parse_registry(answer: str) -> str:
    """Return the registry in the user's answer. Raises UsageError when it is not valid."""
    check_options(Options(registry=answer))
    return answer


def parse_id(answer: str) -> int:
    """Return the id in the user's answer. Raises UsageError when it is not valid."""
    if not re.fullmatch("[0-9]{1,10}", answer) or int(answer) > LARGEST_ID:
        raise UsageError("expected a number, as `id -u` prints it")
    return int(answer)


def _invalid_values(files: Files, overlay: str) -> Iterator[Problem]:
    """Yield a problem for each invalid value of the overlay."""
    path = env(overlay)
    for line in envfile.lines(files.read(path)):
        root = line.value.removesuffix(f"/{files.package.name}")
        checks = {"MODEL_DIR": (root, root_fault), "REGISTRY": (line.value, registry_complaint)}
        value, fault_of = checks.get(line.key, ("", None))
        if fault_of and value != ROOT and (fault := fault_of(value)):
            message = f"{line.key}: {fault}, found {line.value!r}"
            yield Problem(files.package.shown(path), line.number, len(line.key) + 2, message)
    yield from settings.invalid_ids(files, overlay)
