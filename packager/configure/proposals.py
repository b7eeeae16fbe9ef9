"""Proposes values to a user who configures a package, and validates the answers. Tests: cli/test_configure.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.problems import Problem
from packager.builder.plan import Options, check_options
from packager.configure import settings
from packager.configure.changes import Answers
from packager.kubernetes.mountpath import ROOT, root_fault
from packager.package.ids import LARGEST_ID, is_id
from packager.package.image import registry_complaint
from packager.package.layout import env

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.package.opened import Package

_DELIVERED_ID = 1000


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


def _invalid_values(files: settings.Files, overlay: str) -> Iterator[Problem]:
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
